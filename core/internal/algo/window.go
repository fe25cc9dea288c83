package algo

// A Window is a fixed window: it counts the events of the current span of
// Period microseconds, counted from the Unix epoch.
type Window struct {
	Events int64
	Period int64 // microseconds
}

// NewWindow compiles events per period (in microseconds), both positive.
func NewWindow(events, period int64) (Window, error) {
	if events >= maxCount {
		return Window{}, ErrTooMany
	}
	return Window{events, period}, nil
}

// A Tally is the state of a Window: Count events in the window that began at
// Start. The zero Tally is empty.
type Tally struct{ Start, Count int64 }

// Start is the beginning of the window of now.
func (w *Window) Start(now int64) int64 { return now - now%w.Period }

// Used reads a state: how many events the window of now has already.
//
// A window that begins after now means that the clock stepped back. Its events
// count as of this window; moved says that the state has to be written back as
// such even when nothing is taken, because otherwise it would hold until the
// clock caught up.
func (w *Window) Used(t Tally, now int64) (count int64, moved bool) {
	switch {
	case t.Start > now:
		return t.Count, t.Count > 0
	case t.Start >= w.Start(now):
		return t.Count, false
	}
	return 0, false
}

// Fits says whether cost events can be admitted when count are used.
func (w *Window) Fits(count, cost int64) bool {
	return cost <= w.Events && count <= w.Events-cost
}

// Debit is how many events are used after n more were, whether they fit or not.
// What is beyond the limit makes no difference but to an Undo, which has to find it.
func (w *Window) Debit(count, n int64) int64 { return count + settled(count, n) }

// Undo is how many events are used after n came back that were charged at m;
// false if their window is over. After a clock that stepped back they cannot be told from
// others.
func (w *Window) Undo(count, now, n int64, m Receipt) (left int64, undone bool) {
	if m.At == 0 || m.stepped(now) || w.Start(m.At) != w.Start(now) {
		return count, false
	}
	return max(0, count-n), true
}

// At is the state in which count events are used at now; zero when none is.
func (w *Window) At(count, now int64) Tally {
	if count <= 0 {
		return Tally{}
	}
	return Tally{w.Start(now), count}
}

// Left is how long the window of now still lasts.
func (w *Window) Left(now int64) int64 { return w.Start(now) + w.Period - now }

// Verdict says what a window with count events used, before any spending, means
// for cost; left is how long the window lasts, and spent tells whether the cost
// was then taken.
func (w *Window) Verdict(count, left, cost int64, spent bool) Verdict {
	v := Verdict{Allowed: w.Fits(count, cost), Window: left}
	after := count
	if v.Allowed && spent {
		after += cost
	}
	v.Remaining = max(0, w.Events-after)
	if after > 0 {
		v.Reset = left
	}
	switch {
	case v.Allowed:
	case cost > w.Events:
		v.Retry = Never
	default:
		v.Retry = left
	}
	return v
}
