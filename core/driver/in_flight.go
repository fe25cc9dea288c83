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
//
// If an event takes as many places as its cost, the State has one place of that weight for it, and the number of the
// place contains its weight. A key with maxPlaces events has no place left.
type places struct {
	events  int64 // including extra
	extra   int64 // the part of events that a soft limit adds
	hold    int64 // microseconds
	byCost  bool
	lasting bool // see Compiled.Lasting
}

const (
	// maxPlaces is the largest number of places of a key, including those of a soft limit, or of its events by cost.
	maxPlaces = 1000
	// maxWeight is the largest number of places of a key by cost. A weight fits into weightBits.
	maxWeight  = 1_000_000
	weightBits = 20
)

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

// number returns the number of a place that is taken at a time with a cost. With a weight, it has the lowest 43 bits of
// the time, which return after 101 days.
func (p *places) number(at, cost int64) int64 {
	if p.byCost {
		return at&(1<<(63-weightBits)-1)<<weightBits | cost
	}
	return at
}

// weight returns the weight of the place with a number.
func (p *places) weight(number int64) int64 {
	if p.byCost {
		return number & (1<<weightBits - 1)
	}
	return 1
}

// total returns the weight of all of taken.
func (p *places) total(taken []run) (sum int64) {
	if !p.byCost {
		return int64(len(taken))
	}
	for _, t := range taken {
		sum += p.weight(t.n)
	}
	return sum
}

func (p *places) read(r *Reading, s State, now, cost int64) {
	taken := p.taken(s, now)
	if len(taken) == 0 {
		return
	}
	for hasNumber(taken, p.number(now+r.Phase, cost)) {
		r.Phase++
	}
	rest := func(i int) int64 {
		if p.lasting {
			return p.hold
		}
		return min(taken[i].at, now) + p.hold - now
	}
	last := len(taken) - 1
	r.Last, r.moved = rest(last), taken[last].at > now
	r.Count = p.total(taken)
	excess := r.Count + cost - p.events
	for i := 0; i <= last && excess > 0 && cost <= p.events; i++ {
		r.Retry = rest(i)
		excess -= p.weight(taken[i].n)
	}
	switch {
	case !p.byCost:
	case len(taken) == maxPlaces-1:
		r.Left = 1
	case len(taken) == maxPlaces:
		r.Count, r.Retry = max(r.Count, p.events), max(r.Retry, rest(0))
	}
}

func hasNumber(places []run, number int64) bool {
	return slices.ContainsFunc(places, func(p run) bool { return p.n == number })
}

func (p *places) fits(r *Reading, cost int64) bool { return r.Count <= p.events-cost }

func (p *places) spend(s State, r *Reading, now, cost int64) State {
	return putPlaces(s, append(p.corrected(s, now), run{now, p.number(now+r.Phase, cost)}))
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

func (p *places) verdict(v *Verdict, r *Reading, cost int64, spent bool) {
	count := r.Count
	v.Allowed = p.fits(r, cost)
	if count > 0 {
		v.ResetAfter = duration(r.Last)
	}
	if v.Allowed && spent {
		count += cost
		v.ResetAfter = duration(p.hold)
	}
	v.remain(p.events-p.extra-count, cost, spent)
	if v.Allowed && spent && r.Left == 1 {
		v.Remaining = 0
	}
	switch {
	case v.Allowed:
	case cost > p.events:
		v.RetryAfter = Never
	default:
		v.RetryAfter, v.Window = duration(r.Retry), duration(r.Retry)
	}
}
