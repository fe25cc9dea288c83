package oracle

// sliding models both sliding algorithms as a list of events with their times. A sliding log
// records exact times and keeps an event for Per microseconds. A sliding window rounds each time up
// to the last microsecond of its sub-window, so an event counts for at least Per and at most one
// sub-window longer.
//
// RULE: after the clock steps back, events in the future count as if they happened now. Events that
// had left the window when the newest event was recorded do not count again, because stores have
// already dropped them.
//
// RULE: when the limit changes, events keep their times.
type sliding struct {
	rule   *Rule
	now    int64
	events []events // in the order of their times
	future bool
}

// events are n events at one time.
type events struct{ at, n int64 }

// length returns the length of a sub-window, which is a microsecond for a log.
func (r *Rule) length() int64 {
	if r.Algorithm == "sliding_log" {
		return 1
	}
	return (r.Per + r.SubWindows - 1) / r.SubWindows
}

// end returns the last microsecond of the sub-window of now. Sub-windows begin at the epoch.
func (r *Rule) end(now int64) int64 { return (now/r.length()+1)*r.length() - 1 }

func (l sliding) at(r *Rule, now int64) state {
	read := sliding{rule: r, now: now}
	if len(l.events) == 0 {
		return read
	}
	newest := l.events[len(l.events)-1].at
	recorded := newest - r.length() + 1 // or later
	for _, e := range l.events {
		if e.at > max(now, recorded)-r.Per {
			read.events = append(read.events, events{min(e.at, r.end(now)), e.n})
		}
	}
	read.future = newest > r.end(now)
	return read
}

func (l sliding) count() (sum int64) {
	for _, e := range l.events {
		sum += e.n
	}
	return sum
}

// leaves returns the time until the n-th event leaves the window.
func (l sliding) leaves(n int64) int64 {
	for _, e := range l.events {
		if n -= e.n; n <= 0 {
			return e.at + l.rule.Per - l.now
		}
	}
	return 0
}

func (l sliding) ahead() bool      { return l.future }
func (l sliding) left() int64      { return l.rule.Capacity() - l.count() }
func (l sliding) reset() int64     { return l.leaves(l.count()) }
func (l sliding) delay() int64     { return 0 }
func (l sliding) receipt() Receipt { return Receipt{At: l.now} }

func (l sliding) window() int64 {
	if l.count() == 0 {
		return l.rule.Per
	}
	return l.leaves(1)
}

func (l sliding) fits(cost, _ int64) bool   { return cost <= l.left() }
func (l sliding) retry(cost, _ int64) int64 { return l.leaves(cost - l.left()) }

func (l sliding) spend(cost int64) state {
	l.events = append(l.events[:len(l.events):len(l.events)], events{l.rule.end(l.now), cost})
	return l
}

// debit also counts events above the limit, so that an undo of a part leaves the rest. RULE: if the
// count has reached its maximum, a debit writes nothing.
func (l sliding) debit(cost int64) (state, bool) {
	cost = min(cost, MaxCount-1-l.count())
	if cost == 0 {
		return l, false
	}
	return l.spend(cost), true
}

// credit frees the newest events.
func (l sliding) credit(cost int64) (state, bool) {
	return l.without(cost, func(events) bool { return true }), l.count() > 0
}

// undo frees events at the time of m. RULE: if the clock has stepped back since the charge, or
// events are in the future, undo frees nothing, because the events at that time may belong to other
// charges. Otherwise undo writes the state as of now, even if none of the events is left.
func (l sliding) undo(cost int64, m Receipt) (state, bool) {
	if l.future || m.stepped(l.now) || l.count() == 0 {
		return l, false
	}
	return l.without(cost, func(e events) bool { return m.At != 0 && e.at == l.rule.end(m.At) }), true
}

// without returns l without the newest n events that match. RULE: events before the newest 1000 times
// stay, so that the work of a store is bounded. A sliding window has fewer times.
func (l sliding) without(n int64, match func(events) bool) state {
	var kept []events
	times, last := 0, int64(0)
	for i := len(l.events) - 1; i >= 0; i-- {
		e := l.events[i]
		if e.at != last {
			times, last = times+1, e.at
		}
		if match(e) && times <= 1000 {
			freed := min(n, e.n)
			n, e.n = n-freed, e.n-freed
		}
		if e.n > 0 {
			kept = append([]events{e}, kept...)
		}
	}
	l.events = kept
	return l
}
