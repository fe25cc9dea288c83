package core

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A Reservation is a decision about an event whose cost can still be changed or refunded, for
// example when the real cost is known. It stores a receipt of every charge, so that a refund frees
// exactly that charge. It is safe for concurrent use. The zero Reservation has no asks; Extend adds
// the first. A Reservation must not be copied after its first use.
type Reservation struct {
	mu     sync.Mutex
	sole   sole
	ledger *ledger // nil if sole has the decision
}

// ReserveTogether is [AllowTogether] for an event whose cost may turn out to be more or less.
func ReserveTogether(ctx context.Context, asks ...Ask) (*Reservation, error) {
	r := new(Reservation)
	if err := r.decide(ctx, asks); err != nil {
		return nil, err
	}
	return r, nil
}

// begin sets the Receipts of charges, so that the Store s writes them into r. r must be zero.
func (r *Reservation) begin(s Store, charges []driver.Charge) {
	if len(charges) > 1 {
		r.ledger = newLedger(s, len(charges))
	}
	for i := range charges {
		charges[i].Receipt = r.receiptOf(i)
	}
}

// receiptOf returns the Receipt of the i-th charge.
func (r *Reservation) receiptOf(i int) *driver.Receipt {
	if r.ledger == nil {
		return &r.sole.receipt
	}
	return &r.ledger.rules[i].first[0].receipt
}

// keep stores the charges of b, a batch about asks, in r after the Store has applied them.
func (r *Reservation) keep(b *batch, asks []Ask, allowed bool) {
	if b.isSole(len(asks)) {
		r.sole.keep(&asks[0], len(b.charges) > 0 && b.charges[0].Verdict.Allowed)
		return
	}
	if r.ledger == nil { // at most one charge, but a sole cannot hold the decision
		receipt := r.sole.receipt
		r.ledger = newLedger(asks[0].Limiter.store, len(b.charges))
		if len(b.charges) > 0 {
			*r.receiptOf(0) = receipt
		}
	}
	r.ledger.keep(b, asks, allowed)
}

// decide makes the first decision of r, which must be zero. As Limiter.decide, it makes no batch for
// one bucket.
func (r *Reservation) decide(ctx context.Context, asks []Ask) error {
	var rules []Rule
	if len(asks) == 1 && asks[0].takesBucket() {
		a := &asks[0]
		var err error
		rules, err = a.Limiter.rulesFor(ctx, a.Key, a.Plan)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if oneBucket(rules) {
			return r.takeBucket(ctx, rules[0].inForce(), a)
		}
	}
	var d Decision
	if err := decide(ctx, &d, r, rules, asks...); err != nil {
		r.sole, r.ledger = sole{}, nil
		return err
	}
	if r.ledger == nil {
		r.sole.setState(d.rule, &d.first)
	} else {
		r.ledger.decision = d
	}
	return nil
}

// takeBucket is decide for an ask whose only rule is a bucket.
func (r *Reservation) takeBucket(ctx context.Context, rule Rule, a *Ask) error {
	op, cost := driver.Spend, max(a.Cost, 1)
	if a.Peek {
		op = driver.Peek
	}
	used, at, err := a.Limiter.buckets.TakeBucket(ctx, a.Key, rule.d.compiled, op, cost)
	if err != nil {
		return err
	}
	var v driver.Verdict
	rule.d.compiled.AnswerBucket(&v, used, op, cost)
	if v.Allowed && !a.Peek {
		before := driver.Reading{Used: used}
		r.sole.receipt = before.Receipt(at)
	}
	r.sole.keep(a, v.Allowed)
	r.sole.setState(rule, &v)
	return nil
}

// expand returns the ledger of r, made of sole if necessary. It is empty if r has no decision.
func (r *Reservation) expand() *ledger {
	switch {
	case r.ledger != nil:
	case r.sole.limiter == nil:
		return new(ledger)
	default:
		r.ledger = r.sole.ledger()
	}
	return r.ledger
}

// Extend charges more asks for the same event, all or none. It is for keys that are known only
// after the first asks have been charged. The States of asks are appended to the Decision of r.
// [Reservation.Settle], [Reservation.Refund] and [Reservation.LeaveQueue] apply to all asks. All
// limiters must have the Store of r. Otherwise the error is an [ErrInvalidAsk].
//
// If asks are denied, the Decision of r becomes a denial. The earlier asks stay charged until
// Refund, and their States are unchanged. If the Decision of r is a denial already, Extend does
// nothing. For the zero Reservation, Extend is [ReserveTogether]. After an error r is unchanged, and
// asks have been charged at most once, or not at all.
func (r *Reservation) Extend(ctx context.Context, asks ...Ask) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sole.limiter == nil && r.ledger == nil {
		return r.decide(ctx, asks)
	}
	l := r.expand()
	if !l.decision.Allowed {
		return nil
	}
	for i, a := range asks {
		if a.Limiter != nil && a.Limiter.store != l.store {
			return invalidAsk(fmt.Sprintf("the reservation and ask %d have different stores", i))
		}
	}
	more, err := ReserveTogether(ctx, asks...)
	if err != nil {
		return err
	}
	l.append(more.expand())
	return nil
}

// Decision returns the decision about the first asks and the asks of every [Reservation.Extend].
func (r *Reservation) Decision() Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger == nil {
		return r.sole.decision()
	}
	return r.ledger.decision
}

// Has reports whether an ask of r was about l, or about another view of the same limiter.
func (r *Reservation) Has(l *Limiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger == nil {
		return l != nil && r.sole.limiter == l.shared
	}
	return l != nil && slices.ContainsFunc(r.ledger.asks, func(a reserved) bool { return a.limiter == l.shared })
}

// Refund frees the cost of the event in every rule of every ask, except for the part that has
// expired or refilled already, so that no refund makes a rule exceed its limit. A second Refund
// does nothing. A [LeakyBucket] frees the cost only while the event is the last of its queue,
// because later callers already know their Delay.
//
// If the clock of the Store has stepped back by more than a second, Refund frees less, or nothing.
// Do not refund an event from before a [Limiter.Reset]: the refund may free later events.
func (r *Reservation) Refund(ctx context.Context) error { return r.Settle(ctx, 0) }

// LeaveQueue refunds the event to each [LeakyBucket], and leaves it charged to all other rules. It
// is for a delayed event whose caller does not wait any more. As with [Reservation.Refund], only
// the last event of a queue can leave the queue. A second LeaveQueue does nothing, but a later
// Settle charges the queue again.
//
// After an error the event may have left the queue, and a second call does not try again. If ctx
// had ended before the call, nothing was done.
func (r *Reservation) LeaveQueue(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expand().settle(ctx, nil, func(c *ruleCharges) int {
		if c.rule.Algorithm() == driver.LeakyBucket {
			return 0
		}
		return c.charged()
	})
}

// Settle sets the total cost of the event, the same for every ask of a [ReserveTogether]. If cost
// is higher than the charged cost, Settle charges the difference, into debt if necessary
// ([Limiter.Debit]). If cost is lower, it refunds the difference ([Reservation.Refund]). Settling
// the same cost again does nothing. A cost below zero is an [ErrNegativeCost]. After 16 increases,
// the first charge cannot be refunded any more.
//
// After another error the difference may have been charged or refunded, and a second call does not
// try again. If ctx had ended before the call, nothing was done, and Settle can be called again.
func (r *Reservation) Settle(ctx context.Context, cost int) error {
	return r.settleAsks(ctx, cost, func(*ledger, int) bool { return true })
}

// SettleFor is [Reservation.Settle] for the asks of one limiter: l or the limiter that l is a view of,
// under any plan. It is for events with several costs, such as one request and many tokens of a
// language model. If r has asks, but none about l, the error is an [ErrInvalidAsk].
func (r *Reservation) SettleFor(ctx context.Context, l *Limiter, cost int) error {
	if l == nil {
		return invalidAsk("the limiter is nil")
	}
	return r.settleAsks(ctx, cost, func(g *ledger, i int) bool { return g.asks[i].limiter == l.shared })
}

// SettleAsk is [Reservation.Settle] for one ask, whose index is that of [State.Ask]. If r has asks,
// but not that one, the error is an [ErrInvalidAsk].
func (r *Reservation) SettleAsk(ctx context.Context, ask, cost int) error {
	return r.settleAsks(ctx, cost, func(_ *ledger, i int) bool { return i == ask })
}

// settleAsks sets the total cost of the asks for whose index is returns true.
func (r *Reservation) settleAsks(ctx context.Context, cost int, is func(l *ledger, i int) bool) error {
	if cost < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, cost)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.expand()
	next, found := slices.Clone(l.asks), false
	for i := range next {
		if is(l, i) {
			next[i].cost, found = cost, true
		}
	}
	if !found && len(next) > 0 {
		return invalidAsk("the reservation has no such ask")
	}
	return l.settle(ctx, next, func(c *ruleCharges) int {
		total, settled := next[c.ask].cost, is(l, int(c.ask))
		for _, i := range c.asks {
			total, settled = saturated(total, next[i].cost), settled || is(l, int(i))
		}
		switch {
		case !settled:
			return c.charged()
		case c.uncounted && c.charged() == 0:
			return 0
		}
		return total
	})
}
