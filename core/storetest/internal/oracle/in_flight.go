package oracle

import (
	"cmp"
	"slices"
)

// inFlight models a limit on events at the same time as the set of the places that are taken. A place
// has the number that its receipt contains, the time at which it was taken or last renewed, and a cost. It
// lapses Per microseconds after that time.
//
// RULE: the store chooses the number of a place, which is that of no other place that is taken. Here it is the time
// at which it was taken, or the first later microsecond that is free. A receipt therefore identifies one place, and
// an undo or a renewal can be repeated.
//
// RULE: after a step back, a place that was renewed in the future counts as renewed now. Numbers stay.
//
// RULE: a place that has lapsed is gone as soon as anything is written. Until then it counts again if
// the clock steps back.
//
// RULE: a place of a Lasting rule counts as one that is renewed all the time.
//
// RULE: when the limit changes, places stay, even if more places are taken than the limit has.
//
// RULE: under a rule with ByCost, an event takes as many places as its cost, otherwise one, and has one number for all of them. They
// are freed and renewed, and lapse, together: an undo frees them whatever its cost is. A later change of the cost of
// the event does not change them.
//
// RULE: a key has at most maxEvents events, so that its state has a bound. With so many events it has no place
// left, and the next one is admitted when one of them has ended and there are enough places.
//
// Callers who wait for places form a line: see caller.
type inFlight struct {
	rule   *Rule
	now    int64
	places []place // in no order
	future bool
	stored []place  // places as they were written, which a change of the line leaves
	line   []caller // in the order of arrival, as it was written
	asks   *caller  // whose Spend is decided; nil for all other charges
	needed int64    // after a Spend, the places that callers in front needed before: its verdict counts them
}

type place struct{ number, renewed, cost int64 }

// maxEvents is the largest number of events of a key.
const maxEvents = 1000

func (f inFlight) at(r *Rule, now int64) state {
	read := inFlight{rule: r, now: now, stored: f.stored, line: f.line}
	for _, p := range f.stored {
		if !r.Lasting && p.renewed+r.Per <= now {
			continue
		}
		if p.renewed > now {
			p.renewed, read.future = now, true
		}
		read.places = append(read.places, p)
	}
	if read.future { // the next write corrects them
		read.stored = read.places
	}
	return read
}

// lapse returns the time until n places have lapsed.
func (f inFlight) lapse(n int64) int64 {
	switch {
	case n == 0:
		return 0
	case f.rule.Lasting:
		return f.rule.Per
	}
	order := slices.SortedFunc(slices.Values(f.places), func(p, q place) int { return cmp.Compare(p.renewed, q.renewed) })
	i := 0
	for n -= order[0].cost; n > 0; n -= order[i].cost {
		i++
	}
	return order[i].renewed + f.rule.Per - f.now
}

func (f inFlight) taken() (n int64) {
	for _, p := range f.places {
		n += p.cost
	}
	return n
}

func (f inFlight) left() int64 {
	left := f.rule.Capacity() - f.taken()
	if f.full() {
		left = min(left, 0)
	}
	if left > 0 {
		needed, _ := f.first()
		left = max(0, left-max(needed, f.needed))
	}
	return left
}

// full reports whether there are so many events that there is no place left.
func (f inFlight) full() bool { return len(f.places) == maxEvents }

func (f inFlight) ahead() bool             { return f.future }
func (f inFlight) window() int64           { return 0 }
func (f inFlight) delay() int64            { return 0 }
func (f inFlight) fits(cost, _ int64) bool { return cost <= f.left() }

func (f inFlight) reset() int64 {
	_, leaves := f.first()
	return max(f.lapse(f.taken()), leaves)
}

// retry returns the time until the first callers have left and enough places have lapsed. RULE: those that lapse before
// are for these callers.
func (f inFlight) retry(cost, _ int64) int64 {
	needed, leaves := f.first()
	free := f.rule.Capacity() - f.taken()
	excess := cost - free + min(needed, max(free, 0))
	if f.full() {
		excess = max(excess, 1)
	}
	return max(f.lapse(min(excess, f.taken())), leaves)
}

func (f inFlight) receipt() Receipt {
	number := f.now
	for slices.ContainsFunc(f.places, func(p place) bool { return p.number == number }) {
		number++
	}
	return Receipt{At: number}
}

// Number gives the place that c, a Spend, has just taken the number that the store has chosen. It returns false if
// another place of the key has that number.
func (o *Oracle) Number(c *Charge, number int64) (ok bool) {
	f := o.states[c.name()].(inFlight)
	f.stored = slices.Clone(f.stored)
	for i := range f.stored {
		switch f.stored[i].number {
		case c.Receipt.At:
			f.stored[i].number = number
		case number:
			return false
		}
	}
	o.states[c.name()], c.Receipt.At = f, number
	return true
}

func (f inFlight) spend(cost int64) state {
	if !f.rule.ByCost {
		cost = 1
	}
	f.needed, _ = f.first()
	return f.with(place{f.receipt().At, f.now, cost})
}

func (f inFlight) debit(int64) (state, bool)  { panic("oracle: a Debit of places") }
func (f inFlight) credit(int64) (state, bool) { panic("oracle: a Credit of places") }

// undo frees the places of m.
func (f inFlight) undo(_ int64, m Receipt) (state, bool) {
	f.places = slices.DeleteFunc(slices.Clone(f.places), func(p place) bool { return p.number == m.At })
	f.stored, f.future = f.places, false
	return f, true
}

// renew renews the place of m, and reports whether it was taken.
func (f inFlight) renew(m Receipt) (_ state, found bool) {
	freed, _ := f.undo(1, m)
	s := freed.(inFlight)
	if cost := f.taken() - s.taken(); cost > 0 {
		return s.with(place{m.At, f.now, cost}), true
	}
	return s, false
}

func (f inFlight) with(p place) state {
	f.places, f.future = append(slices.Clone(f.places), p), false
	f.stored = f.places
	return f
}
