package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// A variant holds the rules of a Limiter.Variant, which replace rules of the Limiter.
type variant struct {
	rules  *ruleSet
	cached atomic.Pointer[merged] // the latest result of over
}

// merged is the result of variant.over for a ruleSet.
type merged struct{ base, result *ruleSet }

// over returns base with the rules of v.
func (v *variant) over(base *ruleSet) *ruleSet {
	if m := v.cached.Load(); m != nil && m.base == base {
		return m.result
	}
	m := &merged{base, base.with(v.rules)}
	v.cached.Store(m)
	return m.result
}

// Variant returns a view of l in which rules replace the rules of l with the same names and
// algorithms, including their plans. The limits and all other properties may differ. Use it with
// [Limiter.Choose] for exceptions of single keys, such as a higher limit of one customer, and to try
// a limit on a part of the keys. For a trial that is not enforced, add a second rule: a [Rule.Shadow]
// in place of an enforced rule would leave these keys without a limit.
//
//	api, err := core.New(store,
//		core.TokenBucket("api", core.PerMinute(10)),
//		core.TokenBucket("trial", core.Unlimited))
//	larger, err := api.Variant(core.TokenBucket("api", core.PerMinute(50)))
//	trial, err := api.Variant(core.TokenBucket("trial", core.PerMinute(5)).Shadow())
//
// A view has the Store, the waiting callers and the states of l: limits of one length (see [Rule])
// share a state. The Store does not learn about the rules of a view, so they cannot conflict with
// rules of other limiters.
//
// After [Limiter.Replace], the view has the new rules of l, except those that rules still replace.
// A rule whose name or algorithm l has no longer is ignored. A Variant of a view replaces the
// Variant that the view had, and keeps its plan. A Variant takes about a kilobyte for each rule and
// each plan.
//
// The error is a [RuleError] if a rule is invalid, or if l has no rule of its name and algorithm.
func (l *Limiter) Variant(rules ...Rule) (*Limiter, error) {
	s, err := newRuleSet(rules)
	if err != nil {
		return nil, err
	}
	base := l.current.Load()
	for _, r := range rules {
		if slices.ContainsFunc(base.rules, func(o Rule) bool { return isBan(o, r) }) {
			return nil, r.d.spec.invalid("name", "is given to two rules of one limiter")
		}
		if base.find(r) < 0 {
			return nil, r.d.spec.invalid("name", fmt.Sprintf("and the algorithm %s belong to no rule of the limiter", r.Algorithm()))
		}
	}
	if err := base.with(s).checkCharges(); err != nil {
		return nil, err
	}
	v := *l
	v.variant = &variant{rules: s}
	return &v, nil
}

// Choose returns a view of l that calls pick for the key of every event, and uses the view of l
// that pick returns: a [Limiter.Variant], a [Limiter.Plan], or nil for l itself. If the picked view
// has a plan, that plan has precedence over the plan of the event. Give the result of Choose to the
// middleware, in place of l. The key is then that of its key function, such as "user:ann":
//
//	chosen := api.Choose(func(_ context.Context, key string) (*core.Limiter, error) {
//		if key == "user:ann" && time.Now().Before(friday) {
//			return larger, nil
//		}
//		return nil, nil
//	})
//
// Every decision calls pick once for each key, and so does every other method with a key. Wait calls
// it for each attempt, and a decision calls it again if [ReplaceAll] has replaced rules meanwhile.
// Calls are concurrent. pick must be fast, because the decision waits for it, and must not replace
// rules: the method then returns an [ErrInvalidAsk]. Choose panics if pick is nil.
//
// If pick returns an error, nothing is charged. The method returns an [ErrUnavailable], or an error
// after the end of ctx, as it is. Any other error is wrapped in an [ErrInvalidAsk]. A result that is
// no view of l, or that was made by Choose itself, is an ErrInvalidAsk, too.
//
// A second Choose replaces the first.
func (l *Limiter) Choose(pick func(ctx context.Context, key string) (*Limiter, error)) *Limiter {
	if pick == nil {
		panic("core: Choose: pick is nil")
	}
	v := *l
	v.pick = func(ctx context.Context, key string) (*Limiter, time.Duration, error) {
		picked, err := pick(ctx, key)
		return picked, 0, err
	}
	return &v
}

// A pickFunc is the function of Choose, or of ChooseFor of package unexported.
type pickFunc = func(ctx context.Context, key string) (picked *Limiter, ends time.Duration, err error)

// A choice is the view for an event. ends is the time after which a pickFunc picks another view, or
// zero if that time is not known.
type choice struct {
	view
	ends time.Duration
}

// chosen returns the view for an event of key, as choose does, and its rules: both from before or
// both from after any call of ReplaceAll.
func (l *Limiter) chosen(ctx context.Context, key, plan string) (c choice, rules []Rule, err error) {
	if l.pick == nil {
		if c, err = l.choose(ctx, key, plan); err == nil {
			rules = c.rules()
		}
		return c, rules, err
	}
	var s *ruleSet
	err = readRules(func() (err error) {
		if c, err = l.choose(ctx, key, plan); err == nil {
			s = c.ruleSet()
		}
		return err
	})
	if err == nil {
		rules = c.planned(s)
	}
	return c, rules, err
}

// choose returns the view for an event of key. plan, if not empty, replaces the plan of l.
func (l *Limiter) choose(ctx context.Context, key, plan string) (choice, error) {
	c := choice{view: l.view}
	if key == "" {
		return c, ErrEmptyKey
	}
	if plan != "" {
		c.plan = plan
	}
	if l.pick == nil {
		return c, nil
	}
	picked, ends, err := l.pick(ctx, key)
	switch {
	case err != nil && (errors.Is(err, ErrUnavailable) || ctx.Err() != nil):
		return c, err
	case err != nil:
		return c, fmt.Errorf("%w: the function of Choose or LimitOf: %w", ErrInvalidAsk, err)
	case picked == nil:
		return c, nil
	case picked.shared != l.shared || picked.pick != nil:
		return c, invalidAsk("the function of Choose returned no view of its limiter, or one that Choose has made")
	}
	if picked.plan != "" {
		c.plan = picked.plan
	}
	c.variant, c.ends = picked.variant, ends
	return c, nil
}

// ruleSet returns the present rules.
func (v *view) ruleSet() *ruleSet {
	s := v.current.Load()
	if v.variant != nil {
		s = v.variant.over(s)
	}
	return s
}

// rules returns the present rules for the plan of v.
func (v *view) rules() []Rule { return v.planned(v.ruleSet()) }

// planned returns the rules of s, a ruleSet of v, for the plan of v.
func (v *view) planned(s *ruleSet) []Rule {
	rules, known := s.of(v.plan)
	if !known {
		v.current.Load().warned.warn(v.plan, s, v.observer)
	}
	return rules
}

// states returns rules that have all states of v: for each rule, those of every length, and those that it
// still follows after ReplaceAll.
func (v *view) states() (rules []Rule) {
	rules = slices.Clone(v.ruleSet().states())
	for _, r := range v.current.Load().states() {
		rules = addState(rules, r)
	}
	for _, f := range v.replaced() { // the buckets from which those of v begin
		for _, r := range f.rules.states() {
			if r.Kind().Refills && v.current.Load().find(r) >= 0 {
				rules = addState(rules, r)
			}
		}
	}
	return rules
}
