package oracle

import "math/big"

// A Calendar divides the time into periods.
type Calendar interface {
	// Period returns the first microsecond of the period that contains now, and that of the next period.
	Period(now int64) (start, end int64)
}

// quota models a limit on the events of a period of a calendar as the count of the events between two
// times: from start until before end.
//
// RULE: the period in which events were counted lasts until its end, even if the calendar of the key has
// changed meanwhile. A key therefore gains nothing from another time zone or day of the month.
//
// RULE: after a step back, the period of the events is still the present one, even if it has not begun.
// If it ends later than any period that contains now can, its events count in the present period of the
// calendar instead, so that a wrong clock denies no key for years.
//
// RULE: when the limit changes, the count and its period stay.
//
// RULE: with a Rollover, the rest of a period is the unused part of its limit and its own rest, at most Rollover. It is added to
// the limit of the period that begins before or when that period ends, at the first charge that is written then. A period
// without events that count has no rest, so a charge that is undone has no effect, nor has one that another rule wrote.
//
// A fixed window from the first event is a quota whose calendar has a period of Per that begins now, for
// every now.
type quota struct {
	rule              *Rule
	now               int64
	start, end, count int64
	rest              int64 // added to the limit of the period
	rolls             bool  // a rule with a Rollover has written the state
	future            bool
}

const day = 24 * 3_600_000_000

// longest contains a bound of the length of a period. A place may change to another side of the date line.
var longest = map[string]int64{"day": 2 * day, "week": 9 * day, "month": 33 * day}

// period returns the period that contains now.
func (r *Rule) period(now int64) (start, end int64) {
	if r.FromFirst {
		return now, now + r.Per
	}
	return r.calendar.Period(now)
}

// longest returns a bound of the length of a period of r.
func (r *Rule) longest() int64 {
	if r.FromFirst {
		return r.Per
	}
	return longest[r.Unit]
}

// rollover returns the most events that roll over: none above the largest count.
func (r *Rule) rollover() int64 { return min(r.Rollover, MaxCount-1-r.limit()-r.Extra) }

// Limit returns the number of events that r admits, without Extra, in a period with a rest.
func (r *Rule) Limit(rest int64) int64 {
	if r.Leaves == nil {
		return r.limit() + rest
	}
	return max(1, floor(new(big.Rat).Mul(r.Leaves, big.NewRat(r.limit()+rest, 1))))
}

// holding returns the number of events that r admits in a period with a rest.
func (r *Rule) holding(rest int64) int64 { return r.Limit(rest) + r.soft() }

// leaves returns the rest of the period of q, under r.
func (q quota) leaves(r *Rule) int64 {
	if q.count == 0 {
		return 0
	}
	return min(r.rollover(), max(0, r.limit()+min(q.rest, r.rollover())-q.count))
}

func (q quota) at(r *Rule, now int64) state {
	start, end := r.period(now)
	next := quota{rule: r, now: now, start: start, end: end}
	rolls := r.rollover() > 0
	switch {
	case q.count+q.rest == 0:
	case q.end <= now:
		if q.rolls && rolls && q.end >= start {
			next.rest = q.leaves(r)
		}
	case q.end <= now+r.longest():
		next.start, next.end, next.count, next.rolls = q.start, q.end, q.count, q.rolls && rolls
	default:
		next.count, next.rolls, next.future = q.count, rolls, q.count > 0 || rolls
	}
	if q.end > now && rolls {
		next.rest = min(q.rest, r.rollover())
	}
	return next
}

// later returns the number of events that the next period admits if no charge follows.
func (q quota) later() int64 {
	if q.rolls {
		return q.rule.holding(q.leaves(q.rule))
	}
	return q.rule.holding(0)
}

func (q quota) ahead() bool      { return q.future }
func (q quota) left() int64      { return q.rule.holding(q.rest) - q.count }
func (q quota) window() int64    { return q.end - q.now }
func (q quota) delay() int64     { return 0 }
func (q quota) receipt() Receipt { return Receipt{At: q.now} }

func (q quota) reset() int64 {
	if q.count == 0 {
		return 0
	}
	return q.window()
}

func (q quota) fits(cost, _ int64) bool  { return cost <= q.left() }
func (q quota) retry(int64, int64) int64 { return q.window() }

// to returns q with count events. Without events and a rest, no period is kept.
func (q quota) to(count int64) state {
	if count+q.rest == 0 {
		q.start, q.end = q.rule.period(q.now)
	}
	return quota{q.rule, q.now, q.start, q.end, count, q.rest, q.rule.rollover() > 0, false}
}

func (q quota) spend(cost int64) state { return q.to(q.count + cost) }

// debit also counts events above the limit, so that an undo of a part leaves the rest.
func (q quota) debit(cost int64) (state, bool) {
	return q.to(min(q.count+min(cost, MaxCount), MaxCount-1)), true
}

// credit changes nothing if no events count and some may roll over.
func (q quota) credit(cost int64) (state, bool) {
	if q.count == 0 && q.rule.rollover() > 0 {
		return q, false
	}
	return q.to(max(0, q.count-cost)), true
}

// undo frees the cost of the charge of m during its period. RULE: after a step back since the charge,
// undo frees nothing, because the events of the period may belong to other charges.
func (q quota) undo(cost int64, m Receipt) (state, bool) {
	if m.At == 0 || m.stepped(q.now) || m.At < q.start || m.At >= q.end {
		return q, false
	}
	return q.credit(cost)
}
