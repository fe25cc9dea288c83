package core

import (
	"slices"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
)

// A ruleSet holds the rules of a Limiter, and the same rules with the limits of every plan.
type ruleSet struct {
	rules    []Rule
	plans    map[string]*atomic.Pointer[[]Rule] // by the name of the plan; nil before its first event
	unknown  []Rule                             // the rules for callers whose plan is not in plans
	replaced chan struct{}                      // closed when the Limiter has got other rules; nil for a result of with
	warned   unknownPlans
}

// newRuleSet checks and compiles rules.
func newRuleSet(rules []Rule) (*ruleSet, error) {
	if len(rules) == 0 {
		return nil, &RuleError{Field: "rules", Reason: "are missing: a limiter needs at least one", Category: ErrInvalidRule}
	}
	s := &ruleSet{rules: slices.Clone(rules), replaced: make(chan struct{})}
	for i, r := range s.rules {
		d := r.def()
		if d.err != nil {
			return nil, d.err
		}
		for _, other := range s.rules[:i] {
			if other.Name() == d.Name {
				return nil, d.invalid("name", "is given to two rules of one limiter")
			}
		}
		for _, p := range d.plans {
			if err := p.checkPlan(); err != nil {
				return nil, err
			}
		}
	}
	s.addPlans()
	s.unknown = slices.Clone(s.rules)
	for i, r := range s.unknown {
		if len(r.d.plans) > 0 {
			s.unknown[i] = r.withUnknownPlan()
		}
	}
	return s, nil
}

// addPlans sets s.plans. The rules for a plan are made at its first event: those of all plans would
// take memory for each rule times each plan.
func (s *ruleSet) addPlans() {
	s.plans = make(map[string]*atomic.Pointer[[]Rule])
	for _, r := range s.rules {
		for _, p := range r.d.plans {
			if name := p.PlanName(); s.plans[name] == nil {
				s.plans[name] = new(atomic.Pointer[[]Rule])
			}
		}
	}
}

// of returns the rules for a plan. It reports false if the rules have plans, but not this one.
func (s *ruleSet) of(plan string) (rules []Rule, known bool) {
	if plan == "" || len(s.plans) == 0 {
		return s.rules, true
	}
	p := s.plans[plan]
	if p == nil {
		return s.unknown, false
	}
	if made := p.Load(); made != nil {
		return *made, true
	}
	return s.makePlan(plan, p), true
}

// makePlan returns the rules for a plan, and stores them in to. A rule that does not have the plan
// has its own limit in it.
func (s *ruleSet) makePlan(plan string, to *atomic.Pointer[[]Rule]) []Rule {
	rules := slices.Clone(s.rules)
	for i, r := range rules {
		if at := slices.IndexFunc(r.d.plans, func(p Rule) bool { return p.PlanName() == plan }); at >= 0 {
			rules[i] = r.d.plans[at]
		}
	}
	to.Store(&rules)
	return rules
}

// all returns the rules, each followed by the same rule with the limits of its plans.
func (s *ruleSet) all() (rules []Rule) {
	for _, r := range s.rules {
		rules = append(append(rules, r), r.d.plans...)
	}
	return rules
}

func (s *ruleSet) definitions() (all []driver.Definition) {
	for _, r := range s.all() {
		all = append(all, r.d.Definition)
	}
	return all
}

// find returns the index of the rule that has the name and algorithm of r, or -1.
func (s *ruleSet) find(r Rule) int {
	return slices.IndexFunc(s.rules, func(o Rule) bool {
		return o.Name() == r.Name() && o.Algorithm() == r.Algorithm()
	})
}

// with returns a copy of s in which the rules of o replace the rules of the same name and
// algorithm, together with their plans. It ignores other rules of o.
func (s *ruleSet) with(o *ruleSet) *ruleSet {
	merged := &ruleSet{rules: slices.Clone(s.rules), unknown: slices.Clone(s.unknown)}
	for i, r := range o.rules {
		if at := s.find(r); at >= 0 {
			merged.rules[at], merged.unknown[at] = r, o.unknown[i]
		}
	}
	merged.addPlans()
	return merged
}
