package driver

// quota counts the events of a period of the calendar. The State stores the end of the period, the count,
// and in Debt its start. A period ends as it began, even if the calendar of the key has changed meanwhile:
// another time zone or day begins no new count before. If the clock has stepped back, the period of the
// State may begin later than now. It is the present one nevertheless, unless it ends later than any period
// can: then the events count in the present period of the calendar.
//
// A fixed window from the first event is a quota without Periods: a period without events begins now.
type quota struct {
	window  // whose period is a bound of the lengths of periods
	periods Periods
}

// longest returns a bound of the length of a period of c in microseconds. A day in which a place changes
// to another side of the date line has nearly 48 hours.
func (c Calendar) longest() int64 {
	days := [...]int64{Day: 2, Week: 9, Month: 33}[c]
	return days * 24 * 3600 * 1e6
}

func (q *quota) constants() Constants {
	k := q.window.constants()
	k.Periods = q.periods
	return k
}

// present returns the period that contains now.
func (q *quota) present(now int64) (start, end int64) {
	p := q.periods
	if p == (Periods{}) {
		return now, now + q.period
	}
	switch first, second := p.Boundary-p.Start, p.End-p.Boundary; {
	case now >= p.End:
		start = p.End + (now-p.End)/second*second
		return start, start + second
	case now >= p.Boundary:
		return p.Boundary, p.End
	case now >= p.Start:
		return p.Start, p.Boundary
	default:
		end = p.Start - (p.Start-1-now)/first*first
		return end - first, end
	}
}

func (q *quota) read(r *Reading, s State, now int64) {
	start, end := q.present(now)
	stored, ends, count := q.parts(s)
	switch left := ends - now; {
	case left <= 0:
	case left <= q.period && stored < ends:
		start, end, r.Count = stored, ends, count
	default:
		r.Count, r.moved = count, count > 0
	}
	r.Left, r.Length = end-now, end-start
}

func (q *quota) spend(r *Reading, now, cost int64) State { return q.at(r, r.Count+cost, now) }

func (q *quota) debit(_ State, r Reading, now, n int64) State {
	return q.at(&r, r.Count+countable(r.Count, n), now)
}

func (q *quota) credit(_ State, r Reading, now, n int64) State { return q.at(&r, r.Count-n, now) }

// undo forgets n events of the charge of m, unless their period is over or the clock has stepped back
// since.
func (q *quota) undo(s State, r Reading, now, n int64, m Receipt) State {
	if m.At == 0 || m.stepped(now) || m.At < now+r.Left-r.Length {
		return s
	}
	return q.at(&r, r.Count-n, now)
}

func (q *quota) rewrite(_ State, r Reading, now int64) State { return q.at(&r, r.Count, now) }

// at returns the State with count events in the period of r: the zero State if there are none. A period
// that began before the Unix epoch, by a clock that has not been set, begins then in the State.
func (q *quota) at(r *Reading, count, now int64) State {
	if count <= 0 {
		return State{}
	}
	return State{Time: now + r.Left, Amount: count, Debt: max(0, now+r.Left-r.Length)}
}

// parts returns the period of s, and its events.
func (q *quota) parts(s State) (start, end, count int64) { return s.Debt, s.Time, s.Amount }

func (q *quota) expiresAt(s State) int64 {
	if _, end, count := q.parts(s); count > 0 {
		return end
	}
	return 0
}

func (q *quota) verdict(v *Verdict, r *Reading, cost int64, spent bool) {
	q.window.verdict(v, r, cost, spent)
	if q.periods != (Periods{}) {
		v.Period = int32(min(r.Length/1e6, 1<<31-1))
	}
}
