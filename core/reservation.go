package core

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Reservation is a decision about an event whose cost can still be changed or refunded, for
// example when the real cost is known. It stores a receipt of every charge, so that a refund frees
// exactly that charge. It is safe for concurrent use. The zero Reservation has no asks; Extend adds
// the first. A Reservation must not be copied after its first use.
type Reservation struct {
	store Store

	mu       sync.Mutex
	decision Decision
	asks     []reserved
	rules    []ruleCharges
	initial  struct { // the arrays of asks and rules, unless there are more
		asks  [2]reserved
		rules [1]ruleCharges
	}
}

// reserved is an ask of a Reservation, and its total cost.
type reserved struct {
	limiter *shared
	cost    int
}

// ruleCharges holds the charges of a Reservation to one rule for one key.
type ruleCharges struct {
	key       string
	rule      *driver.Compiled // of the first charge
	uncounted bool             // the rule is a shadow rule that did not count the event
	ask       int32            // the index of the first ask that charges the rule
	asks      []int32          // the indices of the other asks that charge it
	parts     []part           // the charged costs that can be undone, the newest last
	lost      int              // the charged cost that cannot be undone any more
	first     [1]part          // the array of parts, unless there are more
}

// A part holds the cost of one Spend or Debit that has not been undone.
type part struct {
	cost    int
	receipt driver.Receipt
	rule    *driver.Compiled // the rule of the charge: an undo under another limit would free another part
	applied *driver.Compiled // the rule that the Store applied: see driver.Verdict
	since   time.Duration    // when the call of the Store returned, as sinceStart returns it
}

// maxParts is the largest number of parts for one rule and key.
const maxParts = 16

// sinceStart returns the time since the program was started, by its monotonic clock. It takes a third
// less time than time.Now.
func sinceStart() time.Duration { return time.Since(start) }

var start = time.Now()

// age returns the microseconds since p was charged, minus a tolerance of a second and a thousandth
// of the age. Without the tolerance, a server clock that runs slower than the clock of this
// process, or is set back a little every day, would be taken for a clock that stepped back.
func (p *part) age() int64 {
	age := sinceStart() - p.since
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
	receipt := p.applied.Keep(p.receipt, int64(p.cost))
	receipt.Age = p.age()
	if p.cost == 0 {
		c.parts = c.parts[:last]
	}
	return driver.Charge{Key: c.key, Rule: p.rule, Op: driver.Undo, Cost: cost, Receipt: &receipt}
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
	r.store, r.rules = s, r.initial.rules[:]
	if len(charges) > 1 {
		r.rules = make([]ruleCharges, len(charges))
	}
	for i := range charges {
		charges[i].Receipt = &r.rules[i].first[0].receipt
	}
}

// keep stores the charges of b, a batch about asks, in r after the Store has applied them.
func (r *Reservation) keep(b *batch, asks []Ask, allowed bool) {
	r.asks = r.initial.asks[:0]
	for i := range asks {
		a := reserved{limiter: asks[i].Limiter.shared}
		if !asks[i].Peek {
			a.cost = max(asks[i].Cost, 1)
		}
		r.asks = append(r.asks, a)
	}
	if !allowed {
		r.rules = nil
		return
	}
	now := sinceStart()
	r.rules = r.rules[:len(b.charges)]
	for i := range b.charges {
		c, k := &b.charges[i], &r.rules[i]
		k.key, k.rule, k.ask = c.Key, c.Rule, -1
		if c.Op == driver.Spend && c.Verdict.Allowed {
			k.parts = k.first[:]
			p := &k.parts[0]
			p.cost, p.rule, p.applied, p.since = c.Cost, c.Rule, cmp.Or(c.Verdict.Rule, c.Rule), now
		}
		k.uncounted = c.Rule.Shadow() && !c.Verdict.Allowed
	}
	for i := range b.rules {
		if at := b.place(i); at >= 0 {
			r.rules[at].addAsk(int32(b.ask(i)))
		}
	}
}

// addAsk records that the i-th ask charges the rule.
func (c *ruleCharges) addAsk(i int32) {
	if c.ask < 0 {
		c.ask = i
		return
	}
	c.asks = append(c.asks, i)
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
	switch {
	case r.decision.n == 0:
		err := decide(ctx, &r.decision, r, asks...)
		if err != nil {
			r.store, r.rules = nil, nil
		}
		return err
	case !r.decision.Allowed:
		return nil
	}
	for i, a := range asks {
		if a.Limiter != nil && a.Limiter.store != r.store {
			return invalidAsk(fmt.Sprintf("the reservation and ask %d have different stores", i))
		}
	}
	more, err := ReserveTogether(ctx, asks...)
	if err != nil {
		return err
	}
	first := len(r.asks)
	r.decision = r.decision.combine(first, more.decision)
	r.asks = append(r.asks, more.asks...)
	if !more.decision.Allowed {
		return nil
	}
	for _, c := range more.rules {
		c.ask += int32(first)
		for i := range c.asks {
			c.asks[i] += int32(first)
		}
		at := slices.IndexFunc(r.rules, func(o ruleCharges) bool { return o.rule.ID() == c.rule.ID() && o.key == c.key })
		if at < 0 {
			r.rules = append(r.rules, c)
			continue
		}
		known := &r.rules[at]
		known.asks = append(append(known.asks, c.ask), c.asks...)
		for _, p := range c.parts {
			known.add(p)
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

// Has reports whether an ask of r was about l, or about another view of the same limiter.
func (r *Reservation) Has(l *Limiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return l != nil && slices.ContainsFunc(r.asks, func(a reserved) bool { return a.limiter == l.shared })
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
	return r.settle(ctx, nil, func(c *ruleCharges) int {
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
	return r.settleAsks(ctx, cost, func(int) bool { return true })
}

// SettleFor is [Reservation.Settle] for the asks of one limiter: l or the limiter that l is a view of,
// under any plan. It is for events with several costs, such as one request and many tokens of a
// language model. If r has asks, but none about l, the error is an [ErrInvalidAsk].
func (r *Reservation) SettleFor(ctx context.Context, l *Limiter, cost int) error {
	if l == nil {
		return invalidAsk("the limiter is nil")
	}
	return r.settleAsks(ctx, cost, func(i int) bool { return r.asks[i].limiter == l.shared })
}

// SettleAsk is [Reservation.Settle] for one ask, whose index is that of [State.Ask]. If r has asks,
// but not that one, the error is an [ErrInvalidAsk].
func (r *Reservation) SettleAsk(ctx context.Context, ask, cost int) error {
	return r.settleAsks(ctx, cost, func(i int) bool { return i == ask })
}

// settleAsks sets the total cost of the asks for whose index is returns true.
func (r *Reservation) settleAsks(ctx context.Context, cost int, is func(i int) bool) error {
	if cost < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, cost)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next, found := slices.Clone(r.asks), false
	for i := range next {
		if is(i) {
			next[i].cost, found = cost, true
		}
	}
	if !found && len(next) > 0 {
		return invalidAsk("the reservation has no such ask")
	}
	return r.settle(ctx, next, func(c *ruleCharges) int {
		total, settled := next[c.ask].cost, is(int(c.ask))
		for _, i := range c.asks {
			total, settled = saturated(total, next[i].cost), settled || is(int(i))
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

// settle changes the charged cost of each rule c to total(c). asks, unless it is nil, contains the
// costs of all asks from now on.
func (r *Reservation) settle(ctx context.Context, asks []reserved, total func(c *ruleCharges) int) error {
	changes := make([]int, len(r.rules)) // above zero: a Debit, below: an Undo
	for i := range r.rules {
		changes[i] = total(&r.rules[i]) - r.rules[i].charged()
	}
	if slices.ContainsFunc(changes, func(n int) bool { return n != 0 }) {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if asks != nil {
		r.asks = asks
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
			p := c.add(part{cost: cost, rule: c.rule})
			parts = append(parts, p)
			charges = append(charges, driver.Charge{Key: c.key, Rule: c.rule, Op: driver.Debit, Cost: cost, Receipt: &p.receipt})
		}
	}
	if len(charges) == 0 {
		return nil
	}
	err := r.adjust(ctx, charges)
	for i, p := range parts {
		p.applied, p.since = cmp.Or(charges[i].Verdict.Rule, p.rule), sinceStart()
	}
	return err
}

func (r *Reservation) adjust(ctx context.Context, charges []driver.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.store.Adjust(ctx, charges)
}
