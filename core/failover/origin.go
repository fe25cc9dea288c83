package failover

import "github.com/weir-go/weir/core"

// An origin is the store that has a charge, the lowest bit of [core.Receipt.Origin].
// The other bits are what that store has written there itself.
type origin int

const (
	byPrimary origin = 0
	byBackup  origin = 1
)

// leavesReceipt says whether c is one for which a store may write a receipt.
func leavesReceipt(c *core.Charge) bool {
	return c.Receipt != nil && (c.Op == core.Spend || c.Op == core.Debit)
}

// clearReceipts forgets what a store that failed may have noted.
func clearReceipts(charges []core.Charge) {
	for i := range charges {
		if leavesReceipt(&charges[i]) {
			*charges[i].Receipt = core.Receipt{}
		}
	}
}

// sign notes which store has the charges.
func sign(charges []core.Charge, o origin) {
	for i := range charges {
		if c := &charges[i]; leavesReceipt(c) {
			c.Receipt.Origin = c.Receipt.Origin<<1 | int(o)
		}
	}
}

// originOf is the store that has what c undoes.
func originOf(c *core.Charge) origin {
	if c.Receipt == nil {
		return byPrimary // which refuses it
	}
	return origin(c.Receipt.Origin & 1)
}

// unsigned is c, an Undo, as the store knows it that has the charge.
func unsigned(c core.Charge) core.Charge {
	if c.Receipt != nil {
		receipt := *c.Receipt
		receipt.Origin >>= 1
		c.Receipt = &receipt
	}
	return c
}
