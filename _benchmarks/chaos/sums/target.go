package main

import (
	"slices"

	"github.com/weir-go/weir/core"
)

// A target is a limiter on each store, of one rule or of several, whose charges are made together.
type target struct {
	rules    []int // the indexes of the rules
	limited  bool  // operations may be denied, and none charges more than fits
	limiters [stores]*core.Limiter
	healthy  *core.Limiter // on the store without faults
}

// newTargets returns a target for each rule, one for all rules with an open limit, and one for all others.
func newTargets(s *system, all []rule) (targets []*target, err error) {
	var opens, limits []int
	for i, r := range all {
		if r.limited() {
			limits = append(limits, i)
		} else {
			opens = append(opens, i)
		}
	}
	groups := [][]int{opens, limits}
	for i := range all {
		groups = append(groups, []int{i})
	}
	for _, group := range groups {
		t := &target{rules: group, limited: all[group[0]].limited()}
		var definitions []core.Rule
		for _, i := range group {
			definitions = append(definitions, all[i].Rule)
		}
		for i, store := range s.stores {
			if t.limiters[i], err = core.New(store, definitions...); err != nil {
				return nil, err
			}
		}
		if t.healthy, err = core.New(s.healthy, definitions...); err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// of returns the target of one rule.
func of(targets []*target, rule int) *target {
	return targets[slices.IndexFunc(targets, func(t *target) bool { return len(t.rules) == 1 && t.rules[0] == rule })]
}
