package driver

// quota counts the events of a period of the calendar. The State stores the end of the period, the count,
// and in Debt its start. A period ends as it began, even if the calendar of the key has changed meanwhile:
// another time zone or day begins no new count before. If the clock has stepped back, the period of the
// State may begin later than now. It is the present one nevertheless, unless it ends later than any period
// can: then the events count in the present period of the calendar.
//
// A fixed window from the first event is a quota without Periods: a period without events begins now.
type quota struct {
	window   // whose period is a bound of the lengths of periods
	periods  Periods
	rollover *rollover // nil if no events roll over
}

// A rollover is the part of a quota that adds the rest of a period, the events of its limit that were not used, to the limit
// of the next period. The rest follows from the State of the last period, which a rule with a rollover has written.
type rollover struct {
	limit int64 // of all plans together
	most  int64 // of the events that roll over
	extra int64 // the events that a soft limit adds
	of    *Definition
}

// capacity returns the largest cost that an unused key with a rest admits.
func (o *rollover) capacity(rest int64) int64 {
	if left := o.of.left(o.limit + rest); left > 0 {
		return left
	}
	return o.limit + rest + o.extra
}

// next returns the rest that a period with a rest and a count leaves: none without events, because the State may be that of a
// charge which was undone.
func (o *rollover) next(rest, count int64) int64 {
	if count == 0 {
		return 0
	}
	return min(o.most, max(0, o.limit+rest-count))
}

// longest returns a bound of the length of a period of c in microseconds. A day in which a place changes
// to another side of the date line has nearly 48 hours.
func (c Calendar) longest() int64 {
	days := [...]int64{Day: 2, Week: 9, Month: 33}[c]
	return days * 24 * 3600 * 1e6
}

func (q *quota) constants() Constants {
	k := q.window.constants()
	if k.Periods = q.periods; q.rollover != nil {
		k.Capacity = q.rollover.capacity(q.rollover.most)
		k.Rollover = k.Capacity - q.events
		k.Share[0], k.Share[1] = fraction(100 - q.rollover.of.Headroom)
	}
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
	rest := q.rest(s)
	switch left := ends - now; {
	case left <= 0:
		if q.rollover != nil && s.rolls() && ends >= start {
			r.Rest = q.rollover.next(rest, count)
		}
	case left <= q.period && stored < ends:
		start, end, r.Count, r.Rest, r.Rolls = stored, ends, count, rest, s.rolls()
	default: // it rolls over when it is written again
		r.Count, r.Rest, r.Rolls, r.moved = count, rest, true, count+rest > 0
	}
	r.Left, r.Length = end-now, end-start
}

// rest returns the rest in s, which a rule with a greater Rollover may have written.
func (q *quota) rest(s State) int64 {
	if q.rollover == nil {
		return 0
	}
	return min(s.rest(), q.rollover.most)
}

func (q *quota) spend(s State, r *Reading, now, cost int64) State {
	return q.at(s, r, r.Count+cost, now)
}

func (q *quota) debit(s State, r Reading, now, n int64) State {
	return q.at(s, &r, r.Count+countable(r.Count, n), now)
}

// credit does not change a State without events that count: from that of the last period, the rest follows.
func (q *quota) credit(s State, r Reading, now, n int64) State {
	if r.Count == 0 && q.rollover != nil {
		return s
	}
	return q.at(s, &r, r.Count-n, now)
}

// undo forgets n events of the charge of m, unless their period is over or the clock has stepped back
// since.
func (q *quota) undo(s State, r Reading, now, n int64, m Receipt) State {
	if m.At == 0 || m.stepped(now) || m.At < now+r.Left-r.Length {
		return s
	}
	return q.credit(s, r, now, n)
}

func (q *quota) rewrite(s State, r Reading, now int64) State { return q.at(s, &r, r.Count, now) }

// at returns the State with count events in the period of r, which reuses the memory of s. It is the zero State if there
// are none, and nothing has rolled over. A period that began before the Unix epoch, by a clock that has not been set, begins then
// in the State.
func (q *quota) at(s State, r *Reading, count, now int64) State {
	if count = max(0, count); count+r.Rest == 0 {
		return State{}
	}
	next := State{Time: now + r.Left, Amount: count, Debt: max(0, now+r.Left-r.Length)}
	if q.rollover != nil {
		next = next.rolling(s, r.Rest)
	}
	return next
}

// rolling returns s as the State of a quota with a rollover and a rest, which reuses the memory of old. The Time of such a State
// is negative.
func (s State) rolling(old State, rest int64) State {
	if s.Time = -s.Time; rest > 0 {
		if s.log = old.log; s.log == nil || !old.rolls() {
			s.log = &[]run{{}}
		}
		(*s.log)[0].n = rest
	}
	return s
}

// rolls reports whether s is the State of a quota with a rollover.
func (s State) rolls() bool { return s.Time < placesMark }

// rest returns the rest in s.
func (s State) rest() int64 {
	if s.log == nil || !s.rolls() {
		return 0
	}
	return (*s.log)[0].n
}

// parts returns the period of s, and its events.
func (q *quota) parts(s State) (start, end, count int64) {
	if s.rolls() {
		s.Time = -s.Time
	}
	return s.Debt, s.Time, s.Amount
}

// expiresAt returns the end of the period of s, or if its events roll over a bound of the end of the next period.
func (q *quota) expiresAt(s State) int64 {
	_, end, count := q.parts(s)
	if s.rolls() && count > 0 {
		return end + q.period
	}
	return end
}

func (q *quota) verdict(v *Verdict, r *Reading, cost int64, spent bool) {
	if o := q.rollover; o == nil {
		q.window.verdict(v, r, cost, spent)
	} else {
		w := window{o.capacity(r.Rest), q.extra, q.period}
		w.verdict(v, r, cost, spent)
		next := int64(0)
		if r.Rolls {
			next = o.next(r.Rest, r.Count)
		}
		v.RetryAfter = 0
		v.deny(cost, o.capacity(next), r.Left)
	}
	if q.periods != (Periods{}) {
		v.Period = int32(min(r.Length/1e6, 1<<31-1))
	}
}
