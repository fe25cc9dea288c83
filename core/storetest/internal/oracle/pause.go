package oracle

// pause models a time in which all events of a key are denied, as the rest of it at the time now. The rest is
// zero if the key is not paused.
//
// RULE: a debit pauses a key for its length from now, and the later end holds. Pauses do not add up, because
// callers that are told the same end at different times must not make it later together.
//
// RULE: a debit that only begins a pause leaves the end of one, so that concurrent denials ban a key until the same end.
//
// RULE: after a step back, the rest is as long as when the pause was written, so that no step makes a pause
// longer.
//
// RULE: an event takes nothing, so a receipt is zero, and a credit or an undo changes nothing. Only a Reset ends
// a pause.
type pause struct {
	now, rest int64
	future    bool
}

func (p pause) at(_ *Rule, now int64) state {
	if p.rest > 0 && now < p.now {
		return pause{now, p.rest, true}
	}
	return pause{now, max(0, p.rest-(now-p.now)), false}
}

func (p pause) ahead() bool              { return p.future }
func (p pause) reset() int64             { return p.rest }
func (p pause) window() int64            { return p.rest }
func (p pause) delay() int64             { return 0 }
func (p pause) receipt() Receipt         { return Receipt{} }
func (p pause) fits(int64, int64) bool   { return p.rest == 0 }
func (p pause) retry(int64, int64) int64 { return p.rest }

// left returns a number that contains every cost, or 0.
func (p pause) left() int64 {
	if p.rest > 0 {
		return 0
	}
	return Never
}

func (p pause) spend(int64) state { return p }

// debit pauses for length. If there is no pause then, it writes nothing.
func (p pause) debit(length int64) (state, bool) {
	rest := max(p.rest, length)
	return pause{p.now, rest, false}, rest > 0
}

func (p pause) credit(int64) (state, bool)        { return p, false }
func (p pause) undo(int64, Receipt) (state, bool) { return p, false }
