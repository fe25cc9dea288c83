package storetest

import (
	"fmt"
	"slices"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
)

// A call is a call of Take or Adjust.
type call struct {
	now      int64
	charges  []oracle.Charge   // with the receipts of the oracle
	receipts []*driver.Receipt // the receipts of the store for these charges
}

// add adds a charge, unless the call has one of the same state.
func (c *call) add(next oracle.Charge, receipt *driver.Receipt) {
	same := func(o oracle.Charge) bool {
		return o.Key == next.Key && o.Rule.Name == next.Rule.Name && o.Rule.Length() == next.Rule.Length()
	}
	if !slices.ContainsFunc(c.charges, same) {
		c.charges, c.receipts = append(c.charges, next), append(c.receipts, receipt)
	}
}

func (c call) asks() bool { return c.charges[0].Op <= oracle.Peek }

// takesOnePlace reports whether a charge of c is of an in-flight rule of which an event takes one place.
func (c call) takesOnePlace() bool {
	return slices.ContainsFunc(c.charges, func(o oracle.Charge) bool { return takesOnePlace(o.Rule) })
}

func (c call) String() string {
	text := fmt.Sprintf("at %d:", c.now)
	for _, o := range c.charges {
		text += fmt.Sprintf("\n\top %d of %q, cost %d, at most %t, max delay %v, %+v", o.Op, o.Key, o.Cost, o.AtMost, o.MaxDelay, *o.Rule)
		if o.Rule.Base != nil {
			text += fmt.Sprintf(", base %+v", *o.Rule.Base)
		}
		if o.Receipt != nil {
			text += fmt.Sprintf(", receipt %v of age %d", *o.Receipt, o.Receipt.Age)
		}
		if o.Waiter != nil {
			text += fmt.Sprintf(", waiter %+v", *o.Waiter)
		}
		text += fmt.Sprintf(": %+v", o.Verdict)
	}
	return text
}

// atMost returns c, a call of Take, with AtMost.
func (c call) atMost() call {
	first, next := c.charges[0], call{now: c.now}
	for i, o := range c.charges {
		receipt := c.receipts[i]
		if receipt == nil { // of a Peek, which becomes a Spend
			o.Receipt, receipt = new(oracle.Receipt), new(driver.Receipt)
		}
		next.add(oracle.Charge{Key: first.Key, Rule: o.Rule, Cost: first.Cost, AtMost: true, Receipt: o.Receipt}, receipt)
	}
	return next
}
