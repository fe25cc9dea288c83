package wire

import "github.com/weir-go/weir/core/driver"

// The ops of charges as scripts know them, boxed once.
var (
	opArguments = [...]any{
		driver.Spend: "spend", driver.Peek: "peek", driver.Reset: "reset",
		driver.Credit: "credit", driver.Debit: "debit", driver.Undo: "undo", driver.Renew: "renew",
	}
	shadowArguments = [...]any{driver.Spend: "shadow_spend", driver.Peek: "shadow_peek"}
)

// opArgument returns the op of c as scripts know it. It panics if there is no such op.
func opArgument(c *driver.Charge) any {
	switch undoes := c.Op == driver.Undo; {
	case Waits(c):
		return "wait"
	case undoes && c.Waiter != nil:
		return "leave"
	case undoes && c.Rule.Kind.Delays:
		return "undo_last"
	case c.Op.Asks() && c.Rule.Shadow:
		return shadowArguments[c.Op]
	}
	return opArguments[c.Op]
}

// costArgument returns the cost for a script, within the range of integers that a double represents
// exactly. Spends and Peeks of all costs above the capacity are denied alike. With AtMost, it is the unit
// of which scripts take several. For the debit of a pause, it is the length.
func costArgument(c *driver.Charge) int64 {
	switch closes := c.Rule.Kind.Closes; {
	case closes && c.Op == driver.Debit:
		return min(c.Pause.Microseconds(), maxPause)
	case c.AtMost, closes:
		return 1
	case c.Op.Asks():
		return min(int64(c.Cost), c.Rule.Constants.Capacity+1)
	case c.Op == driver.Reset:
		return 1
	}
	return min(int64(c.Cost), maxCount+1) // more than any rule can count
}

// Waits reports whether c is the Spend of a [driver.Waiter].
func Waits(c *driver.Charge) bool { return c.Op == driver.Spend && c.Waiter != nil }

// waiterArguments returns the arguments of the [driver.Waiter] of c. The cost of the next caller is 0 if there is none.
func waiterArguments(c *driver.Charge) []any {
	w, known, next := c.Waiter, int64(0), min(int64(c.Waiter.Next), 1<<costBits-1)
	if w.Known {
		known = 1
	}
	if !c.Rule.ByCost {
		next = min(next, 1)
	}
	return []any{integer(w.Queue), integer(known), integer(next), integer(w.Age.Microseconds()), integer(w.Behind.Microseconds())}
}

// receiptAge is the index of the age in the arguments of a receipt, except for that of a place, and in those of a
// waiter.
const receiptAge = 3

// receiptArguments returns the arguments of the receipt of c, an undo or a renewal. If the rate was changed
// since the charge, a fraction >= denominator becomes 0, and the undo frees slightly less. A zero
// Receipt is sent as the receipt of a charge so long ago that the undo frees nothing. The receipt of a place is its
// number, and none has the number 0; that of a queue is its number, too.
func receiptArguments(c *driver.Charge) []any {
	m, k := c.Receipt, &c.Rule.Constants
	switch {
	case c.Waiter != nil:
		return []any{integer(c.Waiter.Queue)}
	case c.Rule.Kind.Holds:
		return []any{integer(max(0, m.At))}
	case m.At <= 0:
		m.At = -maxInteger
	}
	if m.Used.Frac >= k.Denominator {
		m.Used.Frac = 0
	}
	return []any{integer(m.At), integer(m.Used.Micros), integer(m.Used.Frac), integer(min(m.Age, maxInteger))}
}
