package core

import (
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// A ruleSet holds the rules of a Limiter, and the same rules with the limits of every plan.
type ruleSet struct {
	rules    []Rule
	plans    map[string][]Rule // by the name of the plan
	unknown  []Rule            // the rules for callers whose plan is not in plans
	replaced chan struct{}     // closed when the Limiter has got other rules; nil for a result of with
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

// addPlans sets s.plans. A rule that does not have a plan has its own limit in it.
func (s *ruleSet) addPlans() {
	s.plans = make(map[string][]Rule)
	for i, r := range s.rules {
		for _, p := range r.d.plans {
			name := p.PlanName()
			if s.plans[name] == nil {
				s.plans[name] = slices.Clone(s.rules)
			}
			s.plans[name][i] = p
		}
	}
}

// of returns the rules for a plan. It reports false if the rules have plans, but not this one.
func (s *ruleSet) of(plan string) (rules []Rule, known bool) {
	if plan == "" || len(s.plans) == 0 {
		return s.rules, true
	}
	if rules, known = s.plans[plan]; known {
		return rules, true
	}
	return s.unknown, false
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
