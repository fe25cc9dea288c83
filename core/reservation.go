package core

import (
	"context"
	"fmt"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A Reservation is a decision about an event whose cost can still be changed or refunded, for
// example when the real cost is known. It stores a receipt of every charge, so that a refund frees
// exactly that charge. It is safe for concurrent use. The zero Reservation has no asks; Extend adds
// the first. A Reservation must not be copied after its first use.
type Reservation struct {
	mu sync.Mutex
	event
}

// Extend charges more asks for the same event, all or none, and returns the Decision of r. It is for
// keys that are known only after the first asks have been charged. The States of asks are appended
// to the Decision of r. [Reservation.Settle] and [Reservation.Refund] apply to all asks. All limiters
// must have the Store of r. Otherwise the error is an [ErrInvalidAsk].
//
// If asks are denied, the Decision of r becomes a denial. The earlier asks stay charged until
// Refund, and their States are unchanged. If the Decision of r is a denial already, Extend does
// nothing. For the zero Reservation, Extend is [ReserveTogether]. After an error r is unchanged, and
// asks have been charged at most once, or not at all.
func (r *Reservation) Extend(ctx context.Context, asks ...Ask) (d Decision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines()) > 0 {
		return r.extendMore(ctx, asks)
	}
	if err := r.decide(ctx, asks); err != nil {
		r.event = event{}
		return d, err
	}
	r.conclude(&d, true)
	r.reserve(d.Allowed)
	return d, nil
}

// extendMore is Extend for a Reservation that has a decision.
func (r *Reservation) extendMore(ctx context.Context, asks []Ask) (d Decision, err error) {
	if d = r.decision(); !d.Allowed {
		return d, nil
	}
	store := r.asks()[0].limiter.store
	for i, a := range asks {
		if a.Limiter != nil && a.Limiter.store != store {
			return Decision{}, invalidAsk(fmt.Sprintf("the reservation and ask %d have different stores", i))
		}
	}
	next := events.Get().(*event)
	defer next.free()
	if err := next.decide(ctx, asks); err != nil {
		return Decision{}, err
	}
	var o Decision
	next.conclude(&o, false)
	d.combine(len(r.asks()), o)
	r.extend(next, o.Allowed)
	r.more.extended = &d
	return d, nil
}

// Decision returns the decision about the first asks and the asks of every [Reservation.Extend].
func (r *Reservation) Decision() Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decision()
}

// Refund frees the cost of the event in every rule of every ask, except for the part that has
// expired or refilled already, so that no refund makes a rule exceed its limit. A second Refund
// does nothing. A [LeakyBucket] frees the cost only while the event is the last of its queue,
// because later callers already know their Delay. A [SlidingLog] frees nothing once it has events at
// 1000 later times; the event then stays charged until it expires.
//
// If the clock of the Store has stepped back by more than a second, Refund frees less, or nothing.
// Do not refund an event from before a [Limiter.Reset]: the refund may free later events.
func (r *Reservation) Refund(ctx context.Context) error { return r.Settle(ctx, 0) }

// Settle sets the total cost of the event, the same for every ask of a [ReserveTogether]. If cost
// is higher than the charged cost, Settle charges the difference, into debt if necessary
// ([Limiter.Debit]). If cost is lower, it refunds the difference ([Reservation.Refund]). Settling
// the same cost again does nothing. A cost below zero is an [ErrNegativeCost]. After 16 increases,
// the first charge cannot be refunded any more.
//
// After another error the difference may have been charged or refunded, and a second call does not
// try again. If ctx had ended before the call, nothing was done, and Settle can be called again.
func (r *Reservation) Settle(ctx context.Context, cost int) error {
	return r.settleAsks(ctx, cost, func(int, *shared) bool { return true })
}

// SettleFor is [Reservation.Settle] for the asks of one limiter: l or the limiter that l is a view of,
// under any plan. It is for events with several costs, such as one request and many tokens of a
// language model. If r has asks, but none about l, the error is an [ErrInvalidAsk].
func (r *Reservation) SettleFor(ctx context.Context, l *Limiter, cost int) error {
	if l == nil {
		return invalidAsk("the limiter is nil")
	}
	return r.settleAsks(ctx, cost, func(_ int, limiter *shared) bool { return limiter == l.shared })
}

// settleAsk is [Reservation.Settle] for one ask, whose index is that of [State.Ask]. If r has asks,
// but not that one, the error is an [ErrInvalidAsk].
func (r *Reservation) settleAsk(ctx context.Context, ask, cost int) error {
	return r.settleAsks(ctx, cost, func(i int, _ *shared) bool { return i == ask })
}

// settleAsks sets the total cost of the asks for which is returns true: it gets the index of an ask
// and its limiter.
func (r *Reservation) settleAsks(ctx context.Context, cost int, is func(i int, limiter *shared) bool) error {
	if cost < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, cost)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	asks := r.asks()
	settled := func(i int32) bool { return is(int(i), asks[i].limiter) }
	found := false
	for i := range asks {
		found = found || settled(int32(i))
	}
	if !found && len(asks) > 0 {
		return invalidAsk("the reservation has no such ask")
	}
	total := func(i, before int) int {
		sum, found, c := 0, false, &r.charges()[i]
		for _, l := range r.lines() {
			switch {
			case int(l.charge) != i:
			case settled(l.ask):
				sum, found = saturated(sum, cost), true
			default:
				sum = saturated(sum, asks[l.ask].cost)
			}
		}
		if !found || c.Rule.Shadow && !c.Verdict.Allowed && before == 0 {
			return before
		}
		return sum
	}
	return r.settle(ctx, total, func() {
		for i := range asks {
			if settled(int32(i)) {
				asks[i].cost = cost
			}
		}
	})
}

// leaveQueue refunds the event to each [LeakyBucket], and leaves it charged to all other rules. It
// is for a delayed event whose caller does not wait any more. As with [Reservation.Refund], only
// the last event of a queue can leave the queue. A second leaveQueue does nothing, but a later
// Settle charges the queue again.
//
// After an error the event may have left the queue, and a second call does not try again. If ctx
// had ended before the call, nothing was done.
func (r *Reservation) leaveQueue(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	total := func(i, before int) int {
		if r.charges()[i].Rule.Algorithm == driver.LeakyBucket {
			return 0
		}
		return before
	}
	return r.settle(ctx, total, func() {})
}
