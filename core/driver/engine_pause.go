package driver

import (
	"math"
	"time"
)

// maxPause is the longest pause, in microseconds: 366 days.
const maxPause = 366 * 24 * int64(time.Hour/time.Microsecond)

// pause denies all events of a key until an end, which a Debit sets. The State stores the end, and in Debt when it
// was written. If the clock has stepped back to before that time, the rest of the pause is as it was then, so no step
// makes it longer than its length. Reading.Left is the time until the end.
type pause struct{}

func (pause) constants() Constants { return Constants{Capacity: Never, Denominator: 1} }

func (p pause) read(r *Reading, s State, now int64) {
	written, end := p.parts(s)
	if r.moved = written > now; r.moved {
		now = written
	}
	r.Left = min(max(0, end-now), maxPause)
}

// parts returns when s was written, and the end of its pause.
func (pause) parts(s State) (written, end int64) { return s.Debt, s.Time }

// debit pauses for n microseconds, or until the end of the present pause if that is later. If there is no pause
// then, s stays.
func (p pause) debit(s State, r Reading, now, n int64) State {
	if r.Left = max(r.Left, min(n, maxPause)); r.Left == 0 {
		return s
	}
	return p.rewrite(s, r, now)
}

// Events take nothing, so no credit or undo frees anything. Only a Reset ends a pause.

func (pause) credit(s State, _ Reading, _, _ int64) State          { return s }
func (pause) undo(s State, _ Reading, _, _ int64, _ Receipt) State { return s }

func (pause) rewrite(_ State, r Reading, now int64) State {
	return State{Time: now + r.Left, Debt: now}
}

func (pause) expiresAt(s State) int64 { return s.Time }

func (pause) verdict(v *Verdict, r *Reading) {
	if v.Allowed {
		v.Remaining = math.MaxInt
		return
	}
	v.RetryAfter = duration(r.Left)
	v.ResetAfter, v.Window = v.RetryAfter, v.RetryAfter
}
