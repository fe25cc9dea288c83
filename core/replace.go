package core

import (
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/seqlock"
)

// ReplaceAll replaces the rules of several limiters, as [Limiter.Replace] does, at once: no decision
// of [AllowTogether] uses old rules of one and new rules of another limiter. All limiters must have
// the same Store, and the map must not contain nil or two views of one Limiter. Otherwise the error
// is an [ErrInvalidAsk]. On an error nothing changes.
func ReplaceAll(rules map[*Limiter][]Rule) error { return replaceAll(rules, func() {}) }

// replaceAll is ReplaceAll, and calls then after it has put the new rules into use, unless there is an
// error. then is for the data of a function of [Limiter.Choose]: each decision uses rules and data of one
// version. It must be fast, and must not use a Limiter, because decisions wait for it.
func replaceAll(rules map[*Limiter][]Rule, then func()) error {
	replacing.Lock()
	defer replacing.Unlock()
	sets := make(map[*shared]*ruleSet, len(rules))
	changes := make([]driver.Change, 0, len(rules))
	var store Store
	for l, rules := range rules {
		switch {
		case l == nil:
			return invalidAsk("the limiter is nil")
		case store != nil && l.store != store:
			return invalidAsk("the limiters have different stores")
		case sets[l.shared] != nil:
			return invalidAsk("two limiters are views of one")
		}
		store = l.store
		s, err := newRuleSet(rules)
		if err != nil {
			return err
		}
		sets[l.shared] = s
		changes = append(changes, driver.Change{Old: l.current.Load().definitions(), New: s.definitions()})
	}
	if err := driver.Declare(store, changes...); err != nil {
		return err
	}
	defer replacing.Write()()
	for l, s := range sets {
		l.formers.Store(newFormers(l.current.Load(), s, l.replaced()))
		close(l.current.Swap(s).replaced)
	}
	then()
	return nil
}

// replacing is the lock of ReplaceAll, which all limiters share, because AllowTogether reads the
// rules of several.
var replacing seqlock.Lock

// readRules calls read until no rules were replaced meanwhile.
func readRules(read func() error) error {
	err := replacing.Read(read)
	if err == seqlock.ErrWrites {
		err = invalidAsk("the function of Choose replaces rules")
	}
	return err
}
