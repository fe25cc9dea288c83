package algo

// A Log is a sliding log: it remembers the time of every admitted event, so no
// span of Period microseconds ever holds more than Events of them.
type Log struct {
	Events int64
	Period int64 // microseconds
}

// NewLog compiles events per period (in microseconds), both positive.
func NewLog(events, period int64) (Log, error) { return Log{events, period}, nil }

// A Run is N events admitted in the same microsecond.
type Run struct{ At, N int64 }

// A History is the state of a Log: runs with strictly increasing times, oldest
// first. The zero History is empty. It is not safe for concurrent use.
type History struct {
	runs  []Run
	count int64
}

// A Reading is what a history says at one instant, before any spending. Ages
// are in microseconds, and meaningless while Count is zero.
type Reading struct {
	Count          int64
	Oldest, Newest int64 // ages of the first and the last event in the window
	Retry          int64 // until enough events have left for the cost that was asked about
}

// Expired says whether nothing in h matters any more at now.
func (l *Log) Expired(h *History, now int64) bool {
	return len(h.runs) == 0 || h.runs[len(h.runs)-1].At <= now-l.Period
}

// Read forgets what has left the window and reads the rest for cost.
//
// Events in the future mean that the clock stepped back. They are moved to now:
// they keep counting, for one Period at most, whatever the step was.
func (l *Log) Read(h *History, now, cost int64) Reading {
	h.rebase(now)
	h.forget(now - l.Period)
	r := Reading{Count: h.count}
	if r.Count == 0 {
		return r
	}
	r.Oldest = now - h.runs[0].At
	r.Newest = now - h.runs[len(h.runs)-1].At
	if excess := h.count + cost - l.Events; excess > 0 && cost <= l.Events {
		r.Retry = h.oldest(excess) + l.Period - now
	}
	return r
}

// rebase moves the events after now to now.
func (h *History) rebase(now int64) {
	var late int64
	for n := len(h.runs); n > 0 && h.runs[n-1].At > now; n-- {
		late += h.runs[n-1].N
		h.runs = h.runs[:n-1]
	}
	if late > 0 {
		h.count -= late
		h.add(now, late)
	}
}

// forget drops the events at cutoff and before it.
func (h *History) forget(cutoff int64) {
	i := 0
	for ; i < len(h.runs) && h.runs[i].At <= cutoff; i++ {
		h.count -= h.runs[i].N
	}
	h.runs = h.runs[i:]
}

// oldest is the time of the k-th oldest event, 1 <= k <= count.
func (h *History) oldest(k int64) int64 {
	for _, r := range h.runs {
		if k -= r.N; k <= 0 {
			return r.At
		}
	}
	return 0
}

func (h *History) add(at, n int64) {
	h.count += n
	if last := len(h.runs) - 1; last >= 0 && h.runs[last].At == at {
		h.runs[last].N += n
		return
	}
	h.runs = append(h.runs, Run{at, n})
}

// Fits says whether cost events can be admitted at r.
func (l *Log) Fits(r Reading, cost int64) bool {
	return cost <= l.Events && r.Count <= l.Events-cost
}

// Spend records cost events, which must fit, at now.
func (l *Log) Spend(h *History, now, cost int64) { h.add(now, cost) }

// Refund forgets the n newest events, or all if there are fewer.
func (l *Log) Refund(h *History, n int64) {
	for last := len(h.runs) - 1; last >= 0 && n > 0; last-- {
		back := min(n, h.runs[last].N)
		h.runs[last].N -= back
		h.count -= back
		n -= back
		if h.runs[last].N == 0 {
			h.runs = h.runs[:last]
		}
	}
}

// Size is how many runs h has room for, the measure of its memory.
func (h *History) Size() int { return cap(h.runs) }

// Count is how many events h remembers.
func (h *History) Count() int64 { return h.count }

// Verdict says what a reading means for cost; spent tells whether the cost was
// then taken.
func (l *Log) Verdict(r Reading, cost int64, spent bool) Verdict {
	v := Verdict{Allowed: l.Fits(r, cost), Window: l.Period}
	if r.Count > 0 {
		v.Reset = l.Period - r.Newest
		v.Window = l.Period - r.Oldest
	}
	if v.Allowed && spent {
		r.Count += cost
		v.Reset = l.Period
	}
	v.Remaining = max(0, l.Events-r.Count)
	switch {
	case v.Allowed:
	case cost > l.Events:
		v.Retry = Never
	default:
		v.Retry = r.Retry
		v.Window = v.Retry
	}
	return v
}
