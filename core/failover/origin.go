package failover

import "github.com/weir-go/weir/core"

// An origin is the store that has a charge, the lowest bit of [core.Mark.Origin].
// The other bits are what that store has written there itself.
type origin int

const (
	byPrimary origin = 0
	byBackup  origin = 1
)

// leavesMark says whether c is one that a store may mark.
func leavesMark(c *core.Charge) bool {
	return c.Mark != nil && (c.Op == core.Spend || c.Op == core.Settle)
}

// unmark forgets what a store that failed may have noted.
func unmark(charges []core.Charge) {
	for i := range charges {
		if leavesMark(&charges[i]) {
			*charges[i].Mark = core.Mark{}
		}
	}
}

// sign notes which store has the charges.
func sign(charges []core.Charge, o origin) {
	for i := range charges {
		if c := &charges[i]; leavesMark(c) {
			c.Mark.Origin = c.Mark.Origin<<1 | int(o)
		}
	}
}

// originOf is the store that has what c undoes.
func originOf(c *core.Charge) origin {
	if c.Mark == nil {
		return byPrimary // which refuses it
	}
	return origin(c.Mark.Origin & 1)
}

// unsigned is c, an Undo, as the store knows it that has the charge.
func unsigned(c core.Charge) core.Charge {
	if c.Mark != nil {
		mark := *c.Mark
		mark.Origin >>= 1
		c.Mark = &mark
	}
	return c
}
