package driver

// Reduce sets the Cost of charges, those of a Take with AtMost, to the largest cost, up to their Cost,
// that the charges of all enforced rules admit, or to 1 if there is none. read returns the Reading of
// the i-th charge, for any cost.
//
// The decision is then that about the reduced Cost. If it differs from the cost that a Reading was made
// for, the Store must call [Charge.Read] again, because Retry depends on the cost.
func Reduce(charges []Charge, read func(i int) Reading) {
	cost := int64(charges[0].Cost)
	for i := range charges {
		if c := &charges[i]; !c.Rule.Shadow {
			r := read(i)
			cost = min(cost, c.Rule.room(&r))
		}
	}
	for i := range charges {
		charges[i].Cost = int(max(cost, 1))
	}
}

// room returns the largest cost that is admitted without a bound of the delay, given r, or 0 if there
// is none.
func (c *Compiled) room(r *Reading) int64 {
	switch b, ok := c.engine.(*bucket); {
	case ok && b.most.less(r.Used), c.Kind.Closes && r.Left > 0:
		return 0
	case ok:
		return b.tokens(b.sub(b.most, r.Used))
	}
	return max(0, c.Constants.Capacity-r.Count)
}
