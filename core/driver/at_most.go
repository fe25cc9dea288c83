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
	switch e := c.engine.(type) {
	case *bucket:
		if e.most.less(r.Used) {
			return 0
		}
		return e.tokens(e.sub(e.most, r.Used))
	case *window:
		return max(0, e.events-r.Count)
	case *log:
		return max(0, e.events-r.Count)
	case *places:
		return max(0, e.events-r.Count)
	case *quota:
		return max(0, e.events-r.Count)
	case pause:
		if e.fits(r) {
			return Never
		}
		return 0
	}
	panic(c.Algorithm.unknown())
}
