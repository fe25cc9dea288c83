package oracle

// A leaky bucket is a queue that drains at the rate and has as many places as the bucket holds: the
// tokens that are missing are the events in the queue. An event that is admitted departs when the
// events before it have left, so departures are never closer than the rate.

func (r *Rule) isQueue() bool { return r.Algorithm == "leaky_bucket" }

// delay is how long the events in the queue take to leave, each departure rounded up to a
// microsecond. A token bucket has no queue.
func (b bucket) delay() int64 {
	if !b.rule.isQueue() {
		return 0
	}
	return ceil(b.used())
}

// isLast reports whether the cost of m is the last in the queue. RULE: only that place is freed by an
// Undo, because the events behind any other one have been told their departures.
func (b bucket) isLast(cost int64, m Receipt) bool {
	end := add(whole(b.time), b.used())
	return end.Cmp(add(add(whole(m.At), m.Used), b.rule.refill(b.rule.units(cost)))) == 0
}
