package driver

import (
	"cmp"
	"slices"
	"unsafe"
)

// log implements the sliding log and the sliding window. It stores the events of the last period,
// so that no span of period microseconds contains more events than the limit. A sliding log has
// sub-windows of one microsecond and is exact.
//
// A sliding window has longer sub-windows, and stores one number for all events of a sub-window.
// They count until an event at the end of the sub-window would be one period old. The rule is too
// strict by one sub-window at most, and never too lax.
//
// If the clock has stepped back, events may be later than now. They count as if they happened now,
// and therefore for one period at most, however large the step was. Events that had expired when
// the newest event was admitted do not count again.
type log struct {
	events    int64 // including extra
	extra     int64 // the part of events that a soft limit adds
	period    int64 // microseconds
	subWindow int64 // microseconds
}

func (l *log) constants() Constants {
	return Constants{Capacity: l.events, Extra: l.extra, Period: l.period, SubWindow: l.subWindow}
}

// stamp returns the recorded time of events at now: the last microsecond of the sub-window.
func (l *log) stamp(now int64) int64 { return now - now%l.subWindow + l.subWindow - 1 }

func (l *log) read(r *Reading, s State, now, cost int64) {
	stamp, h := l.stamp(now), s.history()
	r.Phase = stamp - now
	if h.empty() {
		return
	}
	first, count := h.window(l.cutoff(&h, now))
	if count == 0 {
		return
	}
	newest := h.newest()
	r.Count, r.moved = count, newest > stamp
	r.First = min(h.live()[first].at, stamp) + l.period - now
	r.Last = min(newest, stamp) + l.period - now
	if excess := count + cost - l.events; cost <= l.events && excess > 0 {
		r.Retry = min(h.nth(first, excess), stamp) + l.period - now
	}
}

// cutoff returns the time up to which events no longer count. The time of the newest run is the end
// of its sub-window, so an event of that run was admitted up to subWindow-1 microseconds earlier.
func (l *log) cutoff(h *history, now int64) int64 {
	return max(now, h.newest()-(l.subWindow-1)) - l.period
}

// trimmed returns the events of s that are in the window at now. It moves events after now to now.
func (l *log) trimmed(s State, now int64) history {
	h := s.history()
	if h.empty() {
		return h
	}
	first, count := h.window(l.cutoff(&h, now))
	h.head, h.count = h.head+first, count
	var late int64
	stamp := l.stamp(now)
	for !h.empty() && h.newest() > stamp {
		late += h.drop()
	}
	if late > 0 {
		h.add(stamp, late)
	}
	return h
}

func (l *log) spend(s State, now, cost int64) State {
	h := l.trimmed(s, now)
	h.add(l.stamp(now), cost)
	return h.state(s)
}

// debit records n events at now, even beyond the limit, because an Undo has to find them.
func (l *log) debit(s State, r Reading, now, n int64) State {
	if n = countable(r.Count, n); n > 0 {
		return l.spend(s, now, n)
	}
	return s
}

// recent is the number of times in a log, counted from the newest, at which undo and credit forget
// events. It bounds how much a store has to rewrite. A sliding window has fewer times.
const recent = 1000

// undo forgets n events of the charge of m, if they still count and their time is recent. If the
// clock has stepped back since the charge, these events cannot be distinguished from other events,
// and stay.
func (l *log) undo(s State, r Reading, now, n int64, m Receipt) State {
	if r.Count == 0 || r.moved || m.stepped(now) {
		return s
	}
	h := l.trimmed(s, now)
	live := h.live()
	i, found := slices.BinarySearchFunc(live, l.stamp(m.At), func(r run, at int64) int { return cmp.Compare(r.at, at) })
	if found && m.At != 0 && len(live)-i <= recent {
		n = min(n, live[i].n)
		h.count -= n
		if live[i].n -= n; live[i].n == 0 {
			h.runs = slices.Delete(h.runs, h.head+i, h.head+i+1)
		}
	}
	return h.state(s)
}

// credit forgets the n newest events of the window, or all at recent times if there are fewer.
func (l *log) credit(s State, r Reading, now, n int64) State {
	if r.Count == 0 {
		return s
	}
	h := l.trimmed(s, now)
	for oldest := len(h.runs) - recent; !h.empty() && n > 0 && len(h.runs) > oldest; {
		newest := &h.runs[len(h.runs)-1]
		if newest.n > n {
			newest.n -= n
			h.count -= n
			break
		}
		n -= h.drop()
	}
	return h.state(s)
}

func (l *log) rewrite(s State, _ Reading, now int64) State {
	h := l.trimmed(s, now)
	return h.state(s)
}

func (l *log) expiresAt(s State) int64 {
	h := s.history()
	if h.empty() {
		return 0
	}
	return h.newest() + l.period
}

func (l *log) verdict(v *Verdict, r *Reading, cost int64, spent bool) {
	v.Window = duration(l.period)
	count := r.Count
	if count > 0 {
		v.ResetAfter, v.Window = duration(r.Last), duration(r.First)
	}
	if spent {
		v.ResetAfter = duration(l.period + r.Phase)
		if count == 0 {
			v.Window = v.ResetAfter
		}
		count += cost
	}
	v.remain(l.events-l.extra-count, cost, spent)
	v.deny(cost, l.events, r.Retry)
}

// A history holds the events of a log in runs with strictly increasing times. The zero history is
// empty. In the State of a log, the field time stores head, and the field amount stores count.
type history struct {
	runs  []run // the runs before head have expired
	head  int
	count int64 // the number of events in the runs from head on
}

// A run is n events of one sub-window. The field at is the last microsecond of the sub-window.
type run struct{ at, n int64 }

const (
	sliceSize = int(unsafe.Sizeof([]run{}))
	runSize   = int(unsafe.Sizeof(run{}))
)

// history returns the events of s, the State of a log.
func (s State) history() (h history) {
	if s.log != nil && s.Time >= 0 {
		h = history{*s.log, int(s.Time), s.Amount}
	}
	return h
}

// state returns the State of a log with the events of h. It reuses the memory of s.
func (h *history) state(s State) State {
	if h.empty() {
		return State{}
	}
	if s.log == nil {
		s.log = new([]run)
	}
	*s.log, s.Time, s.Amount = h.runs, int64(h.head), h.count
	return s
}

func (h *history) live() []run { return h.runs[h.head:] }

func (h *history) empty() bool { return len(h.runs) == h.head }

func (h *history) newest() int64 { return h.runs[len(h.runs)-1].at }

// window returns the first run after cutoff, and the number of events from there on.
func (h *history) window(cutoff int64) (first int, count int64) {
	runs := h.live()
	count = h.count
	for first < len(runs) && runs[first].at <= cutoff {
		count -= runs[first].n
		first++
	}
	return first, count
}

// nth returns the time of the n-th event of the runs that begin at the index first.
func (h *history) nth(first int, n int64) int64 {
	for _, r := range h.live()[first:] {
		if n -= r.n; n <= 0 {
			return r.at
		}
	}
	return h.newest()
}

// drop forgets the newest run and returns the number of its events.
func (h *history) drop() int64 {
	n := h.runs[len(h.runs)-1].n
	h.runs = h.runs[:len(h.runs)-1]
	h.count -= n
	return n
}

func (h *history) add(at, n int64) {
	h.count += n
	if !h.empty() && h.newest() == at {
		h.runs[len(h.runs)-1].n += n
		return
	}
	if len(h.runs) == cap(h.runs) && h.head > 0 {
		h.compact()
	}
	h.runs = append(h.runs, run{at, n})
}

// compact moves the runs to the front of their array, or to a smaller array if 3/4 of it are empty.
func (h *history) compact() {
	live := h.live()
	if cap(h.runs) > 4*len(live)+8 {
		h.runs = append(make([]run, 0, 2*len(live)+4), live...)
	} else {
		h.runs = append(h.runs[:0], live...)
	}
	h.head = 0
}

// coarsen joins each pair of runs into one run with the later time. If there are two runs or more,
// and the last append made the array larger, the new array is no larger than before that append.
func (h *history) coarsen() {
	live := h.live()
	if len(live) < 2 {
		return
	}
	half := make([]run, 0, min(len(live)/2+2, len(live)-1))
	for ; len(live) > 1; live = live[2:] {
		half = append(half, run{live[1].at, live[0].n + live[1].n})
	}
	h.runs, h.head = append(half, live...), 0
}
