package core

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/hold"
)

// raises holds the charges of one rule and key after the first: the Debits of Settle.
type raises struct {
	all  []raise // the newest last
	lost int     // the charged cost that cannot be undone any more
}

// A raise is the Spend of an event, or one Debit.
type raise struct {
	cost    int              // the part that has not been undone
	rule    *driver.Compiled // that was charged
	receipt driver.Receipt   // Age is as event.reserve sets it
	applied *driver.Compiled // the rule that the Store applied: see driver.Verdict
}

// raiseOf returns c, which the Store has applied, as a raise.
func raiseOf(c *driver.Charge) raise {
	return raise{c.Cost, c.Rule, c.Receipt, cmp.Or(c.Verdict.Rule, c.Rule)}
}

// maxRaises is the largest number of charges of one rule and key that can be undone.
const maxRaises = 16

// raisesOf returns the raises of the i-th charge, or nil if there are none.
func (e *event) raisesOf(i int) *raises {
	if e.spill == nil || e.spill.later == nil {
		return nil
	}
	return &e.spill.later[i]
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
	i    int // the index of the charge
	cost int
}

// settle changes the charged cost of each charge of e to the result of total, which gets the index of
// the charge and the cost that is charged. It calls begin before the changes, but not if there are
// some and ctx has ended.
func (e *event) settle(ctx context.Context, total func(i, before int) int, begin func()) error {
	var few [4]change
	changes := few[:0]
	for i := range e.charges() {
		before, _ := e.charged(i)
		if cost := total(i, before) - before; cost != 0 && !e.denied {
			changes = append(changes, change{i, cost})
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
	store := e.lines()[0].limiter.store
	for charges := e.undos(changes); len(charges) > 0; charges = e.undos(changes) {
		if err := adjustAll(ctx, store, charges); err != nil {
			e.keepPlaces(charges)
			return err
		}
	}
	charges, raised := e.debits(ctx, changes)
	if len(charges) == 0 {
		return nil
	}
	err := adjustAll(ctx, store, charges)
	for i, p := range raised {
		*p = raiseOf(&charges[i])
		p.receipt.Age = int64(hold.Now())
	}
	return err
}

// keepPlaces makes the places taken again that failed undos have not freed, as far as it is known, so that
// they can be freed again.
func (e *event) keepPlaces(undos []driver.Charge) {
	for i := range undos {
		u := &undos[i]
		if !u.Rule.Kind.Holds || u.Verdict.Done {
			continue
		}
		for j := range e.charges() {
			if c := &e.charges()[j]; c.Key == u.Key && c.Rule.ID == u.Rule.ID {
				c.Cost = u.Cost
			}
		}
	}
}

func adjustAll(ctx context.Context, s Store, charges []driver.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Adjust(ctx, charges)
}

// undos returns an Undo for each change below zero, of the newest charge.
func (e *event) undos(changes []change) (charges []driver.Charge) {
	for k := range changes {
		c := &changes[k]
		if _, revocable := e.charged(c.i); c.cost < 0 && revocable > 0 {
			undo := e.undo(c.i, -c.cost)
			c.cost += undo.Cost
			charges = append(charges, undo)
		}
	}
	return charges
}

// debits returns a Debit for each change above zero, and their raises.
func (e *event) debits(ctx context.Context, changes []change) (charges []driver.Charge, raised []*raise) {
	for _, c := range changes {
		if c.cost > 0 {
			of := &e.charges()[c.i]
			rule := of.Rule
			if rule.Kind.Calendar { // another period may have begun
				line := slices.IndexFunc(e.lines(), func(l line) bool { return int(l.charge) == c.i })
				l := &e.lines()[line]
				rule = l.rule.d.during(ctx, l.limiter.now(), of.Key)
			}
			charges = append(charges, driver.Charge{Key: of.Key, Rule: rule, Op: driver.Debit, Cost: c.cost})
			raised = append(raised, e.raise(c.i, raise{cost: c.cost}))
		}
	}
	return charges, raised
}

// undo removes cost, or less, from the newest raise of the i-th charge or from the charge itself, and
// returns an Undo of the removed cost.
func (e *event) undo(i, cost int) driver.Charge {
	c := &e.charges()[i]
	p := raiseOf(c)
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
	return driver.Charge{Key: c.Key, Rule: p.rule, Op: driver.Undo, Cost: cost, Receipt: receipt}
}

// age returns the microseconds since p was charged, minus a tolerance of a second and a thousandth
// of the age. Without the tolerance, a server clock that runs slower than the clock of this
// process, or is set back a little every day, would be taken for a clock that stepped back.
func (p *raise) age() int64 {
	if p.receipt.Age == 0 { // of a steady Store
		return 0
	}
	age := hold.Now() - time.Duration(p.receipt.Age)
	return max(0, age-age/1000-time.Second).Microseconds()
}

// raise adds p to the i-th charge, and forgets the oldest charge if there are too many.
func (e *event) raise(i int, p raise) *raise {
	m := e.spilled()
	if m.later == nil {
		m.later = make([]raises, len(e.charges()))
	}
	c, r := &e.charges()[i], &m.later[i]
	switch n := len(r.all); {
	case n == maxRaises:
		r.lost = saturated(r.lost, r.all[0].cost)
		r.all = slices.Delete(r.all, 0, 1)
	case n == maxRaises-1 && c.Cost > 0:
		r.lost, c.Cost = saturated(r.lost, c.Cost), 0
	}
	r.all = append(r.all, p)
	return &r.all[len(r.all)-1]
}
