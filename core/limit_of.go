package core

import (
	"context"
	"fmt"
	"slices"

	"github.com/weir-go/weir/core/internal/memo"
)

// LimitOf returns a view of l in which the first rule of l has, for each key, the limit that limit returns, such as that
// of a tenant in a table:
//
//	perTenant := api.LimitOf(func(_ context.Context, key string) (core.Limit, error) {
//		return limits.Load().of[key], nil // a map that the program reads again every minute
//	})
//
// The zero Limit means the rule as it is, with its plans. Any other limit replaces that of the rule and of its plans, and
// the other properties stay. It may be [Unlimited] or [Blocked]. Limits of one length (see [Rule]) share the state of the
// key, so a tenant with a new limit keeps the events that it has used.
//
// LimitOf is [Limiter.Choose] with a [Limiter.Variant] for each different limit, of which it keeps at most 4096: a
// thousand tenants with one limit need one. limit is called as the function of Choose is: once for each decision and key,
// concurrently, while the decision waits. The errors are the same, and a limit that is invalid for the rule is an
// [ErrInvalidAsk]. LimitOf panics if limit is nil.
func (l *Limiter) LimitOf(limit func(ctx context.Context, key string) (Limit, error)) *Limiter {
	if limit == nil {
		panic("core: LimitOf: limit is nil")
	}
	t := &tailored{of: l}
	t.views.Max = maxTailored
	return l.Choose(func(ctx context.Context, key string) (*Limiter, error) {
		of, err := limit(ctx, key)
		if err != nil || of == (Limit{}) {
			return nil, err
		}
		v := t.views.Get(tailoredTo{l.ruleSet(), of}, t.view)
		return v.limiter, v.err
	})
}

// maxTailored is the largest number of views that LimitOf keeps.
const maxTailored = 4096

// tailored has views of a Limiter with other limits of its first rule.
type tailored struct {
	of    *Limiter
	views memo.Map[tailoredTo, tailoredView]
}

type tailoredTo struct {
	rules *ruleSet
	limit Limit
}

type tailoredView struct {
	limiter *Limiter
	err     error
}

// view returns a view with the rules and the limit of to.
func (t *tailored) view(to tailoredTo) tailoredView {
	rules := slices.Clone(to.rules.rules)
	rules[0] = rules[0].with(func(s *Spec) {
		s.Limit = to.limit
		for i := range s.Plans { // an event of such a plan would have an unknown one otherwise
			s.Plans[i].Limit = to.limit
		}
	})
	v, err := t.of.Variant(rules...)
	if err != nil {
		return tailoredView{err: fmt.Errorf("the limit %v of LimitOf: %w", to.limit, err)}
	}
	return tailoredView{limiter: v}
}
