package oracle

// A leaky bucket is a queue with as many places as the capacity, which drains at the rate: the events
// in the queue are the tokens that are missing in the bucket. An admitted event departs when all
// events before it have drained, so departures are never closer than the rate.

func (r *Rule) isQueue() bool { return r.Algorithm == "leaky_bucket" }

// delay returns the time that the events in the queue take to drain, rounded up to a microsecond. A
// token bucket has no queue.
func (b bucket) delay() int64 {
	if !b.rule.isQueue() {
		return 0
	}
	return ceil(b.used())
}

// isLast reports whether the cost of the charge of m is last in the queue. RULE: an Undo frees that
// place only, because the events behind any other place have been told when they depart.
func (b bucket) isLast(cost int64, m Receipt) bool {
	end := add(whole(b.time), b.used())
	return end.Cmp(add(add(whole(m.At), m.Used), b.rule.refill(b.rule.units(cost)))) == 0
}
