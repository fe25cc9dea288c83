package driver

// window implements the fixed window algorithm. Time is divided into windows of period
// microseconds, starting at the clock's origin, and each window has its own event count. The State
// stores the start of the newest window and its count. After the clock steps back, the stored
// window may start in the future. Its events then count toward the current window.
type window struct {
	events int64 // including extra
	extra  int64 // the part of events that a soft limit adds
	period int64 // microseconds
}

func (w *window) constants() Constants {
	return Constants{Capacity: w.events, Extra: w.extra, Period: w.period}
}

// start returns the start of the window that contains now.
func (w *window) start(now int64) int64 { return now - now%w.period }

func (w *window) read(r *Reading, s State, now int64) {
	start := w.start(now)
	r.Left = start + w.period - now
	if s.Time >= start {
		r.Count, r.moved = s.Amount, s.Time > now && s.Amount > 0
	}
}

// countable returns the part of n that can be added to count without exceeding maxCount.
func countable(count, n int64) int64 { return max(0, min(n, maxCount-count)) }

func (w *window) spend(r *Reading, now, cost int64) State { return w.at(r.Count+cost, now) }

// debit counts n events, even beyond the limit, because an Undo has to find them.
func (w *window) debit(_ State, r Reading, now, n int64) State {
	return w.at(r.Count+countable(r.Count, n), now)
}

func (w *window) credit(_ State, r Reading, now, n int64) State { return w.at(r.Count-n, now) }

// undo forgets n events of the charge of m, unless their window is over. If the clock has stepped
// back since the charge, these events cannot be distinguished from other events, and stay.
func (w *window) undo(s State, r Reading, now, n int64, m Receipt) State {
	if m.At == 0 || m.stepped(now) || w.start(m.At) != w.start(now) {
		return s
	}
	return w.at(r.Count-n, now)
}

func (w *window) rewrite(_ State, r Reading, now int64) State { return w.at(r.Count, now) }

// at returns the State of the current window with count events: the zero State if there are none.
func (w *window) at(count, now int64) State {
	if count <= 0 {
		return State{}
	}
	return State{Time: w.start(now), Amount: count}
}

func (w *window) expiresAt(s State) int64 {
	if s.Amount == 0 {
		return 0
	}
	return s.Time + w.period
}

func (w *window) verdict(v *Verdict, r *Reading, cost int64, spent bool) {
	v.Window = duration(r.Left)
	count := r.Count
	if spent {
		count += cost
	}
	v.remain(w.events-w.extra-count, cost, spent)
	if count > 0 {
		v.ResetAfter = v.Window
	}
	v.deny(cost, w.events, r.Left)
}
