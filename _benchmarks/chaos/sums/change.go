package main

import (
	"context"
	"slices"
)

// change settles or refunds a reservation that c holds. A reservation of a limited target is never raised.
func (c *caller) change(ctx context.Context) {
	i := c.rand.IntN(len(c.held))
	h := c.held[i]
	drop := func() { c.held = slices.Delete(c.held, i, i+1) }
	before := h.cost()
	cost, settle := 0, c.rand.IntN(3) > 0
	switch {
	case settle && !h.target.limited && len(h.charges) <= mostRaises && c.rand.IntN(2) == 0:
		cost = before + 1 + c.rand.IntN(mostCost)
	case settle && before > 0:
		cost = max(before-1-c.rand.IntN(mostCost), 0)
	}
	ended := ctx.Err() != nil
	var err error
	if settle {
		err = h.Settle(ctx, cost)
	} else {
		err = h.Refund(ctx)
	}
	e := entry{failed: err != nil, changes: []int{0}}
	ran := err == nil || c.mayHaveRun(err, ended)
	got := h.Cost()
	switch {
	case h.denied:
		if cost = 0; err != nil {
			c.audit.violations.addf("a change of a denied reservation returned the error %v", err)
		}
		drop()
	case err != nil && (ended || ctx.Err() != nil && got == before): // the context had ended, so nothing was done
		cost = before
	case cost > before:
		if e.cost = cost - before; ran {
			e.changes = append(e.changes, e.cost)
		}
		h.charges = append(h.charges, charge{e.cost, err != nil})
	default:
		steps := h.reduce(before - cost)
		e.cost, e.changes = freed(steps, ran)
		if err != nil || cost == 0 && c.rand.IntN(2) == 0 { // otherwise a later Refund does nothing
			drop()
		}
	}
	if got != cost {
		c.audit.violations.addf("key %s: after a change to the cost %d with the error %v, the cost is %d", c.audit.names[h.key], cost, err, got)
	}
	c.audit.add(h.target, h.key, e)
}

// freed returns the change of the state by a refund that consists of several calls of the store, and the possible
// changes if one of the calls failed. The calls before it were applied, and those after it were not made. ran says
// whether the failed call may have been applied.
func freed(steps []int, ran bool) (cost int, changes []int) {
	changes = []int{0}
	for i, step := range steps {
		cost -= step
		if ran || i < len(steps)-1 {
			changes = append(changes, cost)
		}
	}
	return cost, changes
}
