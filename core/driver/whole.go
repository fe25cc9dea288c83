package driver

// TakeWhole and AnswerBucket are shortcuts for the most frequent charge. They repeat the arithmetic
// of bucket for whole buckets: token buckets without a soft limit, of which one token refills in a
// whole number of microseconds. See DESIGN.md for the time that the shortcuts save.

// TakeWhole decides about a Spend of cost, which must be at least 1. The time until is the first of
// the Words of the State, and the others must be zero.
//
// TakeWhole returns the part of the bucket in use before the charge and after it, in microseconds,
// and reports whether the charge fits. The first of the Words of the new State is now + after. If ok
// is false, the results are undefined: the rule is no whole bucket, cost is above its capacity, or
// the State requires a correction (see [Charge.Commit]).
func (c *Compiled) TakeWhole(until, now int64, cost int) (used, after int64, fits, ok bool) {
	k := &c.constants
	used = max(until-now, 0)
	after = used + int64(cost)*k.Unit.Micros
	return used, after, after <= k.Full.Micros, c.whole && used <= k.Full.Micros && int64(cost) <= k.Capacity
}

// AnswerBucket sets v, which must be zero, to the verdict on a Spend or Peek without a MaxDelay. The
// rule must be a bucket. used is the part in use before the charge. v.Rule remains nil, because
// setting it slowed down decisions about many keys: see DESIGN.md.
func (c *Compiled) AnswerBucket(v *Verdict, used Span, op Op, cost int) {
	k := &c.constants
	if !c.whole || int64(cost) > k.Capacity || used.Frac != 0 {
		r := Reading{Used: used}
		c.verdict(v, &r, int64(cost), Never, op == Spend)
		v.Rule = nil
		return
	}
	unit, full, inUse := k.Unit.Micros, k.Full.Micros, used.Micros
	after := inUse + int64(cost)*unit
	if after > full {
		v.Remaining = int(uint64(max(full-inUse, 0)) / uint64(unit)) // inUse is above full after a Debit
		v.ResetAfter, v.RetryAfter = duration(inUse), duration(after-full)
		v.Window = v.RetryAfter
		return
	}
	v.Allowed = true
	if op == Spend {
		inUse = after
	}
	free := full - inUse
	left := int64(uint64(free) / uint64(unit))
	v.Remaining, v.ResetAfter = int(left), duration(inUse)
	if left > 0 {
		v.Window = duration(left * unit)
	} else {
		v.Window = duration(unit - free)
	}
}
