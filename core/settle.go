package core

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// raises holds the Debits with which Settle has raised the cost of a charge.
type raises struct {
	all  []raise // the newest last
	lost int     // the charged cost that cannot be undone any more
}

// A raise is one Debit.
type raise struct {
	cost    int              // the part that has not been undone
	receipt driver.Receipt   // Age is as event.reserve sets it
	applied *driver.Compiled // the rule that the Store applied: see driver.Verdict
}

// maxCharges is the largest number of charges of one rule and key that can be undone.
const maxCharges = 16

// reserve makes e ready for changes of its cost, after its decision. From then on, the Cost of a charge
// is the part of it that has not been undone, and the Age of its Receipt is when it was charged: the
// nanoseconds of sinceStart.
func (e *event) reserve(allowed bool) {
	e.denied = !allowed
	now := time.Duration(0)
	for i := range e.charges() {
		c := &e.charges()[i]
		if e.denied || c.Op != driver.Spend || !c.Verdict.Allowed {
			c.Cost = 0
			continue
		}
		if now == 0 {
			now = sinceStart()
		}
		c.Receipt.Age = int64(now)
	}
}

// next returns the event of the next Extend, or nil.
func (e *event) next() *event {
	if e.more == nil {
		return nil
	}
	return e.more.next
}

// extend adds the event of an Extend.
func (e *event) extend(next *event) {
	for e.next() != nil {
		e = e.next()
	}
	e.needMore().next = next
}

func (e *event) needMore() *more {
	if e.more == nil {
		e.more = new(more)
	}
	return e.more
}

// raisesOf returns the raises of the i-th charge, or nil if there are none.
func (e *event) raisesOf(i int) *raises {
	if e.more == nil || e.more.later == nil {
		return nil
	}
	return &e.more.later[i]
}

// charged returns the cost that is charged by the i-th charge and its raises. revocable is the part of
// it that can be undone.
func (e *event) charged(i int) (cost, revocable int) {
	revocable = e.charges()[i].Cost
	lost := 0
	if r := e.raisesOf(i); r != nil {
		lost = r.lost
		for _, p := range r.all {
			revocable = saturated(revocable, p.cost)
		}
	}
	return saturated(revocable, lost), revocable
}

// A change is a change of the charged cost of a charge. The cost is above zero for a Debit, and below
// it for an Undo.
type change struct {
	event *event
	i     int // the index of the charge
	cost  int
}

func (c *change) charge() *driver.Charge { return &c.event.charges()[c.i] }

// settle changes the charged cost of each charge of e, and of the events after it, to the result of
// total, which gets the event, the index of the charge and the cost that is charged. It calls begin
// before the changes, but not if there are some and ctx has ended.
func (e *event) settle(ctx context.Context, total func(e *event, i, before int) int, begin func()) error {
	var few [4]change
	changes := few[:0]
	for o := e; o != nil; o = o.next() {
		for i := range o.charges() {
			if o.denied {
				break
			}
			before, _ := o.charged(i)
			if cost := total(o, i, before) - before; cost != 0 {
				changes = append(changes, change{o, i, cost})
			}
		}
	}
	if len(changes) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if begin(); len(changes) == 0 {
		return nil
	}
	store := e.asks()[0].limiter.store
	for charges := undos(changes); len(charges) > 0; charges = undos(changes) {
		if err := adjustAll(ctx, store, charges); err != nil {
			return err
		}
	}
	for charges, raised := debits(changes); len(charges) > 0; charges, raised = debits(changes) {
		err := adjustAll(ctx, store, charges)
		for i, p := range raised {
			c := &charges[i]
			p.receipt, p.applied = c.Receipt, cmp.Or(c.Verdict.Rule, c.Rule)
			p.receipt.Age = int64(sinceStart())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func adjustAll(ctx context.Context, s Store, charges []driver.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Adjust(ctx, charges)
}

// undos returns Undos for the changes below zero, of the newest charges, as many as one call of a
// Store may contain.
func undos(changes []change) (charges []driver.Charge) {
	for k := range slices.Backward(changes) { // the last event of a queue must leave it first
		c := &changes[k]
		if _, revocable := c.event.charged(c.i); c.cost < 0 && revocable > 0 && !c.meets(charges) {
			undo := c.event.undo(c.i, -c.cost)
			c.cost += undo.Cost
			charges = append(charges, undo)
		}
	}
	return charges
}

// debits returns Debits for the changes above zero, as many as one call of a Store may contain, and
// their raises.
func debits(changes []change) (charges []driver.Charge, raised []*raise) {
	for k := range changes {
		if c := &changes[k]; c.cost > 0 && !c.meets(charges) {
			of := c.charge()
			charges = append(charges, driver.Charge{Key: of.Key, Rule: of.Rule, Op: driver.Debit, Cost: c.cost})
			raised = append(raised, c.event.raise(c.i, c.cost))
			c.cost = 0
		}
	}
	return charges, raised
}

// meets reports whether charges has one with the rule and key of c.
func (c *change) meets(charges []driver.Charge) bool {
	return slices.ContainsFunc(charges, func(o driver.Charge) bool { return meet(&o, c.charge()) })
}

// undo removes cost, or less, from the newest raise of the i-th charge or from the charge itself, and
// returns an Undo of the removed cost.
func (e *event) undo(i, cost int) driver.Charge {
	c := &e.charges()[i]
	p := raise{c.Cost, c.Receipt, cmp.Or(c.Verdict.Rule, c.Rule)}
	if r := e.raisesOf(i); r != nil && len(r.all) > 0 {
		last := &r.all[len(r.all)-1]
		cost = min(cost, last.cost)
		last.cost -= cost
		if p = *last; p.cost == 0 {
			r.all = r.all[:len(r.all)-1]
		}
	} else {
		cost = min(cost, c.Cost)
		c.Cost -= cost
		p.cost = c.Cost
	}
	receipt := p.applied.Keep(p.receipt, int64(p.cost))
	receipt.Age = p.age()
	return driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Undo, Cost: cost, Receipt: receipt}
}

// age returns the microseconds since p was charged, minus a tolerance of a second and a thousandth
// of the age. Without the tolerance, a server clock that runs slower than the clock of this
// process, or is set back a little every day, would be taken for a clock that stepped back.
func (p *raise) age() int64 {
	age := sinceStart() - time.Duration(p.receipt.Age)
	return max(0, age-age/1000-time.Second).Microseconds()
}

// raise adds a raise to the i-th charge, and forgets the oldest charge if there are too many.
func (e *event) raise(i, cost int) *raise {
	m := e.needMore()
	if m.later == nil {
		m.later = make([]raises, len(e.charges()))
	}
	c, r := &e.charges()[i], &m.later[i]
	switch n := len(r.all); {
	case n == maxCharges:
		r.lost = saturated(r.lost, r.all[0].cost)
		r.all = slices.Delete(r.all, 0, 1)
	case n == maxCharges-1 && c.Cost > 0:
		r.lost, c.Cost = saturated(r.lost, c.Cost), 0
	}
	r.all = append(r.all, raise{cost: cost})
	return &r.all[len(r.all)-1]
}

// sinceStart returns the time since the program was started, by its monotonic clock. It takes a third
// less time than time.Now.
func sinceStart() time.Duration { return time.Since(start) }

var start = time.Now()
