package core

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/waiters"
)

// shared is the part of a Limiter that it shares with its views.
type shared struct {
	store    Store
	observer driver.Observer  // store, if it is one
	local    bool             // see driver.Description
	steady   bool             // likewise
	now      func() time.Time // the clock for the calendar of quotas
	current  atomic.Pointer[ruleSet]
	formers  atomic.Pointer[[]*former] // of the latest calls of ReplaceAll, or nil
	waiters  waiters.List[view]
}

// A view selects the rules of a Limiter for an event.
type view struct {
	*shared
	variant *variant // nil unless Limiter.Variant has made the view
	plan    string
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
	rules = slices.Clip(v.ruleSet().states())
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

// replaced returns the rules before the latest calls of ReplaceAll, the latest last. It forgets them when all are over, so
// that later decisions do not read the time.
func (s *shared) replaced() []*former {
	formers := s.formers.Load()
	switch {
	case formers == nil:
		return nil
	case !slices.ContainsFunc(*formers, func(f *former) bool { return !f.isOver() }):
		s.formers.CompareAndSwap(formers, nil)
		return nil
	}
	return *formers
}
