package core

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/call"
	"github.com/weir-go/weir/core/internal/waiters"
)

// maxWaiters is the largest number of concurrent calls of Wait of one Limiter.
const maxWaiters = 10_000

// Wait blocks until an event of key is admitted and its Delay is over. It returns
//
//   - the error of ctx if ctx ends. An event that was admitted and delayed is refunded.
//   - [ErrNeverAdmitted] if the event can never be admitted. Wait waits for the end of a block that
//     ends, such as rules.Set.Block with a time, and of a [Pause]: it asks again each second, because
//     another process may end the pause.
//   - [ErrDeadlineTooNear], at once, if the estimated wait does not end before the deadline of ctx.
//     The estimate includes the events of callers that already wait for key in this process, if they
//     have the same plan and [Limiter.Variant].
//   - [ErrTooManyWaiters] if 10 000 calls of the limiter wait already; or if an event of a cost above 1, the first of those
//     that wait, does not get enough, because other events take it, and is later than its first estimate by more than a minute
//     and by more than ten times the time in which the limit fills up.
//   - the error of the Store if the Store fails.
//
// On an error nothing is charged, with one exception: if the Store fails, or ctx ends during a call
// of a Store on a network, the event has been charged at most once, or not at all.
//
// Callers that wait for the same key in this process are admitted in the order of arrival, whatever
// their plans are (see [Rule.Plan]); callers whose plan is [Unlimited] do not wait. Events of other
// processes and of Allow may be admitted between them. With several rules, or if the limit
// of a window is not a multiple of the costs, the estimate for ErrDeadlineTooNear may be too short.
// The error is then returned only after a part of the wait.
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN is [Limiter.Wait] for an event of cost n. If n is zero, it does not wait. If n is negative,
// it returns an [ErrNegativeCost].
func (l *Limiter) WaitN(ctx context.Context, key string, n int) error {
	if err := ctx.Err(); err != nil || n == 0 {
		return err
	}
	if n < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, n)
	}
	_, err := l.acquire(ctx, key, n, false)
	return err
}

// Acquire is [Limiter.Wait] for an event that takes a place of an [InFlight] rule, until the caller calls
// [Reservation.Release]. The places of a key are given to the callers in the order of arrival, also to those of
// other limiters and processes with the rule, as soon as events have ended: see Waiting in the documentation of
// InFlight.
//
// As it is not known when a place will be free, Acquire waits for one until ctx ends. The errors are those
// of Wait. On an error, the Reservation is nil.
//
// ctx is also that of the event: the place is not renewed any more when it has ended (see [InFlight]). To
// wait for a limited time, cancel a context of the event if there is no place until then:
//
//	ctx, cancel := context.WithCancelCause(ctx)
//	defer cancel(nil) // when the event has ended
//	late := time.AfterFunc(5*time.Second, func() { cancel(errLate) })
//	r, err := l.Acquire(ctx, key) // context.Cause(ctx) is errLate if the wait was too long
//	late.Stop()
func (l *Limiter) Acquire(ctx context.Context, key string) (*Reservation, error) {
	return l.AcquireN(ctx, key, 1)
}

// AcquireN is [Limiter.Acquire] for an event of cost n, which takes n places of a rule with [Spec.ByCost]. While it
// waits, callers behind it wait, too, also those that need fewer places. If n is zero, the error is
// an [ErrInvalidAsk], if n is negative, an [ErrNegativeCost], and if n is above a limit, at once an
// [ErrNeverAdmitted].
func (l *Limiter) AcquireN(ctx context.Context, key string, n int) (*Reservation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case n < 0:
		return nil, fmt.Errorf("%w: %d", ErrNegativeCost, n)
	case n == 0:
		return nil, invalidAsk("0 places are to be taken")
	}
	return l.acquire(ctx, key, n, true)
}

// An acquisition is a call of Wait or Acquire.
type acquisition struct {
	Ask
	held   bool                  // the caller frees the places that it takes
	rules  []Rule                // for the key, when the call began
	joined bool                  // rules can make it wait, so it is in the list of the callers that wait
	caller *waiters.Waiter[view] // in that list; one that waits for no other caller if it has not joined
	queues bool                  // the Store keeps the queue of the key if places are missing
	known  bool                  // the Store knows caller as the first one of the queue

	due    time.Time     // by the first denial
	poll   time.Duration // see minPoll
	spread time.Duration // see pollTime
}

// acquire waits until an event of key with cost n is admitted and its Delay is over. held says whether the
// caller frees the places that it takes.
func (l *Limiter) acquire(ctx context.Context, key string, n int, held bool) (_ *Reservation, err error) {
	a := acquisition{
		Ask: Ask{Limiter: l, Key: key, Cost: n, attempt: unlessAllowed}, held: held, caller: &waiters.Waiter[view]{N: n},
		poll: minPoll, spread: maxPoll, // callers who came together do not ask together for ever
	}
	chosen, rules, err := l.chosen(ctx, key, "")
	if err != nil {
		return nil, err
	}
	waits, estimates, err := a.waits(rules, chosen.ends, held)
	if err != nil {
		return nil, err
	}
	if a.rules = rules; waits {
		if a.caller = l.waiters.Join(key, n, chosen.view, maxWaiters); a.caller == nil {
			return nil, fmt.Errorf("%w: %d", ErrTooManyWaiters, maxWaiters)
		}
		a.joined, a.queues = true, held
		defer func() { a.leave(ctx, err == nil) }()
		if err := a.becomeFirst(ctx, estimates); err != nil {
			return nil, err
		}
	}
	for {
		replaced := l.current.Load().replaced
		r, d, err := a.ask(ctx)
		if err != nil {
			return nil, err
		}
		if d.Allowed {
			admitted, err := a.delay(ctx, r, d)
			if err != nil {
				return nil, err
			}
			if admitted {
				return r, nil
			}
			continue
		}
		wait, err := a.retryAfter(ctx, d)
		if err == nil {
			err = sleep(ctx, wait, replaced, a.caller.Freed(), a.turnedOff(d))
		}
		if err != nil {
			return nil, err
		}
	}
}

// becomeFirst waits until a is the first caller of its key. estimates says whether it is known for how long.
func (a *acquisition) becomeFirst(ctx context.Context, estimates bool) error {
	if estimates {
		if err := a.checkWait(ctx); err != nil {
			return err
		}
	}
	select {
	case <-a.caller.First:
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.known = a.caller.Known; a.known && a.hears() {
		return sleep(ctx, pollTime(maxPoll/10), a.Limiter.current.Load().replaced, a.caller.Freed(), nil)
	}
	return nil
}

// hears reports whether the Store tells a when a place is free.
func (a *acquisition) hears() bool { return a.joined && a.Limiter.local || a.caller.Queue.Hears() }

// ask asks the Store, and tells it whether the callers of the key still wait for places.
func (a *acquisition) ask(ctx context.Context) (r *Reservation, d Decision, err error) {
	// From the charge on, the Store counts the event. The list of callers stops counting it before the charge:
	// later callers may then miss the event for a moment, but never count it twice.
	a.Limiter.waiters.SetCost(a.caller, 0)
	if left := left(ctx); left != Never {
		a.MaxDelay = max(1, left-time.Microsecond) // deny the event if its delay would reach the deadline
	}
	behind := false // whether another caller waits behind this one
	r = new(Reservation)
	if a.queues {
		age, later, next := a.Limiter.waiters.Age(a.Key, a.caller)
		behind = next > 0
		r.spill = &spill{waiter: &driver.Waiter{Queue: a.caller.Queue.ID, Age: age, Behind: later, Next: next, Known: a.known}}
		a.known = true
	}
	if d, err = r.Reserve(ctx, a.Ask); err != nil {
		return nil, d, err
	}
	if a.settleQueue(ctx, r, &d, behind) {
		return a.ask(ctx)
	}
	return r, d, nil
}

// settleQueue notes after d, the decision about r, whether the Store has the queue of a as one that waits, and leaves
// the queue if it would block places while its callers wait for another rule. behind says whether another caller waits
// behind a. It reports whether a has to ask again at once, in the queue, because only places are missing.
func (a *acquisition) settleQueue(ctx context.Context, r *Reservation, d *Decision, behind bool) (again bool) {
	places := d.estimated()
	switch {
	case !a.joined || !a.held:
		return false
	case !a.queues: // the other rules admit it by now
		a.queues = places
		return places
	}
	took := r.spill.holds != nil // an event without a limit takes no places
	a.queues = places || took
	stays := a.queues && d.Delay == 0
	marked := a.Limiter.waiters.Mark(a.Key, places || stays && behind)
	if !stays && (marked || took && behind || d.deniesPlaces()) {
		a.leaveQueue(ctx)
	}
	return false
}

// delay waits for the Delay of r, an admitted event. If a pause begins meanwhile, the event is not admitted. It is then
// refunded, as after an error.
func (a *acquisition) delay(ctx context.Context, r *Reservation, of Decision) (admitted bool, err error) {
	d := of.Delay
	if d > 0 && d >= left(ctx) {
		err = fmt.Errorf("%w: %v to wait", ErrDeadlineTooNear, d)
	} else {
		err = sleep(ctx, d, nil, nil, a.turnedOff(of))
	}
	if err == nil && (d == 0 || !a.pausedNow(ctx)) {
		return true, nil
	}
	_ = r.Refund(context.WithoutCancel(ctx)) // if it fails, the event stays charged
	return false, err
}

// turnedOff returns a function that reports whether a limit of d is turned off since, or nil if the Store turns none off.
func (a *acquisition) turnedOff(d Decision) func() bool {
	l := a.Limiter.shared
	if l.off == nil {
		return nil
	}
	last := d // allocated only here
	return func() bool {
		for _, s := range last.States() {
			if l.inForce(s.Rule) != s.Rule {
				return true
			}
		}
		return false
	}
}

// retryAfter returns the time after which a, which d denies, asks again.
func (a *acquisition) retryAfter(ctx context.Context, d Decision) (wait time.Duration, err error) {
	if err := tooLate(ctx, d, 0, a.Cost); err != nil {
		return 0, err
	}
	a.Limiter.waiters.SetCost(a.caller, a.Cost)
	if a.due.IsZero() {
		a.due = time.Now().Add(d.RetryAfter)
	} else if late := time.Since(a.due); a.Cost > 1 && late > time.Minute && late/10 > d.fillsUp(a.Cost) {
		return 0, fmt.Errorf("%w: for %v, other events have taken the %d units", ErrTooManyWaiters, late.Round(time.Second), a.Cost)
	}
	wait = d.RetryAfter
	switch {
	case d.estimated() && a.hears():
		wait, a.spread = pollTime(a.spread), maxPoll/10
	case d.estimated():
		wait = a.poll/2 + rand.N(a.poll/2)
		a.poll = min(2*a.poll, maxDeafPoll)
	case d.paused(): // another process may end the pause
		wait = min(wait, maxPoll)
	}
	return wait, nil
}

// leave removes a from the callers of its key, and the queue from the Store if a was the last one. admitted says whether
// its event was admitted.
func (a *acquisition) leave(ctx context.Context, admitted bool) {
	switch marked := a.Limiter.waiters.Leave(a.Key, a.caller, admitted); {
	case !marked:
	case admitted:
		a.leaveQueue(ctx)
	default: // the Store may hang
		inTime, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		_, _ = call.Detached(inTime, driver.ErrUnavailable, nil, func() (struct{}, error) {
			a.leaveQueue(ctx)
			return struct{}{}, nil
		})
	}
}

// waits reports whether one of rules can make a wait, and whether it is known for how long. ends is that of the choice
// of rules, and held says whether the caller frees the places that it takes.
func (a *Ask) waits(rules []Rule, ends time.Duration, held bool) (waits, estimates bool, err error) {
	for _, r := range rules {
		r = a.Limiter.inForce(r)
		estimates = estimates || !r.Kind().Holds
		switch c := r.d.compiled; {
		case r.Kind().Holds && !held:
			return false, false, errNoHolder
		case r.d.spec.Shadow:
		case r.Kind().Holds && c != nil && !c.ByCost:
			waits = true
		case c != nil:
			waits = true
			if r.d.elastic != nil {
				c = r.d.elastic.rule(r).d.compiled
			}
			if int64(a.Cost) > c.Constants.Capacity {
				return false, false, ErrNeverAdmitted
			}
		case r.Limit() != Blocked:
		case a.blockEnds(r, ends) > 0:
			waits = true
		default:
			return false, false, ErrNeverAdmitted
		}
	}
	return waits, estimates, nil
}

// A caller of Acquire asks for a place again after nearly maxPoll, so that the Store knows that it still waits. If the
// Store does not tell it when a place is free, it asks again after half of minPoll to maxDeafPoll. A caller that waits
// for the end of a pause asks again after maxPoll.
const (
	minPoll     = 100 * time.Millisecond // of which half is random
	maxDeafPoll = 250 * time.Millisecond
	maxPoll     = time.Second
)

// pollTime returns the time after which a caller asks again, although the Store tells it when a place is free. spread is
// its random part.
func pollTime(spread time.Duration) time.Duration { return maxPoll - rand.N(spread) }

// leaveTime is the longest time that a caller who gets an error waits for leaveQueue, which goes on in the background.
const leaveTime = 10 * time.Millisecond

// leaveQueue tells the Store that no caller waits in the queue of a any more.
func (a *acquisition) leaveQueue(ctx context.Context) {
	var charges []driver.Charge
	for _, r := range a.rules {
		c := r.d.compiled
		if c == nil || !r.Kind().Holds || r.d.spec.Shadow {
			continue
		}
		if a.Limiter.local {
			c = c.Lasting
		}
		charges = append(charges, driver.Charge{Key: a.Key, Rule: c, Op: driver.Undo, Cost: 1, Waiter: &driver.Waiter{Queue: a.caller.Queue.ID}})
	}
	if len(charges) > 0 {
		_ = a.Limiter.store.Adjust(context.WithoutCancel(ctx), charges) // after an error, the Store forgets the queue by itself
	}
}

// pausedNow reports whether a pause of the key has begun since a decision.
func (a *acquisition) pausedNow(ctx context.Context) bool {
	if !slices.ContainsFunc(a.rules, func(r Rule) bool { return closes(r) || r.d.ban != nil }) {
		return false
	}
	d, err := AllowTogether(ctx, Ask{Limiter: a.Limiter, Key: a.Key, Peek: true, attempt: always})
	return err == nil && d.paused()
}

// checkWait returns ErrDeadlineTooNear if a must wait for earlier callers until the deadline.
func (a *acquisition) checkWait(ctx context.Context) error {
	if left(ctx) == Never {
		return nil
	}
	for {
		ahead := a.Limiter.waiters.Ahead(a.Key, a.caller)
		if ahead == 0 {
			return nil // the decision of a, when it is the first, shows whether it is too late
		}
		d, err := AllowTogether(ctx, Ask{Limiter: a.Limiter, Key: a.Key, Cost: saturated(ahead, a.Cost), Peek: true, attempt: always})
		if err != nil {
			return err
		}
		// If an earlier waiter was admitted meanwhile, the Peek may have counted its cost twice.
		if err = tooLate(ctx, d, ahead, a.Cost); err == nil || a.Limiter.waiters.Ahead(a.Key, a.caller) == ahead {
			return err
		}
	}
}

// left returns the time until the deadline of ctx, or Never.
func left(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(1, time.Until(deadline))
	}
	return Never
}

// tooLate returns an error if n events cannot be admitted before ctx ends. ahead is the number of
// events of earlier waiters, which are admitted first. d is the decision about ahead+n events.
func tooLate(ctx context.Context, d Decision, ahead, n int) error {
	wait := time.Duration(0)
	for _, s := range d.States() {
		if s.Rule.IsShadow() || s.Rule.Limit() == Unlimited {
			continue
		}
		switch blocked := s.Rule.Limit() == Blocked; {
		case s.Rule.Kind().Holds && !blocked && s.RetryAfter != Never: // it is not known
		case (blocked || s.Ban > 0) && s.RetryAfter != Never: // the block ends
			wait = max(wait, s.RetryAfter)
		case blocked:
			return ErrNeverAdmitted
		case int64(n) > s.Rule.d.compiled.Constants.Capacity, // of a smaller limit, or of a part of it while the Store has failed
			s.Rule.d.spec.Rollover > 0 && s.RetryAfter == Never: // more than the next period has
			if ahead == 0 && s.RetryAfter == Never {
				return ErrNeverAdmitted
			}
		default:
			wait = max(wait, s.soonest(int64(ahead), int64(n)))
		}
	}
	if wait == Never && left(ctx) < Never {
		return fmt.Errorf("%w: more than 292 years to wait", ErrDeadlineTooNear)
	}
	if wait > 0 && wait >= left(ctx) {
		return fmt.Errorf("%w: %v to wait", ErrDeadlineTooNear, wait)
	}
	return nil
}

// fillsUp returns the longest time in which a limit fills up that denies n events, or Never if one denies them for
// another reason.
func (d *Decision) fillsUp(n int) (longest time.Duration) {
	for _, s := range d.States() {
		l, capacity := s.Rule.Limit(), int64(0)
		if c := s.Rule.d.compiled; c != nil {
			capacity = c.Constants.Capacity
		}
		switch {
		case s.Allowed || s.Rule.IsShadow():
		case s.Rule.Kind().Holds || s.Rule.Kind().Closes || s.Ban > 0 || l == Blocked || int64(n) > capacity:
			return Never
		default:
			longest = max(longest, after(0, capacity, l))
		}
	}
	return longest
}

// soonest returns the shortest wait until n events can be admitted. ahead is the number of events
// of earlier waiters, which are admitted first. s is the State after a decision about ahead+n
// events. For a log the result is a lower bound.
func (s *State) soonest(ahead, n int64) time.Duration {
	l, capacity := s.Rule.Limit(), s.Rule.d.compiled.Constants.Capacity
	total := ahead + n
	if total < 0 {
		return Never
	}
	switch k := s.Rule.Kind(); {
	case k.Delays:
		// An event that fits into the queue after RetryAfter is still delayed there.
		wait := after(s.ResetAfter, ahead, l)
		if !s.Allowed && total <= capacity {
			wait = max(wait, s.RetryAfter)
		}
		return wait
	case s.Allowed:
		return 0
	case k.Calendar:
		return s.Window
	case total <= capacity:
		return s.RetryAfter
	case k.Refills:
		return after(s.ResetAfter, total-capacity, l)
	}
	// Beyond one window, event number i is admitted one period after event number i-capacity.
	remaining := int64(s.Remaining) + s.Rule.d.compiled.Constants.Extra
	whole := (total - 1) / capacity
	first := s.Window
	if s.Rule.Kind().Windows {
		whole = max(0, total-remaining-1) / capacity
	} else if total-whole*capacity <= remaining {
		first = 0
	}
	return after(first, whole*int64(l.Events), l)
}

// after returns d plus the time in which that number of events refills at the rate of l.
func after(d time.Duration, events int64, l Limit) time.Duration {
	hi, lo := bits.Mul64(uint64(events), uint64(l.Per))
	if hi >= uint64(l.Events) {
		return Never
	}
	q, _ := bits.Div64(hi, lo, uint64(l.Events))
	if q > uint64(Never-d) {
		return Never
	}
	return d + time.Duration(q)
}

// sleep waits for d, until one of the channels wakes it, or until off, if it is not nil, is true, which it notices
// within maxPoll. If ctx ends first, it returns the error of ctx.
func sleep(ctx context.Context, d time.Duration, replaced, freed <-chan struct{}, off func() bool) error {
	if d <= 0 {
		return nil
	}
	end, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var ticks <-chan time.Time
	if off != nil {
		ticker := time.NewTicker(maxPoll)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for off == nil || !off() {
		select {
		case <-end.Done():
		case <-replaced:
		case <-freed:
		case <-ticks:
			continue
		}
		break
	}
	return ctx.Err()
}
