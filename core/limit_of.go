package core

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core/internal/memo"
)

// LimitOf returns a view of l in which the first rule of l has, for each key, the limit that limit returns, such as that
// of a tenant in a table:
//
//	perTenant := api.LimitOf(func(_ context.Context, key string) (core.Limit, error) {
//		return limits.Load().of[key], nil // a map that the program reads again every minute
//	})
//
// A [Pause] does not count as the first rule. The zero Limit means the rule as it is, with its plans. Any other limit
// replaces that of the rule and of its plans, and the other properties stay. It may be [Unlimited] or [Blocked]. Limits of
// one length (see [Rule]) share the state of the key, so a tenant with a new limit keeps the events that it has used.
//
// LimitOf is [Limiter.Choose] with a [Limiter.Variant] for each different limit: a thousand tenants with one limit need one
// Variant. It keeps at most 4096 of them. limit is called as the function of Choose is: once for each decision and key,
// concurrently, while the decision waits. The errors are the same, and a limit that is invalid for the rule is an
// [ErrInvalidAsk]. LimitOf panics if limit is nil.
//
// If l has been made by Choose, LimitOf or package rules, that function is called first. If it picks a plan, or another
// limit for the first rule, such as a block by an operator, that has precedence.
func (l *Limiter) LimitOf(limit func(ctx context.Context, key string) (Limit, error)) *Limiter {
	if limit == nil {
		panic("core: LimitOf: limit is nil")
	}
	base, v := *l, *l
	base.pick, base.plan = nil, ""
	t := &tailored{of: &base}
	t.views.Max = maxTailored
	v.pick = func(ctx context.Context, key string) (picked *Limiter, ends time.Duration, err error) {
		if l.pick != nil {
			picked, ends, err = l.pick(ctx, key)
			if err != nil || picked != nil && (picked.shared != l.shared || picked.pick != nil || picked.plan != "") {
				return picked, ends, err
			}
		}
		of, err := limit(ctx, key)
		if err != nil || of == (Limit{}) {
			return picked, ends, err
		}
		set := base.ruleSet()
		if picked != nil {
			own := set
			set = picked.ruleSet()
			if i := own.first(); i >= 0 && set.rules[i].Limit() != own.rules[i].Limit() {
				return picked, ends, nil
			}
		}
		v := t.views.Get(tailoredTo{set, of}, t.view)
		return v.limiter, ends, v.err
	}
	return &v
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
	i := to.rules.first()
	if i < 0 {
		return tailoredView{err: invalidAsk("LimitOf of a limiter that has only a Pause")}
	}
	rules := slices.Clone(to.rules.rules)
	rules[i] = rules[i].with(func(s *Spec) {
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

// first returns the index of the first rule of s that is no Pause, or -1.
func (s *ruleSet) first() int {
	return slices.IndexFunc(s.rules, func(r Rule) bool { return !closes(r) })
}
