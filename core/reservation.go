package core

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/hold"
)

// A Reservation is a decision about an event whose cost can still be changed or refunded, for
// example when the real cost is known. It stores a receipt of every charge, so that a refund frees
// exactly that charge. It is safe for concurrent use, and must not be copied. The zero Reservation has no
// asks; Reserve adds them.
type Reservation struct {
	mu sync.Mutex
	event
}

// Reserve is [ReserveTogether] for a Reservation that is part of a larger structure, which saves an
// allocation. r must be zero, and remains so after an error. If r has asks, the error is an
// [ErrInvalidAsk].
func (r *Reservation) Reserve(ctx context.Context, asks ...Ask) (d Decision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines()) > 0 {
		return d, invalidAsk("the reservation has asks already")
	}
	if err := r.decide(ctx, asks, true); err != nil {
		r.observe(asks, &d, err)
		r.event = event{}
		return d, err
	}
	r.conclude(&d, true)
	r.reserve(d.Allowed)
	if r.takes && d.Allowed {
		r.hold(ctx)
		if err := ctx.Err(); err != nil {
			_ = r.release(ctx) // after an error, the places lapse
			r.observe(asks, &d, err)
			r.event = event{}
			return Decision{}, err
		}
	}
	if asks[0].Limiter.observer != nil {
		r.observe(asks, &d, nil)
	}
	return d, nil
}

// reserve makes r ready for changes of its cost, after its decision, which may have reduced the cost. From
// then on, the Cost of a charge is the part of it that has not been undone, and the Age of its Receipt is
// when it was charged: the nanoseconds of hold.Now.
func (r *Reservation) reserve(allowed bool) {
	r.denied = !allowed
	lines, charges := r.lines(), r.charges()
	if len(charges) > 0 && charges[0].AtMost {
		for i := range lines { // of one ask
			lines[i].cost = charges[0].Cost
		}
	}
	now := time.Duration(0)
	for i := range charges {
		c := &charges[i]
		if r.denied || c.Op != driver.Spend || !c.Verdict.Allowed {
			c.Cost = 0
			continue
		}
		if now == 0 && (!lines[0].limiter.steady || c.Rule.Kind.Calendar) {
			now = hold.Now()
		}
		c.Receipt.Age = int64(now)
	}
}

// Decision returns the decision about the event.
func (r *Reservation) Decision() (d Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conclude(&d, true)
	return d
}

// Cost returns the number of units that the event costs: the cost that was asked for or that
// [Limiter.ReserveAtMost] has taken, and after a Settle the total that it set. It is zero for a denied
// event and for a Peek. If r has several asks, it is the cost of the first one. How many places the event
// takes does not depend on a Settle.
func (r *Reservation) Cost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lines := r.lines(); len(lines) > 0 && !r.denied {
		return lines[0].cost
	}
	return 0
}

// Refund frees the cost of the event in every rule of every ask, except for the part that has
// expired or refilled already, so that no refund makes a rule exceed its limit. A second Refund
// does nothing. A [LeakyBucket] frees the cost only while the event is the last of its queue,
// because later callers already know their Delay. A [SlidingLog] frees nothing once it has events at
// 1000 later times; the event then stays charged until it expires. Refund frees the places of [InFlight]
// rules, too, as Release does.
//
// If the clock of the Store has stepped back by more than a second, Refund frees less, or nothing.
// Do not refund an event from before a [Limiter.Reset]: the refund may free later events.
func (r *Reservation) Refund(ctx context.Context) error {
	return r.settleAsks(ctx, 0, true, func(*shared) bool { return true })
}

// Release frees the places that the event has taken of [InFlight] rules, because it has ended. The
// charges of other rules stay. A second Release does nothing, as does one after Refund.
//
// The end of ctx does not matter: an event that was cancelled frees its places, too. The Store bounds the
// time that Release takes. If it returns an error, the places may stay taken for a while: they are freed in
// the background as soon as the Store replies, or lapse, and Release may be called again.
func (r *Reservation) Release(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.release(ctx)
}

// release is Release with the mutex.
func (r *Reservation) release(ctx context.Context) error {
	total := func(i, before int) int {
		if r.charges()[i].Rule.Kind.Holds {
			return 0
		}
		return before
	}
	return r.end(func() error { return r.settle(context.WithoutCancel(ctx), total, func() {}) })
}

// hold holds the places of r, an admitted event. They are not renewed any more when ctx has ended.
func (r *Reservation) hold(ctx context.Context) {
	shared, begun := r.lines()[0].limiter, r.spill.begun
	var places []*hold.Hold
	for i := range r.charges() {
		c := &r.charges()[i]
		if !c.Rule.Kind.Holds || c.Cost == 0 { // a shadow that does not fit
			continue
		}
		ends := time.Duration(driver.Never)
		for _, l := range r.lines() {
			if most := l.rule.d.spec.MaxHold; int(l.charge) == i && most > 0 && most < driver.Never/2 {
				ends = min(ends, begun+most)
			}
		}
		places = append(places, hold.New(shared.store, shared.local, c, begun, ends))
	}
	if len(places) > 0 {
		r.spill.holds = hold.Start(ctx, r, places)
	}
}

// end ends the renewals of the places of r, and calls free, which must free them. If free fails, the places can be
// freed again.
func (r *Reservation) end(free func() error) error {
	if r.spill == nil || r.spill.holds == nil {
		return free()
	}
	r.spill.holds.End()
	err := free()
	if err != nil {
		r.repeat()
	}
	return err
}

// repeat frees the places of r that may still be taken in the background.
func (r *Reservation) repeat() {
	for i := range r.charges() {
		c := &r.charges()[i]
		if c.Cost == 0 || !c.Rule.Kind.Holds {
			continue
		}
		r.spill.holds.Free(c)
	}
}

// Lost returns a channel that is closed when a place of the event has lapsed although the event has not
// ended: another event may have the place now. A place lapses
//
//   - at most one hold after [Rule.MaxHold], or after the end of the context of its decision,
//   - after a [Limiter.Reset], and
//   - if it was not renewed for the length of its hold, because the Store was down or the process was
//     stopped.
//
// Work that must not run beside n others has to end then. The channel is nil if the event has no place.
func (r *Reservation) Lost() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spill == nil || r.spill.holds == nil {
		return nil
	}
	return r.spill.holds.Lost()
}

// Settle sets the total cost of the event, the same for every ask of a [ReserveTogether], except for
// [InFlight] rules. If cost
// is higher than the charged cost, Settle charges the difference, into debt if necessary
// ([Limiter.Debit]). If cost is lower, it refunds the difference ([Reservation.Refund]). Settling
// the same cost again does nothing. A cost below zero is an [ErrNegativeCost].
//
// A Reservation remembers 16 charges of each rule: the first one and the increases. After the 16th
// increase, the oldest charge stays charged, whatever the cost is set to, and Settle returns no error.
//
// After another error the difference may have been charged or refunded, and a second call does not
// try again. If ctx had ended before the call, nothing was done, and Settle can be called again.
func (r *Reservation) Settle(ctx context.Context, cost int) error {
	return r.settleAsks(ctx, cost, false, func(*shared) bool { return true })
}

// SettleFor is [Reservation.Settle] for the asks of one limiter: l or the limiter that l is a view of,
// under any plan. It is for events with several costs, such as one request and many tokens of a
// language model. If r has asks, but none about l, the error is an [ErrInvalidAsk].
func (r *Reservation) SettleFor(ctx context.Context, l *Limiter, cost int) error {
	if l == nil {
		return invalidAsk("the limiter is nil")
	}
	return r.settleAsks(ctx, cost, false, func(limiter *shared) bool { return limiter == l.shared })
}

// settleAsks sets the total cost of the asks for whose limiter is returns true. If ends is set, it frees
// the places of r.
func (r *Reservation) settleAsks(ctx context.Context, cost int, ends bool, is func(*shared) bool) error {
	if cost < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, cost)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines()
	if len(lines) > 0 && !slices.ContainsFunc(lines, func(l line) bool { return is(l.limiter) }) {
		return invalidAsk("the reservation has no such ask")
	}
	total := func(i, before int) int {
		sum, found, c := 0, false, &r.charges()[i]
		for _, l := range lines {
			switch {
			case int(l.charge) != i:
			case is(l.limiter):
				sum, found = saturated(sum, cost), true
			default:
				sum = saturated(sum, l.cost)
			}
		}
		switch {
		case !found, c.Rule.Shadow && !c.Verdict.Allowed && before == 0, c.Rule.Kind.Holds && !ends,
			c.Rule.Kind.Closes:
			return before
		}
		return sum
	}
	settle := func() error {
		return r.settle(ctx, total, func() {
			for i := range lines {
				if is(lines[i].limiter) {
					lines[i].cost = cost
				}
			}
		})
	}
	if !ends || r.spill == nil || r.spill.holds == nil {
		return settle()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // the places are freed with the rest, or would stay taken
	return r.end(settle)
}
