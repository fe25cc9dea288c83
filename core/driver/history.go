package driver

import "unsafe"

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
	if s.log != nil && s.Time != placesMark {
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
