package oracle

import (
	"cmp"
	"slices"
)

// A Waiter is the caller of a Spend who waits for places: see caller. Among the callers of one Queue, only the first one
// asks.
type Waiter struct {
	Queue  int64
	Age    int64 // the time for which the caller has waited
	Behind int64 // how much later the next caller of the queue came
	Next   int64 // the cost of the next caller
	Known  bool
}

// A caller stands in the line of a key.
//
// RULE: a caller whose Spend is denied because places are missing stands in line for a hold, or until the next Spend of
// its queue. The line is in the order of arrival; of callers who came together, the one with the lower queue is first.
// Other Spends cannot take the places that callers in front need, beside those that are taken and those of callers in front
// of them, up to the limits of these callers. Peeks, and Spends of callers who do not wait, are behind all.
//
// RULE: when a caller gets its places, the next caller of its queue stands in line in its place, with the time at which
// it came.
//
// RULE: a caller leaves the line if its Spend would fit but another rule denies it, if its Spend can never fit, and with
// an Undo. A next caller whose cost can never fit does not join.
//
// RULE: an arrival is never before the time 0, and that of a next caller never after now. A Spend of a caller who came
// earlier therefore finds a line as long as it was.
//
// RULE: a caller with Known came at the earlier one of both times.
//
// RULE: the line has at most longestLine callers: the earliest ones.
//
// RULE: a caller who asked later than now, before a step back, is not in line. Callers who are not in line any more are
// removed when another one asks or leaves. Until then they count again if the clock comes back to their time.
type caller struct{ queue, came, cost, limit, asked int64 }

const (
	queueHold   = 2_000_000
	longestLine = 64
)

func (a caller) before(b caller) bool {
	return a.came < b.came || a.came == b.came && a.queue < b.queue
}

// waiting returns f for the Spend of w, which costs cost.
func (f inFlight) waiting(w *Waiter, cost int64) inFlight {
	f.asks = &caller{w.Queue, max(0, f.now-w.Age), cost, f.rule.Capacity(), f.now}
	for _, c := range f.inLine(0) {
		if c.queue == w.Queue && w.Known {
			f.asks.came = min(f.asks.came, c.came)
		}
	}
	return f
}

// inLine returns the callers in line, without those of a queue.
func (f inFlight) inLine(without int64) (all []caller) {
	for _, c := range f.line {
		if c.asked <= f.now && f.now < c.asked+queueHold && c.queue != without {
			all = append(all, c)
		}
	}
	return all
}

// first returns the places that callers in line need in front of the one who asks, and the time until the last of them
// leaves. RULE: after that of a lapse, which bounds the times of a verdict, a caller may ask again.
func (f inFlight) first() (needed, leaves int64) {
	line := f.inLine(0)
	if f.asks != nil {
		line = slices.DeleteFunc(f.inLine(f.asks.queue), func(c caller) bool { return !c.before(*f.asks) })
	}
	for _, c := range line {
		if most := c.limit - f.taken() - needed; most > 0 {
			needed += min(c.cost, most)
		}
		leaves = max(leaves, c.asked+queueHold-f.now)
	}
	return needed, min(leaves, f.rule.Per)
}

// decided returns f with the line after the decision about the Spend of w, which f asks for. fits says whether it fits,
// and spent whether it was admitted.
func (f inFlight) decided(w *Waiter, fits, spent bool) (_ inFlight, changed bool) {
	own := *f.asks
	others := f.inLine(own.queue)
	f.asks = nil
	if spent && f.rule.ByCost {
		own.cost = max(1, w.Next)
	}
	switch joins := own.cost <= f.rule.Capacity(); {
	case joins && spent && w.Next > 0:
		own.came = min(own.came+w.Behind, f.now)
	case joins && !fits:
	case len(others) < len(f.line): // without its queue, and without those that are not in line any more
		f.line = others
		return f, true
	default:
		return f, false
	}
	f.line = append(others, own)
	slices.SortFunc(f.line, func(a, b caller) int { return cmp.Or(cmp.Compare(a.came, b.came), cmp.Compare(a.queue, b.queue)) })
	f.line = f.line[:min(len(f.line), longestLine)]
	return f, true
}

// leave removes the caller of a queue.
func (f inFlight) leave(queue int64) inFlight {
	if others := f.inLine(queue); len(others) < len(f.inLine(0)) {
		f.line = others
	}
	return f
}

// A Line describes the line of a key.
type Line struct {
	Callers int   // in line
	Stale   int   // not in line any more, or not yet after a step back, but not removed
	Free    int64 // the places that are free, without regard to the line
}

// Line returns the line of the state of c at now, for an in-flight rule.
func (o *Oracle) Line(now int64, c *Charge) (l Line) {
	if f, ok := o.read(c, now).(inFlight); ok {
		l.Callers = len(f.inLine(0))
		l.Stale = len(f.line) - l.Callers
		if l.Free = f.rule.Capacity() - f.taken(); f.full() {
			l.Free = 0
		}
	}
	return l
}
