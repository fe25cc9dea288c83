package redisstore

import "github.com/weir-go/weir/core/driver"

// An argumentsKey identifies the arguments of a charge, except those of its receipt.
type argumentsKey struct {
	constants      driver.Constants
	cost, maxDelay int64
}

// arguments appends those of c to args. They are remembered for cost 1 without MaxDelay, which
// nearly all charges have. Other costs may be chosen by clients, and would fill the memo.
func (s *Store) arguments(args []any, c *driver.Charge) []any {
	rule := c.Rule
	k := argumentsKey{rule.Constants(), cost(c), c.Patience()}
	work := func(argumentsKey) []any { return algorithmOf(rule.Algorithm()).argue(rule, k.cost, k.maxDelay) }
	if k.cost == 1 && k.maxDelay == driver.Never {
		args = append(args, s.argued.get(k, work)...)
	} else {
		args = append(args, work(k)...)
	}
	if c.Op == driver.Undo {
		args = appendReceipt(args, *c.Receipt, k.constants.Denominator)
	}
	return args
}

// receiptArguments is how many arguments appendReceipt appends.
const receiptArguments = 4

// appendReceipt appends the arguments of m, the receipt of an undo, to args. A fraction that
// was written under another rate, and is none in parts of denominator, is left out: so less
// is in use before the charge, and less is given back. The zero Receipt becomes that of a
// charge so long ago that nothing of it is left.
func appendReceipt(args []any, m driver.Receipt, denominator int64) []any {
	if m.At == 0 {
		m.At = -maxInteger
	}
	if m.Used.Frac >= denominator {
		m.Used.Frac = 0
	}
	return append(args, integer(m.At), integer(m.Used.Micros), integer(m.Used.Frac), integer(min(m.Age, maxInteger)))
}

// maxCost is more than any rule can count.
const maxCost = 1 << 48

// cost is the cost that a script is sent, within what a double counts exactly. A Spend or Peek
// of any cost above the capacity is denied alike.
func cost(c *driver.Charge) int64 {
	switch {
	case c.Op.Asks():
		return min(int64(c.Cost), c.Rule.Capacity()+1)
	case c.Op == driver.Reset:
		return 1
	}
	return min(int64(c.Cost), maxCost)
}
