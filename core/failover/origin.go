package failover

import "github.com/weir-go/weir/core/driver"

// An origin is the store that has a charge, the lowest bit of [driver.Receipt.Origin].
// The other bits are what that store has written there itself.
type origin int

const (
	byPrimary origin = 0
	byBackup  origin = 1
)

// leavesReceipt says whether c is one for which a store may write a receipt.
func leavesReceipt(c *driver.Charge) bool {
	return c.Receipt != nil && (c.Op == driver.Spend || c.Op == driver.Debit)
}

// clearReceipts clears the receipts that a store may have written before it failed.
func clearReceipts(charges []driver.Charge) {
	for i := range charges {
		if leavesReceipt(&charges[i]) {
			*charges[i].Receipt = driver.Receipt{}
		}
	}
}

// setOrigins writes to the receipts that o has the charges.
func setOrigins(charges []driver.Charge, o origin) {
	for i := range charges {
		if c := &charges[i]; leavesReceipt(c) {
			c.Receipt.Origin = c.Receipt.Origin<<1 | int(o)
		}
	}
}

// originOf returns the store that has the charge that c, an Undo, is about.
func originOf(c *driver.Charge) origin { return origin(c.Receipt.Origin & 1) }

// withoutOrigin returns c, an Undo, with the receipt as the store wrote it that has the charge.
func withoutOrigin(c driver.Charge) driver.Charge {
	receipt := *c.Receipt
	receipt.Origin >>= 1
	c.Receipt = &receipt
	return c
}
