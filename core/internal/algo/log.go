package algo

import (
	"cmp"
	"slices"
)

// A Log is a sliding window: it remembers the time of every admitted event, so
// no span of Period microseconds ever holds more than Events of them.
//
// With a Grain of one microsecond it is exact, a sliding log. With a coarser one
// it is a sliding window counter: the events of one grain, a sub-window, are one
// number, and all of them count until the last of them could have left. So it is
// too strict by one grain at most, and never too lax.
type Log struct {
	Events int64
	Period int64 // microseconds
	Grain  int64 // microseconds
}

// NewLog compiles events per period (in microseconds), both positive.
func NewLog(events, period int64) (Log, error) { return NewCounter(events, period, period) }

// NewCounter compiles events per period with n sub-windows, all positive.
func NewCounter(events, period, n int64) (Log, error) {
	if events >= maxCount {
		return Log{}, ErrTooMany
	}
	return Log{events, period, (period + n - 1) / n}, nil
}

// stamp is the time under which an event at now is remembered: the last
// microsecond of its grain.
func (l *Log) stamp(now int64) int64 { return now - now%l.Grain + l.Grain - 1 }

// A Run is N events admitted in the same grain, the last microsecond of which
// is At.
type Run struct{ At, N int64 }

// A History is the state of a Log: runs with strictly increasing times, oldest
// first. The zero History is empty. It is not safe for concurrent use.
type History struct {
	runs  []Run // from head on; what is before it has left
	head  int
	count int64
}

func (h *History) live() []Run { return h.runs[h.head:] }

// A Reading is what a history says at one instant, before any spending. Spans
// are in microseconds, and meaningless while Count is zero.
type Reading struct {
	Phase       int64 // until the last microsecond of the current grain; meant even if Count is zero
	Count       int64
	First, Last int64 // until the first and the last event of the window leave it
	Retry       int64 // until enough events have left for the cost that was asked about
}

// Expired says whether nothing in h matters any more at now.
func (l *Log) Expired(h *History, now int64) bool {
	return len(h.live()) == 0 || h.newest() <= now-l.Period
}

// Read reads what is in the window for cost, and changes nothing.
//
// Events in the future mean that the clock stepped back. They count as if they
// happened now: they keep counting, but for one Period at most, whatever the
// step was. What had left when the newest event was admitted does not come back.
func (l *Log) Read(h *History, now, cost int64) Reading {
	stamp := l.stamp(now)
	if len(h.live()) == 0 {
		return Reading{Phase: stamp - now}
	}
	first, count := h.window(l.cutoff(h, now))
	if count == 0 {
		return Reading{Phase: stamp - now}
	}
	r := Reading{
		Phase: stamp - now,
		Count: count,
		First: min(h.live()[first].At, stamp) + l.Period - now,
		Last:  min(h.newest(), stamp) + l.Period - now,
	}
	if excess := count + cost - l.Events; cost <= l.Events && excess > 0 {
		r.Retry = min(h.nth(first, excess), stamp) + l.Period - now
	}
	return r
}

// cutoff is the time at and before which nothing counts any more. The newest
// event was admitted within the grain that ends at its time.
func (l *Log) cutoff(h *History, now int64) int64 {
	return max(now, h.newest()-(l.Grain-1)) - l.Period
}

func (h *History) newest() int64 { return h.runs[len(h.runs)-1].At }

// window is the first run after cutoff, and how many events follow from there.
func (h *History) window(cutoff int64) (first int, count int64) {
	runs := h.live()
	count = h.count
	for first < len(runs) && runs[first].At <= cutoff {
		count -= runs[first].N
		first++
	}
	return first, count
}

// nth is the time of the n-th event from run first on.
func (h *History) nth(first int, n int64) int64 {
	for _, r := range h.live()[first:] {
		if n -= r.N; n <= 0 {
			return r.At
		}
	}
	return h.newest()
}

// Moved says whether h has events after now. They then have to be moved to now
// even when nothing is admitted, because otherwise they would count until the
// clock caught up.
func (l *Log) Moved(h *History, now int64) bool {
	return len(h.live()) > 0 && h.newest() > l.stamp(now)
}

// Trim forgets what has left the window, and moves what is after now to now.
func (l *Log) Trim(h *History, now int64) {
	if len(h.live()) == 0 {
		return
	}
	first, count := h.window(l.cutoff(h, now))
	h.head, h.count = h.head+first, count
	var late int64
	stamp := l.stamp(now)
	for len(h.live()) > 0 && h.newest() > stamp {
		late += h.drop()
	}
	if late > 0 {
		h.add(stamp, late)
	}
}

// drop forgets the newest run and returns how many events it had.
func (h *History) drop() int64 {
	n := h.runs[len(h.runs)-1].N
	h.runs = h.runs[:len(h.runs)-1]
	h.count -= n
	return n
}

func (h *History) add(at, n int64) {
	h.count += n
	if len(h.live()) > 0 && h.newest() == at {
		h.runs[len(h.runs)-1].N += n
		return
	}
	if len(h.runs) == cap(h.runs) && h.head > 0 {
		h.compact()
	}
	h.runs = append(h.runs, Run{at, n})
}

// compact moves the runs to the front, where they are worth no new array, and
// gives up an array of which they would use less than a quarter.
func (h *History) compact() {
	live := h.live()
	if cap(h.runs) > 4*len(live)+8 {
		h.runs = append(make([]Run, 0, 2*len(live)+4), live...)
	} else {
		h.runs = append(h.runs[:0], live...)
	}
	h.head = 0
}

// Fits says whether cost events can be admitted at r.
func (l *Log) Fits(r Reading, cost int64) bool {
	return cost <= l.Events && r.Count <= l.Events-cost
}

// Spend trims h and records cost events, which must fit, at now.
func (l *Log) Spend(h *History, now, cost int64) {
	l.Trim(h, now)
	h.add(l.stamp(now), cost)
}

// Debit records n events at now, whether they fit or not. What is beyond the limit
// makes no difference but to an Undo, which has to find it.
func (l *Log) Debit(h *History, now, n int64) {
	if n = settled(l.Read(h, now, 1).Count, n); n > 0 {
		l.Spend(h, now, n)
	}
}

// Undo forgets n events that were recorded at m, if they are still there. After a
// clock that stepped back they cannot be told from others.
func (l *Log) Undo(h *History, now, n int64, m Receipt) {
	if l.Read(h, now, 1).Count == 0 || l.Moved(h, now) || m.stepped(now) {
		return
	}
	l.Trim(h, now)
	live := h.live()
	i, found := slices.BinarySearchFunc(live, l.stamp(m.At), func(r Run, at int64) int { return cmp.Compare(r.At, at) })
	switch {
	case !found:
	case live[i].N > n:
		live[i].N -= n
		h.count -= n
	default:
		h.count -= live[i].N
		h.runs = slices.Delete(h.runs, h.head+i, h.head+i+1)
	}
}

// Credit forgets the n newest events of the window, or all if there are fewer.
func (l *Log) Credit(h *History, now, n int64) {
	if l.Read(h, now, 1).Count == 0 {
		return
	}
	l.Trim(h, now)
	for len(h.live()) > 0 && n > 0 {
		newest := &h.runs[len(h.runs)-1]
		if newest.N > n {
			newest.N -= n
			h.count -= n
			return
		}
		n -= h.drop()
	}
}

// Coarsen gives up half of the memory of h, and some exactness: pairs of runs
// become one, at the time of the later. Their events count longer for it, never
// shorter. After an append to a History without room, Coarsen makes it no larger than
// it was before, if it has two runs or more.
func (h *History) Coarsen() {
	live := h.live()
	if len(live) < 2 {
		return
	}
	half := make([]Run, 0, min(len(live)/2+2, len(live)-1))
	for ; len(live) > 1; live = live[2:] {
		half = append(half, Run{live[1].At, live[0].N + live[1].N})
	}
	h.runs, h.head = append(half, live...), 0
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
		v.Reset = r.Last
		v.Window = r.First
	}
	if v.Allowed && spent {
		v.Reset = l.Period + r.Phase
		if r.Count == 0 {
			v.Window = v.Reset
		}
		r.Count += cost
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
