package oracle

import "slices"

// inFlight models a limit on events at the same time as the set of the places that are taken. A place
// has the number that its receipt contains, and the time at which it was taken or last renewed. It
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
type inFlight struct {
	rule   *Rule
	now    int64
	places []place // in no order
	future bool
}

type place struct{ number, renewed int64 }

func (f inFlight) at(r *Rule, now int64) state {
	read := inFlight{rule: r, now: now}
	for _, p := range f.places {
		if !r.Lasting && p.renewed+r.Per <= now {
			continue
		}
		if p.renewed > now {
			p.renewed, read.future = now, true
		}
		read.places = append(read.places, p)
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
	var renewed []int64
	for _, p := range f.places {
		renewed = append(renewed, p.renewed)
	}
	slices.Sort(renewed)
	return renewed[n-1] + f.rule.Per - f.now
}

func (f inFlight) taken() int64            { return int64(len(f.places)) }
func (f inFlight) ahead() bool             { return f.future }
func (f inFlight) left() int64             { return f.rule.Capacity() - f.taken() }
func (f inFlight) reset() int64            { return f.lapse(f.taken()) }
func (f inFlight) window() int64           { return 0 }
func (f inFlight) delay() int64            { return 0 }
func (f inFlight) fits(cost, _ int64) bool { return cost <= f.left() }

func (f inFlight) retry(cost, _ int64) int64 { return f.lapse(cost - f.left()) }

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
	f.places = slices.Clone(f.places)
	for i := range f.places {
		switch f.places[i].number {
		case c.Receipt.At:
			f.places[i].number = number
		case number:
			return false
		}
	}
	o.states[c.name()], c.Receipt.At = f, number
	return true
}

func (f inFlight) spend(int64) state { return f.with(place{f.receipt().At, f.now}) }

func (f inFlight) debit(int64) (state, bool)  { panic("oracle: a Debit of places") }
func (f inFlight) credit(int64) (state, bool) { panic("oracle: a Credit of places") }

// undo frees the place of m.
func (f inFlight) undo(_ int64, m Receipt) (state, bool) {
	f.places = slices.DeleteFunc(slices.Clone(f.places), func(p place) bool { return p.number == m.At })
	f.future = false
	return f, true
}

// renew renews the place of m, and reports whether it was taken.
func (f inFlight) renew(m Receipt) (s state, found bool) {
	freed, _ := f.undo(1, m)
	if s := freed.(inFlight); s.taken() < f.taken() {
		return s.with(place{m.At, f.now}), true
	}
	return freed, false
}

func (f inFlight) with(p place) state {
	f.places, f.future = append(slices.Clone(f.places), p), false
	return f
}
