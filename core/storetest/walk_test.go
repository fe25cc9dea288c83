package storetest

import (
	"maps"
	"slices"
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
	"github.com/weir-go/weir/internal/testkit"
)

func ofReference(*testing.T) *Harness {
	clock := new(Clock)
	return clock.Harness(&struct {
		reference
		driver.Namespace
	}{reference: reference{clock: clock.Micros, states: make(map[stateKey]driver.State)}})
}

// The histories, more than those of a store by default, include every situation that they are to test.
func TestHistories_EverySituation(t *testing.T) {
	testkit.WithoutRace(t)
	const n = 100
	s := &subject{T: t, about: "engine", requirement: "The engine equals the oracle.", newHarness: ofReference}
	check := func(occurred map[string]int, least int, situations []string) {
		for _, name := range situations {
			if occurred[name] < least {
				t.Errorf("%q: got %d occurrences, want at least %d", name, occurred[name], least)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(occurred)) {
			t.Logf("%8d %s", occurred[name], name)
		}
	}
	occurred := compare(s, n)
	all := situations
	for _, algorithm := range append(limitNames(), fromFirst, byCost) {
		all = append(all, "freed by an undo: "+algorithm, "ahead of the clock: "+algorithm, "headroom: "+algorithm, "headroom denied: "+algorithm)
	}
	check(occurred, n/4, all)
	check(occurred, 1, rareSituations)
	check(compareLimiters(s, n/3), n/20, limiterSituations)
}

// limiterSituations have to occur in the histories of limiters.
var limiterSituations = []string{
	"plan", "unknown plan", "variant", "chosen", "unlimited", "blocked", "unknown", "denied", "soft", "delayed",
	"merged", "invalid", "at most", "settled", "replaced", "conflict", "reset true", "reset false",
	"estimate", "elastic", "acquired", "released", "refunded", "lapsed",
	"estimate by cost", "cost that never fits", "at most by cost", "ended by cost",
	"quota", "quota denied", "rest", "anchored", "headroom", "headroom denied", "headroom of places",
	"paused", "not paused", "shadow paused", "unknown pause", "no pause", "pause ended", "pause not made shorter",
	"in a ban", "ban behind the limit", "ban under a plan",
}

// situations have to occur in the histories.
var situations = []string{
	"allowed", "denied", "never", "soft", "delayed", "shadow denied", "peek denied", "together", "together denied", "at most", "at most denied", "at most shadow",
	"debt", "saturated", "undo", "undo of a part", "undo twice", "undo after a step back", "undo under another limit",
	"undo of nothing", "credit", "reset of something", "reset of nothing", "step back", "leap", "limit changed", "another plan", "elastic",
	"renew", "renew of nothing", "same time",
	"by cost", "by cost denied", "cost that never fits", "by cost renewed", "smaller cost fits", "at most: in_flight_by_cost",
	"a microsecond before a boundary", "at a boundary", "a microsecond after a boundary", "clock of the caller ahead", "clock of the caller behind",
	"period of another calendar", "undo of an earlier period", "divided", "rest", "taken of a rest", "denied in spite of a rest",
	"headroom of a soft limit", "headroom of a size", "headroom in debt",
	"paused", "paused together", "paused: at most", "paused: peek", "shadow paused", "not paused", "not paused: at most",
	"pause made longer", "pause not made shorter", "begin in a pause", "pause of nothing", "longest pause", "a microsecond of a pause", "pause ended",
	"credit of a pause", "undo of a pause", "ahead of the clock: pause",
	"waiter queued", "waiter queued by cost", "waiter admitted in its turn", "waiter that never fits", "next waiter", "yields to waiters",
	"waiter expired",
}

// rareSituations have to occur at least once.
var rareSituations = []string{
	"waiter behind others", "waiter denied by another rule", "no next waiter", "at most, with waiters", "waiter removed", "reset of waiters",
	"rest of a plan with headroom", "admitted by the next rest", "undo in spite of a rest",
}

// RetryAfter, ResetAfter and, for buckets, Window of the oracle are exact: the condition that each of
// them announces holds after that time, and not a microsecond earlier.
func TestOracle_LeastTimes(t *testing.T) {
	testkit.WithoutRace(t)
	for seed := range uint64(60) {
		w := newWalk(seed, ofReference(t), make(map[string]int))
		for range 100 {
			call := w.next()
			w.answer(call)
			for _, c := range call.charges {
				if _, ahead := w.oracle.Look(w.now, &c); ahead {
					continue // the state was not written, so it stays ahead of the clock
				}
				if l := w.oracle.Line(w.now, &c); l.Callers+l.Stale > 0 || c.Waiter != nil {
					continue // the times are estimates
				}
				v, bucket := c.Verdict, isBucketRule(c.Rule)
				if !call.asks() {
					c.Cost = 1
				}
				now, _ := w.oracle.Look(w.now, &c)
				for _, field := range []struct {
					name  string
					span  int64
					valid bool
					is    func(v oracle.Verdict) bool
				}{
					{"RetryAfter", v.RetryAfter, !v.Allowed && v.RetryAfter != oracle.Never, func(v oracle.Verdict) bool { return v.Allowed }},
					{"ResetAfter", v.ResetAfter, true, func(v oracle.Verdict) bool { return v.ResetAfter == 0 }},
					{"Window", v.Window, v.Allowed && v.Remaining == 0 && bucket && (call.asks() || now.Allowed), func(v oracle.Verdict) bool { return v.Remaining > 0 }},
				} {
					at := func(span int64) bool {
						v, _ := w.oracle.Look(w.now+span, &c)
						return field.is(v)
					}
					if field.valid && (!at(field.span) || field.span > 0 && at(field.span-1)) {
						t.Fatalf("walk %d: %s is %d, want the least such time: %v", seed, field.name, field.span, call)
					}
				}
			}
		}
	}
}
