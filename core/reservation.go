package core

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Reservation is a decision about an event whose cost can still be changed or refunded, for
// example when the real cost is known. It stores a receipt of every charge, so that a refund frees
// exactly that charge. It is safe for concurrent use.
type Reservation struct {
	store Store

	mu       sync.Mutex
	decision Decision
	rules    []ruleCharges
}

// ruleCharges holds the charges of a Reservation to one rule for one key.
type ruleCharges struct {
	ask   driver.Charge // the first charge
	times int           // the number of asks that were merged into ask
	parts []part        // the charged costs that can be undone, the newest last
	lost  int           // the charged cost that cannot be undone any more
}

// A part holds the cost of one Spend or Debit that has not been undone.
type part struct {
	cost    int
	receipt driver.Receipt
	rule    *driver.Compiled // the rule that the Store applied: see driver.Verdict
	since   time.Time        // when the call of the Store returned
}

// maxParts is the largest number of parts for one rule and key.
const maxParts = 16

// age returns the microseconds since p was charged, minus a tolerance of a second and a thousandth
// of the age. Without the tolerance, a server clock that runs slower than the clock of this
// process, or is set back a little every day, would be taken for a clock that stepped back.
func (p *part) age() int64 {
	age := time.Since(p.since)
	return max(0, age-age/1000-time.Second).Microseconds()
}

// add adds p, and forgets the oldest part if there are too many.
func (c *ruleCharges) add(p part) *part {
	if len(c.parts) == maxParts {
		c.lost = saturated(c.lost, c.parts[0].cost)
		c.parts = c.parts[1:]
	}
	c.parts = append(c.parts, p)
	return &c.parts[len(c.parts)-1]
}

func (c *ruleCharges) charged() int {
	sum := c.lost
	for _, p := range c.parts {
		sum = saturated(sum, p.cost)
	}
	return sum
}

// undo removes cost, or less, from the newest part, and returns an Undo of the removed cost.
func (c *ruleCharges) undo(cost int) driver.Charge {
	last := len(c.parts) - 1
	p := &c.parts[last]
	cost = min(cost, p.cost)
	p.cost -= cost
	receipt := p.rule.Keep(p.receipt, int64(p.cost))
	receipt.Age = p.age()
	if p.cost == 0 {
		c.parts = c.parts[:last]
	}
	return driver.Charge{Key: c.ask.Key, Rule: c.ask.Rule, Op: driver.Undo, Cost: cost, Receipt: &receipt}
}

// Reserve is [Limiter.AllowN] for an event whose cost may turn out to be more or less than n. If
// the event is denied, Settle and Refund do nothing. On an error the Reservation is nil, and the
// event may have been charged, but not twice.
func (l *Limiter) Reserve(ctx context.Context, key string, n int) (*Reservation, error) {
	return ReserveTogether(ctx, Ask{Limiter: l, Key: key, Cost: n, Peek: n == 0})
}

// ReserveTogether is [AllowTogether] for an event whose cost may turn out to be more or less.
func ReserveTogether(ctx context.Context, asks ...Ask) (*Reservation, error) {
	r := new(Reservation)
	if err := decide(ctx, &r.decision, r, asks...); err != nil {
		return nil, err
	}
	return r, nil
}

// begin sets the Receipts of charges, so that the Store s writes them into r. r must be zero.
func (r *Reservation) begin(s Store, charges []driver.Charge) {
	r.store, r.rules = s, make([]ruleCharges, len(charges))
	parts := make([]part, len(charges))
	for i := range charges {
		r.rules[i].parts = parts[i : i+1 : i+1]
		charges[i].Receipt = &parts[i].receipt
	}
}

// keep stores charges in r after the Store has applied them. places contains the index of the
// charge for each rule of each ask, or is nil if no charges were merged.
func (r *Reservation) keep(charges []driver.Charge, places []int, allowed bool) {
	if !allowed {
		r.rules = nil
		return
	}
	now := time.Now()
	for i, c := range charges {
		k := &r.rules[i]
		k.ask, k.ask.Receipt = c, nil
		if places == nil {
			k.times = 1
		}
		if c.Op == driver.Spend && c.Verdict.Allowed {
			p := &k.parts[0]
			p.cost, p.rule, p.since = c.Cost, cmp.Or(c.Verdict.Rule, c.Rule), now
		} else {
			k.parts = nil
		}
	}
	for _, at := range places {
		r.rules[at].times++
	}
}

// Extend charges more asks for the same event, all or none. It is for keys that are known only
// after the first asks have been charged. The States of asks are appended to the Decision of r.
// [Reservation.Settle], [Reservation.Refund] and [Reservation.LeaveQueue] apply to all asks. All
// limiters must have the Store of r. Otherwise the error is an [ErrInvalidAsk].
//
// If asks are denied, the Decision of r becomes a denial. The earlier asks stay charged until
// Refund, and their States are unchanged. If the Decision of r is a denial already, Extend does
// nothing. After an error r is unchanged, and asks may have been charged, but not twice.
func (r *Reservation) Extend(ctx context.Context, asks ...Ask) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.decision.Allowed {
		return nil
	}
	for i, a := range asks {
		if a.Limiter != nil && a.Limiter.store != r.store {
			return fmt.Errorf("%w: the reservation and ask %d have different stores", ErrInvalidAsk, i)
		}
	}
	more, err := ReserveTogether(ctx, asks...)
	if err != nil {
		return err
	}
	r.decision = r.decision.combine(more.decision)
	if !more.decision.Allowed {
		return nil
	}
	for _, c := range more.rules {
		at := slices.IndexFunc(r.rules, func(known ruleCharges) bool { return known.ask.Meets(&c.ask) })
		if at < 0 {
			r.rules = append(r.rules, c)
			continue
		}
		r.rules[at].times += c.times
		for _, p := range c.parts {
			r.rules[at].add(p)
		}
	}
	return nil
}

// Decision returns the decision about the first asks and the asks of every [Reservation.Extend].
func (r *Reservation) Decision() Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decision
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
// the last event of a queue can leave the queue. A second LeaveQueue does nothing.
//
// After an error the event may have left the queue, and a second call does not try again. If ctx
// had ended before the call, nothing was done.
func (r *Reservation) LeaveQueue(ctx context.Context) error {
	return r.settle(ctx, func(c *ruleCharges) int {
		if c.ask.Rule.Algorithm() == driver.LeakyBucket {
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
	if cost < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, cost)
	}
	return r.settle(ctx, func(c *ruleCharges) int {
		switch {
		case c.ask.Rule.Shadow() && !c.ask.Verdict.Allowed && c.charged() == 0:
			return 0 // the shadow rule did not count the event
		case cost > math.MaxInt/c.times:
			return math.MaxInt
		}
		return cost * c.times
	})
}

// settle changes the charged cost of each rule c to total(c).
func (r *Reservation) settle(ctx context.Context, total func(c *ruleCharges) int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := make([]int, len(r.rules)) // above zero: a Debit, below: an Undo
	for i := range r.rules {
		changes[i] = total(&r.rules[i]) - r.rules[i].charged()
	}
	if !slices.ContainsFunc(changes, func(n int) bool { return n != 0 }) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.undo(ctx, changes); err != nil {
		return err
	}
	return r.debit(ctx, changes)
}

// undo applies the negative changes. Each call of the Store undoes the newest part of each rule.
func (r *Reservation) undo(ctx context.Context, changes []int) error {
	for {
		var charges []driver.Charge
		for i := range r.rules {
			if c := &r.rules[i]; changes[i] < 0 && len(c.parts) > 0 {
				undo := c.undo(-changes[i])
				changes[i] += undo.Cost
				charges = append(charges, undo)
			}
		}
		if len(charges) == 0 {
			return nil
		}
		if err := r.adjust(ctx, charges); err != nil {
			return err
		}
	}
}

// debit applies the positive changes.
func (r *Reservation) debit(ctx context.Context, changes []int) error {
	var charges []driver.Charge
	var parts []*part
	for i, cost := range changes {
		if cost > 0 {
			c := &r.rules[i]
			p := c.add(part{cost: cost})
			parts = append(parts, p)
			charges = append(charges, driver.Charge{Key: c.ask.Key, Rule: c.ask.Rule, Op: driver.Debit, Cost: cost, Receipt: &p.receipt})
		}
	}
	if len(charges) == 0 {
		return nil
	}
	err := r.adjust(ctx, charges)
	for i, p := range parts {
		p.rule, p.since = cmp.Or(charges[i].Verdict.Rule, charges[i].Rule), time.Now()
	}
	return err
}

func (r *Reservation) adjust(ctx context.Context, charges []driver.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.store.Adjust(ctx, charges)
}
