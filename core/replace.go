package core

import (
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
)

// Replace gives l and its views new rules while they are used: each decision uses either the old
// rules or the new ones. If an error is returned, nothing changes.
//
// A rule of the same name, algorithm and length (see [Rule]) continues with the states of the old
// rule, and the new limit applies to them from the next decision on. A bucket keeps the part that
// is used, and a window or log keeps its events. If 100 an hour become 50, a bucket with 40 of 100
// left has 20 of 50 left, and a window or log with 60 events admits nothing until fewer than 50 are
// left in it. If 50 become 100, an exhausted bucket refills twice as fast, and a window or log has
// room for 50 more events at once. After a lower limit, an earlier RetryAfter may be too short. A
// rule of another length starts with unused states. States of old rules expire in the Store by
// themselves.
//
// Callers of [Limiter.Wait] ask again with the new rules, in the same order. A [Reservation] undoes
// its charges under the rules that charged them. Caches of stores never answer for another limit.
// Other processes keep their rules until they call Replace, too (see [New]).
//
// The error is a [RuleError]: an ErrInvalidRule, or an [ErrRuleConflict] if another limiter on the
// Store has a rule of the name that differs from the new rule, such as the old rule. Use
// [ReplaceAll] to change both. A limiter that is not used any more counts, too: it stays on its
// Store until the program ends.
func (l *Limiter) Replace(rules ...Rule) error {
	return ReplaceAll(map[*Limiter][]Rule{l: rules})
}

// ReplaceAll replaces the rules of several limiters, as [Limiter.Replace] does, at once: no decision
// of [AllowTogether] uses old rules of one and new rules of another limiter. All limiters must have
// the same Store, and the map must not contain nil or two views of one Limiter. Otherwise the error
// is an [ErrInvalidAsk]. On an error nothing changes.
func ReplaceAll(rules map[*Limiter][]Rule) error {
	replacing.mu.Lock()
	defer replacing.mu.Unlock()
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
	replacing.version.Add(1)
	defer replacing.version.Add(1)
	for l, s := range sets {
		close(l.current.Swap(s).replaced)
	}
	return nil
}

// replacing is the lock of ReplaceAll, which all limiters share, because AllowTogether reads the
// rules of several. Readers do not take it: they read again if version has changed meanwhile.
var replacing replacement

type replacement struct {
	mu      sync.Mutex
	version atomic.Uint64 // odd while rules are being replaced
}

// settled waits until no rules are being replaced, and returns the version.
func (r *replacement) settled() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version.Load()
}

// together appends to rules, which must be empty, the rules of each view: all from before or all
// from after any call of ReplaceAll.
func together(views []view, rules [][]Rule) [][]Rule {
	for version := replacing.version.Load(); ; version = replacing.settled() {
		for i := range views {
			rules = append(rules, views[i].rules())
		}
		if version%2 == 0 && replacing.version.Load() == version {
			return rules
		}
		rules = rules[:0]
	}
}
