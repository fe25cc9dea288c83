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
	receipt driver.Receipt   // Age is as Reservation.reserve sets it
	applied *driver.Compiled // the rule that the Store applied: see driver.Verdict
}

// raiseOf returns c, which the Store has applied, as a raise.
func raiseOf(c *driver.Charge) raise {
	return raise{c.Cost, c.Rule, c.Receipt, cmp.Or(c.Verdict.Rule, c.Rule)}
}

// maxRaises is the largest number of charges of one rule and key that can be undone.
const maxRaises = 16

// raisesOf returns the raises of the i-th charge, or nil if there are none.
func (r *Reservation) raisesOf(i int) *raises {
	if r.spill == nil || r.spill.later == nil {
		return nil
	}
	return &r.spill.later[i]
}

// charged returns the cost that is charged by the i-th charge and its raises. revocable is the part of
// it that can be undone.
func (r *Reservation) charged(i int) (cost, revocable int) {
	revocable = r.charges()[i].Cost
	lost := 0
	if later := r.raisesOf(i); later != nil {
		lost = later.lost
		for _, p := range later.all {
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

// settle changes the charged cost of each charge of r to the result of total, which gets the index of
// the charge and the cost that is charged. It calls begin before the changes, but not if there are
// some and ctx has ended.
func (r *Reservation) settle(ctx context.Context, total func(i, before int) int, begin func()) error {
	var few [4]change
	changes := few[:0]
	for i := range r.charges() {
		before, _ := r.charged(i)
		if cost := total(i, before) - before; cost != 0 && !r.denied {
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
	store := r.lines()[0].limiter.store
	for charges := r.undos(changes); len(charges) > 0; charges = r.undos(changes) {
		if err := adjustAll(ctx, store, charges); err != nil {
			r.keepPlaces(charges)
			return err
		}
	}
	charges, raised := r.debits(ctx, changes)
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
func (r *Reservation) keepPlaces(undos []driver.Charge) {
	for i := range undos {
		u := &undos[i]
		if !u.Rule.Kind.Holds || u.Verdict.Done {
			continue
		}
		for j := range r.charges() {
			if c := &r.charges()[j]; c.Key == u.Key && c.Rule.ID == u.Rule.ID {
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
func (r *Reservation) undos(changes []change) (charges []driver.Charge) {
	for k := range changes {
		c := &changes[k]
		if _, revocable := r.charged(c.i); c.cost < 0 && revocable > 0 {
			undo := r.undo(c.i, -c.cost)
			c.cost += undo.Cost
			charges = append(charges, undo)
		}
	}
	return charges
}

// debits returns a Debit for each change above zero, and their raises.
func (r *Reservation) debits(ctx context.Context, changes []change) (charges []driver.Charge, raised []*raise) {
	for _, c := range changes {
		if c.cost > 0 {
			of := &r.charges()[c.i]
			rule := of.Rule
			if rule.Kind.Calendar { // another period may have begun
				line := slices.IndexFunc(r.lines(), func(l line) bool { return int(l.charge) == c.i })
				l := &r.lines()[line]
				rule = l.rule.d.during(ctx, l.limiter.now(), of.Key)
			}
			charges = append(charges, driver.Charge{Key: of.Key, Rule: rule, Op: driver.Debit, Cost: c.cost})
			raised = append(raised, r.raise(c.i, raise{cost: c.cost}))
		}
	}
	return charges, raised
}

// undo removes cost, or less, from the newest raise of the i-th charge or from the charge itself, and
// returns an Undo of the removed cost.
func (r *Reservation) undo(i, cost int) driver.Charge {
	c := &r.charges()[i]
	p := raiseOf(c)
	if later := r.raisesOf(i); later != nil && len(later.all) > 0 {
		last := &later.all[len(later.all)-1]
		cost = min(cost, last.cost)
		last.cost -= cost
		if p = *last; p.cost == 0 {
			later.all = later.all[:len(later.all)-1]
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
func (r *Reservation) raise(i int, p raise) *raise {
	m := r.spilled()
	if m.later == nil {
		m.later = make([]raises, len(r.charges()))
	}
	c, later := &r.charges()[i], &m.later[i]
	switch n := len(later.all); {
	case n == maxRaises:
		later.lost = saturated(later.lost, later.all[0].cost)
		later.all = slices.Delete(later.all, 0, 1)
	case n == maxRaises-1 && c.Cost > 0:
		later.lost, c.Cost = saturated(later.lost, c.Cost), 0
	}
	later.all = append(later.all, p)
	return &later.all[len(later.all)-1]
}
