package driver

import (
	"fmt"
	"slices"
)

// places implements the in-flight limit: at most events places of a key are taken at the same time. A
// place is identified by its number: the time at which it was taken, or the first later microsecond that
// is the number of no other place. A place lapses hold microseconds after it was taken or last renewed.
//
// The State contains the places in the order of their renewals, the oldest first: run.at is the time of
// the renewal, and run.n the number. A place that has lapsed is removed with the next change, and no
// renewal brings it back.
//
// If the clock has stepped back, renewals may be later than now. They count as if they happened now, so
// the step makes no place lapse later than hold after its end. The numbers do not change.
type places struct {
	events  int64 // including extra
	extra   int64 // the part of events that a soft limit adds
	hold    int64 // microseconds
	lasting bool  // see Compiled.Lasting
}

// maxPlaces is the largest number of places of a key, including those of a soft limit.
const maxPlaces = 1000

// placesMark is the field Time of a State with places, which tells it from that of a log.
const placesMark = -1

func (p *places) constants() Constants {
	return Constants{Capacity: p.events, Extra: p.extra, Period: p.hold}
}

// taken returns the places of s that have not lapsed.
func (p *places) taken(s State, now int64) []run {
	if s.log == nil || s.Time != placesMark {
		return nil
	}
	all := *s.log
	if p.lasting {
		return all
	}
	first := 0
	for first < len(all) && all[first].at <= now-p.hold {
		first++
	}
	return all[first:]
}

func (p *places) read(r *Reading, s State, now int64) {
	taken := p.taken(s, now)
	if r.Count = int64(len(taken)); r.Count == 0 {
		return
	}
	for number := now; hasNumber(taken, number); number++ {
		r.Phase++
	}
	rest := func(i int64) int64 {
		if p.lasting {
			return p.hold
		}
		return min(taken[i].at, now) + p.hold - now
	}
	r.Last, r.moved = rest(r.Count-1), taken[r.Count-1].at > now
	if excess := r.Count - p.events; excess >= 0 {
		r.Retry = rest(excess)
	}
}

func hasNumber(places []run, number int64) bool {
	return slices.ContainsFunc(places, func(p run) bool { return p.n == number })
}

func (p *places) fits(r *Reading) bool { return r.Count < p.events }

func (p *places) spend(s State, r *Reading, now int64) State {
	return putPlaces(s, append(p.corrected(s, now), run{now, now + r.Phase}))
}

// corrected returns the places of s that have not lapsed, none of which was renewed after now.
func (p *places) corrected(s State, now int64) []run {
	taken := p.taken(s, now)
	for i := len(taken) - 1; i >= 0 && taken[i].at > now; i-- {
		taken[i].at = now
	}
	return taken
}

// putPlaces returns the State with the given places. It reuses the memory of s.
func putPlaces(s State, taken []run) State {
	if len(taken) == 0 {
		return State{}
	}
	if s.log == nil {
		s.log = new([]run)
	}
	if cap(taken) > 4*len(taken)+8 {
		taken = slices.Clone(taken)
	}
	*s.log, s.Time, s.Amount = taken, placesMark, int64(len(taken))
	return s
}

// undo frees the place of m.
func (p *places) undo(s State, _ Reading, now, _ int64, m Receipt) State {
	s, _ = p.remove(s, now, m)
	return s
}

// renew renews the place of m, and reports whether it had not lapsed.
func (p *places) renew(s State, now int64, m Receipt) (_ State, found bool) {
	if s, found = p.remove(s, now, m); found {
		var taken []run
		if s.log != nil {
			taken = *s.log
		}
		s = putPlaces(s, append(taken, run{now, m.At}))
	}
	return s, found
}

func (p *places) remove(s State, now int64, m Receipt) (_ State, found bool) {
	taken := p.corrected(s, now)
	i := slices.IndexFunc(taken, func(o run) bool { return o.n == m.At })
	if i < 0 {
		return putPlaces(s, taken), false
	}
	return putPlaces(s, slices.Delete(taken, i, i+1)), true
}

func (p *places) rewrite(s State, _ Reading, now int64) State {
	return putPlaces(s, p.corrected(s, now))
}

// No caller could free the places of a debit, and a credit would free those of others: see Store.

func (p *places) debit(State, Reading, int64, int64) State  { panic(noOp(Debit)) }
func (p *places) credit(State, Reading, int64, int64) State { panic(noOp(Credit)) }

func noOp(op Op) string { return fmt.Sprintf("weir: %d is no op of an in-flight rule", op) }

func (p *places) expiresAt(s State) int64 {
	switch {
	case s.log == nil || s.Time != placesMark:
		return 0
	case p.lasting:
		return Never
	}
	return (*s.log)[len(*s.log)-1].at + p.hold
}

func (p *places) verdict(v *Verdict, r *Reading, spent bool) {
	count := r.Count
	v.Allowed = p.fits(r)
	if count > 0 {
		v.ResetAfter = duration(r.Last)
	}
	if v.Allowed && spent {
		count++
		v.ResetAfter = duration(p.hold)
	}
	v.remain(p.events-p.extra-count, 1, spent)
	if !v.Allowed {
		v.RetryAfter, v.Window = duration(r.Retry), duration(r.Retry)
	}
}
