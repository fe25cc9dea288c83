package simulate

import (
	"time"

	"github.com/weir-go/weir/core"
)

// A Window is the span of the length of a limit in which a rule admitted the most, beside the limit. The events
// are those of one key under that limit, also if its other events have other plans. For a leaky bucket, events
// count when they depart.
type Window struct {
	Admitted int64 // units of cost
	Limit    core.Limit
	Begin    int64 // Unix microseconds
	Key      string
	// AtLeast reports that more may have been admitted in some window, because the times of some events
	// were rounded to save memory.
	AtLeast bool
}

// exceeds reports whether w is a larger part of its limit than o, or as large a part of a larger limit.
func (w *Window) exceeds(o *Window) bool {
	mine, others := float64(w.Admitted)*float64(o.Limit.Events), float64(o.Admitted)*float64(w.Limit.Events)
	return mine > others || mine == others && w.Admitted > o.Admitted
}

// maxRuns is the largest number of runs in a window. The runs are then joined in pairs.
const maxRuns = 4096

// A window has the events of one key that a rule admitted under a limit, within the last period of the limit.
type window struct {
	rule  *Rule
	limit core.Limit
	runs  []run // those before first have left the window
	first int
	sum   int64
}

// A run is a number of units that were admitted at one time.
type run struct{ at, units int64 }

// add adds an event that was admitted with a delay, and updates the worst window of the rule. Neither the times
// of events nor those of departures decrease.
func (w *window) add(e *Event, cost int, delay time.Duration) {
	at, per := e.At+delay.Microseconds(), w.limit.Per.Microseconds()
	for w.first < len(w.runs) && w.runs[w.first].at <= at-per {
		w.sum -= w.runs[w.first].units
		w.first++
	}
	w.sum += int64(cost)
	if last := len(w.runs) - 1; last >= w.first && w.runs[last].at == at {
		w.runs[last].units += int64(cost)
	} else {
		w.makeRoom()
		w.runs = append(w.runs, run{at, int64(cost)})
	}
	worst := &w.rule.Worst
	found := Window{Admitted: w.sum, Limit: w.limit, Begin: w.runs[w.first].at, Key: e.Key, AtLeast: worst.AtLeast}
	if worst.Admitted == 0 || found.exceeds(worst) {
		*worst = found
	}
}

// makeRoom removes runs that have left the window if they are half of all. If too many remain, it joins pairs:
// both then leave the window when the first does.
func (w *window) makeRoom() {
	if w.first*2 > len(w.runs) {
		w.runs = append(w.runs[:0], w.runs[w.first:]...)
		w.first = 0
	}
	if len(w.runs) < maxRuns {
		return
	}
	joined := w.runs[:0]
	for i := w.first; i < len(w.runs); i += 2 {
		r := w.runs[i]
		if i+1 < len(w.runs) {
			r.units += w.runs[i+1].units
		}
		joined = append(joined, r)
	}
	w.runs, w.first, w.rule.Worst.AtLeast = joined, 0, true
}
