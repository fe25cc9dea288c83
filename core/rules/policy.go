package rules

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/unexported"
	"github.com/weir-go/weir/core/rules/internal/overrides"
)

// A policy is a limiter of a Set.
type policy struct {
	root    *core.Limiter // has the present rules
	limiter *core.Limiter // a view of root, with the overrides
	current atomic.Pointer[version]
}

func newPolicy(s core.Store, rules []core.Rule) (*policy, error) {
	root, err := core.New(s, rules...)
	if err != nil {
		return nil, err
	}
	p := &policy{root: root}
	p.limiter = inner.ChooseFor(root, func(ctx context.Context, key string) (*core.Limiter, time.Duration, error) {
		return p.current.Load().pick(ctx, key)
	})
	return p, nil
}

var inner = unexported.Core.(interface {
	ChooseFor(l *core.Limiter, pick func(ctx context.Context, key string) (*core.Limiter, time.Duration, error)) *core.Limiter
	Off(r core.Rule) core.Rule
	ReplaceAll(rules map[*core.Limiter][]core.Rule, then func()) error
})

// hasPlan reports whether a rule of p has a plan of the name.
func (p *Policy) hasPlan(name string) bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return slices.Contains(r.planNames(), name) })
}

// countRules returns the number of rules of p on the store.
func (p *Policy) countRules() (n int) {
	for i := range p.Rules {
		if n++; p.Rules[i].Candidate != nil {
			n++
		}
	}
	return n
}

// check returns an error if p, which is called name, cannot have the override o.
func (p *Policy) check(name string, o *overrides.Content) error {
	if o.Plan != "" && !p.hasPlan(o.Plan) {
		return fmt.Errorf("no rule of the policy has the plan %q", o.Plan)
	}
	for rule, l := range o.Limits {
		at := slices.IndexFunc(p.Rules, func(r Rule) bool { return r.Name == rule })
		if at < 0 {
			return fmt.Errorf("the policy has no rule %q", rule)
		}
		if err := p.Rules[at].checkLimit(storeName(name, rule), l); err != nil {
			return err
		}
	}
	return nil
}

// storeRules returns the rules of p on the store, where the policy is called name: each rule, and
// after it its candidate.
func (p *Policy) storeRules(name string) (rules []core.Rule) {
	for i := range p.Rules {
		r := &p.Rules[i]
		at := storeName(name, r.Name)
		s := r.spec(at)
		s.Label = r.Name
		rules = append(rules, core.NewRule(s))
		if r.Candidate != nil {
			rules = append(rules, core.NewRule(r.Candidate.spec(candidateName(at))).Shadow())
		}
	}
	return rules
}
