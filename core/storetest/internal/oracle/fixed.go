package oracle

// fixed models a fixed window as the number of the current window of Per microseconds, counted from
// the epoch, and the count of its events.
//
// RULE: after a step back, the events of the newest window count in the current window. The events
// of earlier windows were forgotten when the newest window began.
//
// RULE: when the period changes, events count in the window in which their window began.
type fixed struct {
	rule          *Rule
	now           int64
	number, count int64
	future        bool
}

func (f fixed) at(r *Rule, now int64) state {
	began, number := f.number*f.rule.Per, now/r.Per
	switch {
	case began > now:
		return fixed{r, now, number, f.count, true}
	case began/r.Per == number:
		return fixed{r, now, number, f.count, false}
	}
	return fixed{r, now, number, 0, false}
}

func (f fixed) ahead() bool      { return f.future }
func (f fixed) left() int64      { return f.rule.Capacity() - f.count }
func (f fixed) window() int64    { return (f.number+1)*f.rule.Per - f.now }
func (f fixed) delay() int64     { return 0 }
func (f fixed) receipt() Receipt { return Receipt{At: f.now} }

func (f fixed) reset() int64 {
	if f.count == 0 {
		return 0
	}
	return f.window()
}

func (f fixed) fits(cost, _ int64) bool  { return cost <= f.left() }
func (f fixed) retry(int64, int64) int64 { return f.window() }
func (f fixed) to(count int64) state     { return fixed{f.rule, f.now, f.number, count, false} }
func (f fixed) spend(cost int64) state   { return f.to(f.count + cost) }

// debit also counts events above the limit, so that an undo of a part leaves the rest.
func (f fixed) debit(cost int64) (state, bool) {
	return f.to(min(f.count+min(cost, MaxCount), MaxCount-1)), true
}

func (f fixed) credit(cost int64) (state, bool) { return f.to(max(0, f.count-cost)), true }

// undo frees the cost of the charge of m during its window. RULE: after a step back since the
// charge, undo frees nothing, because the events of the window may belong to other charges.
func (f fixed) undo(cost int64, m Receipt) (state, bool) {
	if m.At == 0 || m.stepped(f.now) || m.At/f.rule.Per != f.number {
		return f, false
	}
	return f.credit(cost)
}
