package driver

import (
	"fmt"
	"slices"
)

// places implements the in-flight limit: at most events places of a key are taken at the same time. An event takes as many
// as its cost. They are identified by a number, which contains the cost, and the time at which they were taken or the first
// later microsecond that is in no other number. They lapse hold microseconds after they were taken or last renewed.
//
// The State contains the places of an event as one run, in the order of their renewals, the oldest first: run.at is the
// time of the renewal, and run.n the number. Places that have lapsed are removed with the next change, and no
// renewal brings them back. A key with maxPlaces events has no place left.
//
// If the clock has stepped back, renewals may be later than now. They count as if they happened now, so
// the step makes no place lapse later than hold after its end. The numbers do not change.
//
// Before the places, the State has the queues of callers that wait: see Waiter. Debt is their number.
type places struct {
	events  int64 // including extra
	extra   int64 // the part of events that a soft limit adds
	hold    int64 // microseconds
	lasting bool  // see Compiled.Lasting
}

const (
	// maxPlaces is the largest number of events of a key, including those of a soft limit.
	maxPlaces = 1000
	// maxCosts is the largest number of places of a key by cost. A cost fits into costBits.
	maxCosts = 1_000_000
	costBits = 20
)

// placesMark is the field Time of a State with places. No other State has -1 there.
const placesMark = -1

func (p *places) constants() Constants {
	return Constants{Capacity: p.events, Extra: p.extra, Period: p.hold}
}

// taken returns the places of s that have not lapsed.
func (p *places) taken(s State, now int64) []run {
	_, all := parts(s)
	if p.lasting {
		return all
	}
	first := 0
	for first < len(all) && all[first].at <= now-p.hold {
		first++
	}
	return all[first:]
}

// parts returns the queues of s, two runs for each, and its places.
func parts(s State) (queues, places []run) {
	if s.log == nil || s.Time != placesMark {
		return nil, nil
	}
	all, n := *s.log, queueCount(s)*2
	return all[:n], all[n:]
}

// queueCount returns the number of queues in s.
func queueCount(s State) int64 { return s.Debt }

// numberOf returns the number of places that are taken at a time with a cost. It has the lowest 43 bits of the time, which
// return after 101 days.
func numberOf(at, cost int64) int64 {
	return at&(1<<(63-costBits)-1)<<costBits | cost
}

// costOf returns the cost in the number of places.
func costOf(number int64) int64 { return number & (1<<costBits - 1) }

// total returns the cost of all of taken.
func total(taken []run) (sum int64) {
	for _, t := range taken {
		sum += costOf(t.n)
	}
	return sum
}

// read sets r for a charge with cost. w is the caller who waits, or nil.
func (p *places) read(r *Reading, s State, now, cost int64, w *Waiter) {
	taken := p.taken(s, now)
	count := total(taken)
	needed, expires := count, int64(0)
	if queueCount(s) > 0 { // as in a State of callers who wait
		needed, expires = p.ahead(s, now, count, w)
	}
	if needed == 0 {
		return
	}
	for hasNumber(taken, numberOf(now+r.Number, cost)) {
		r.Number++
	}
	rest := func(i int) int64 {
		if p.lasting {
			return p.hold
		}
		return min(taken[i].at, now) + p.hold - now
	}
	last := len(taken) - 1
	if last >= 0 {
		r.Last, r.moved = rest(last), taken[last].at > now
	}
	expires = min(expires, p.hold)
	r.Count, r.Last = min(needed, max(count, p.events)), max(r.Last, expires)
	excess := r.Count + cost - p.events
	if excess > 0 && cost <= p.events {
		r.Retry = expires
	}
	for i := 0; i <= last && excess > 0 && cost <= p.events; i++ {
		r.Retry = max(rest(i), expires)
		excess -= costOf(taken[i].n)
	}
	switch len(taken) {
	case maxPlaces - 1:
		r.Single = true
	case maxPlaces:
		r.Count, r.Retry = max(r.Count, p.events), max(r.Retry, rest(0), expires)
	}
}

func hasNumber(places []run, number int64) bool {
	return slices.ContainsFunc(places, func(p run) bool { return p.n == number })
}

func (p *places) spend(s State, r *Reading, now, cost int64) State {
	return putPlaces(s, append(p.corrected(s, now), run{now, numberOf(now+r.Number, cost)}))
}

// corrected returns the places of s that have not lapsed, none of which was renewed after now.
func (p *places) corrected(s State, now int64) []run {
	taken := p.taken(s, now)
	for i := len(taken) - 1; i >= 0 && taken[i].at > now; i-- {
		taken[i].at = now
	}
	return taken
}

// putPlaces returns the State with the given places, and the queues of s. It reuses the memory of s.
func putPlaces(s State, taken []run) State {
	queues, _ := parts(s)
	return putRuns(s, queues, taken)
}

// putRuns returns the State with the given queues, two runs for each, and places.
func putRuns(s State, queues, taken []run) State {
	if len(queues)+len(taken) == 0 {
		return State{}
	}
	if s.log == nil {
		s.log = new([]run)
	}
	all := taken
	if len(queues) > 0 {
		all = slices.Concat(queues, taken)
	} else if cap(all) > 4*len(all)+8 {
		all = slices.Clone(all)
	}
	*s.log, s.Time, s.Amount, s.Debt = all, placesMark, int64(len(taken)), int64(len(queues)/2)
	return s
}

// undo frees the place of m.
func (p *places) undo(s State, r Reading, now, _ int64, m Receipt) State {
	s, found := p.remove(s, now, m)
	if found {
		s = p.wake(s, now, r.woken)
	}
	return s
}

// renew renews the place of m, and reports whether it had not lapsed.
func (p *places) renew(s State, now int64, m Receipt) (_ State, found bool) {
	if s, found = p.remove(s, now, m); found {
		_, taken := parts(s)
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
	queues, taken := parts(s)
	ends := int64(0)
	for i := 1; i < len(queues); i += 2 {
		ends = max(ends, queues[i].at)
	}
	switch {
	case len(taken) == 0:
		return ends
	case p.lasting:
		return Never
	}
	return max(ends, taken[len(taken)-1].at+p.hold)
}

func (p *places) verdict(v *Verdict, r *Reading, cost int64, spent bool) {
	count := r.Count
	if count > 0 {
		v.ResetAfter = duration(r.Last)
	}
	if spent {
		count += cost
		v.ResetAfter = duration(p.hold)
	}
	v.remain(p.events-p.extra-count, cost, spent)
	if spent && r.Single {
		v.Remaining = 0
	}
	v.deny(cost, p.events, r.Retry)
}
