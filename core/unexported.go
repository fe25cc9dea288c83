package core

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/core/internal/unexported"
)

// functions has the functions of this package that only packages gate and rules need.
type functions struct{}

func init() { unexported.Core = functions{} }

// HasPlans reports whether plans make a difference to l: whether one of its rules has plans, or Choose has
// made it.
func (functions) HasPlans(l *Limiter) bool { return l.pick != nil || len(l.ruleSet().plans) > 0 }

// SharesStore reports whether l and o have the same Store, as AllowTogether requires.
func (functions) SharesStore(l, o *Limiter) bool { return l.store == o.store }

// Clock returns the clock by which the Store of l decides.
func (functions) Clock(l *Limiter) func() time.Time { return l.now }

// Attempt makes a an ask that is not the last one about its event. The Observer counts its decision apart.
func (functions) Attempt(a *Ask) { a.attempt = always }

// AttemptUnlessDenied is Attempt, unless the event is denied.
func (functions) AttemptUnlessDenied(a *Ask) { a.attempt = unlessDenied }

// ChooseFor is [Limiter.Choose] with a function that also returns the time for which its choice lasts, or zero
// if it has no end. A rule of the picked view that is Blocked denies with that RetryAfter, unless it
// is Blocked in l, too.
func (functions) ChooseFor(l *Limiter, pick pickFunc) *Limiter {
	v := *l
	v.pick = pick
	return &v
}

// ReplaceAll is [ReplaceAll], and calls then after it has put the new rules into use: see replaceAll.
func (functions) ReplaceAll(rules map[*Limiter][]Rule, then func()) error {
	return replaceAll(rules, then)
}

// Off returns r without its limits and other properties: every event is admitted, without a charge. The limit Unlimited
// does not suffice, because a Pause has it, too.
func (functions) Off(r Rule) Rule { return r.withoutLimit() }

// Key returns the key of the charges of l, or of the limiter that l is a view of, and the number of such
// keys, where 2 means several, and -1 that all its limits are Unlimited.
func (functions) Key(r *Reservation, l *Limiter) (key string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines() {
		if line.limiter != l.shared {
			continue
		}
		if line.charge < 0 {
			if n == 0 {
				n = -1
			}
			continue
		}
		k := r.charges()[line.charge].Key
		if n == 1 && k != key {
			return "", 2
		}
		key, n = k, 1
	}
	return key, n
}

// Forget makes r forget the charges of the rules of l for key, also those of other limiters with the same
// rules. They stay charged, and a later refund does not free them. It is for a Reset of l.
func (functions) Forget(r *Reservation, l *Limiter, key string) {
	rules := l.Rules()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines() {
		if line.charge < 0 {
			continue
		}
		c := &r.charges()[line.charge]
		if c.Key != key || !slices.ContainsFunc(rules, func(rule Rule) bool { return rule.Name() == c.Rule.Name }) {
			continue
		}
		for i := range r.lines() {
			if other := &r.lines()[i]; other.ask == line.ask && other.limiter == l.shared {
				other.cost = 0
			}
		}
		c.Cost = 0
		if raises := r.raisesOf(int(line.charge)); raises != nil {
			raises.all, raises.lost = nil, 0
		}
	}
}

// HasPlaces reports whether r has places, and whether their Store is local. It ends the effect of the
// context of the decision on the places: the caller calls Release.
func (functions) HasPlaces(r *Reservation) (has, local bool) {
	if !r.takes || r.spill == nil || r.spill.holds == nil { // of a decision that this goroutine has made
		return false, false
	}
	r.spill.holds.Detach()
	return true, r.lines()[0].limiter.local
}

// RefundDelayed refunds the event to each [LeakyBucket], and leaves it charged to all other rules. It
// is for a delayed event whose caller does not wait any more. As with [Reservation.Refund], only
// the last event of a queue can leave the queue. A second RefundDelayed does nothing, but a later
// Settle charges the queue again.
//
// After an error the event may have left the queue, and a second call does not try again. If ctx
// had ended before the call, nothing was done.
func (functions) RefundDelayed(r *Reservation, ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	total := func(i, before int) int {
		if r.charges()[i].Rule.Kind.Delays {
			return 0
		}
		return before
	}
	return r.settle(ctx, total, func() {})
}
