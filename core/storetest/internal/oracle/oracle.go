// Package oracle defines the rate limiting algorithms. Each algorithm has its textbook form, in
// exact rational numbers and plain lists, without optimizations. Package core/storetest compares
// the verdicts of stores with the verdicts of this package, field by field. The package shares no
// code with package driver, on which stores are built, so a fault of package driver shows as a
// difference.
//
// A paragraph that begins with RULE states a decision that the definition of an algorithm leaves
// open, and the reason for it. Two rules hold for all algorithms:
//
// RULE: a state is ahead of the clock if it was written before the clock stepped back. Such a state
// counts as of now, and a denied call writes it as of now. Otherwise later calls would be denied
// until the clock has caught up. A Peek that is admitted writes nothing, and neither does an Undo
// that is too late for a bucket or fixed window.
//
// RULE: a state belongs to a key, the name of a rule and a length: the time in which a bucket refills,
// or the period and sub-windows of another algorithm. A rule with a changed limit of the same length
// reads the state that was written under the earlier limit. Each algorithm says how it reads such a
// state. A limit of another length has a state of its own, because a state could count for more events
// under a longer length, so that a caller would gain events by switching between them.
//
// Times and spans are in microseconds. Times are positive and count from the Unix epoch. They are
// read from the store's clock, which may step back and leap ahead between two calls.
package oracle

import (
	"fmt"
	"math"
	"math/big"
	"time"
)

const (
	// Never is the RetryAfter of a cost that is never admitted, and a delay without a bound.
	Never = math.MaxInt64
	// MaxCount bounds costs and counts. RULE: a larger cost counts as MaxCount, and a window or log
	// counts to MaxCount-1, so that six bytes hold a count.
	MaxCount = 1 << 48
	// Horizon is the longest span of a limit or debt, 100 years. RULE: a bucket refills from any
	// debt within Horizon, and a cost that takes longer to refill counts as Horizon and a
	// microsecond, which fits no bucket. Times therefore stay below 2^53.
	Horizon = 100 * 366 * 24 * int64(time.Hour/time.Microsecond)
)

// A Rule is an algorithm with a limit.
type Rule struct {
	Name      string
	Algorithm string // "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window", "in_flight", "quota", "pause"

	// A number of events per period, in microseconds. In flight: of places, and the time in which one lapses. A
	// pause has neither: walks move the clock by parts of Per.
	Events, Per int64
	Unit        string // of a quota: "day", "week" or "month"; Per then has no meaning
	Burst       int64  // the burst of a bucket; 0 means Events
	Extra       int64  // the number of events that a soft limit admits beyond the limit
	Rollover    int64  // the most events of a quota that are left of a period and count in the next one
	FromFirst   bool   // the windows of a fixed window begin with the first event of a key
	ByCost      bool   // in flight: an event takes as many places as its cost
	SubWindows  int64  // the number of sub-windows; only for a sliding window
	Shadow      bool   // the rule is charged if the cost fits, but denies nothing
	Lasting     bool   // in flight: no place lapses, because their holders would renew them

	// Leaves is not nil if the rule leaves headroom: the part of the events of the limit that it admits at once.
	// RULE: the others and Extra are left to other rules that share the state. The state is that of a
	// rule without headroom, so a bucket is full when it holds all tokens, not only this part.
	Leaves *big.Rat

	// Base is the rule that was enlarged to this elastic bucket, or nil. RULE: both rules take the
	// same time to refill; the enlarged rule rounds it down to a multiple of parts. Neither limit
	// therefore truncates a state that was written under the other limit, and a caller gains
	// nothing by switching between them.
	Base *Rule

	calendar Calendar // of the charge
}

// limit returns how many events the rule admits at once, without Extra.
func (r *Rule) limit() int64 {
	switch {
	case r.Algorithm == "pause":
		return Never
	case r.Burst != 0:
		return r.Burst
	}
	return r.Events
}

// Capacity returns how many events the rule admits at once.
func (r *Rule) Capacity() int64 {
	switch {
	case r.Leaves != nil:
		return r.Limit(0)
	case r.Base != nil:
		return floor(r.holds())
	}
	return r.limit() + r.Extra
}

// Length returns the length of the rule's states.
func (r *Rule) Length() string {
	switch {
	case r.Base != nil:
		return r.Base.Length()
	case r.isBucket():
		return new(big.Rat).Mul(big.NewRat(r.limit()+r.Extra, r.Events), big.NewRat(r.Per, 1)).String()
	case r.Unit != "":
		return r.Unit
	case r.FromFirst:
		return fmt.Sprint(r.Per, " from first")
	case r.Algorithm == "pause":
		return ""
	}
	return fmt.Sprint(r.Per, " ", r.SubWindows)
}

// soft returns how many events of the capacity are above the limit.
func (r *Rule) soft() int64 { return max(0, r.Capacity()-r.limit()) }

// An Op is the effect of a charge.
type Op uint8

// Spend and Peek are the ops of Take. The other ops are the ops of Adjust.
const (
	Spend  Op = iota // takes Cost, if all charges of the call fit
	Peek             // takes nothing, but denies the call if Cost does not fit
	Reset            // forgets the state
	Credit           // frees Cost, or as much of it as is in use
	Debit            // takes Cost even if it does not fit; pauses a key for Pause
	Undo             // frees Cost of the charge that wrote Receipt, or as much of it as still counts
	Renew            // makes the place of the charge that wrote Receipt lapse Per from now, if it has not lapsed
)

// A Charge is one rule of one key in a call.
type Charge struct {
	Key  string
	Rule *Rule
	Op   Op
	Cost int64 // at least 1; ignored by Reset

	// AtMost, set in all charges of a call or in none, makes Cost the largest cost: Take sets the Cost
	// of all charges to the largest cost that all enforced rules admit, or to 1 if they admit none.
	AtMost bool

	// MaxDelay is the longest accepted delay of a Spend or Peek by a leaky bucket, in whole
	// microseconds. A charge with a longer delay is denied. Zero accepts any delay. For the Debit of a pause, it is
	// the length of the pause, up to 366 days.
	MaxDelay time.Duration
	Pause    time.Duration // the length that the Debit of a pause sets
	Ban      bool          // the Debit of a pause leaves the end of a pause
	// Receipt, if not nil, is written by an admitted Spend and by a Debit, and read by an Undo and a Renew.
	Receipt *Receipt
	// Waiter, if not nil, is the caller of a Spend who waits for places, or the one that an Undo removes from the line.
	Waiter *Waiter

	Calendar Calendar // the periods of a quota at the time of the call

	Verdict Verdict // the result
}

// rule returns the rule of c with the calendar of c.
func (c *Charge) rule() *Rule {
	if c.Calendar == nil {
		return c.Rule
	}
	r := *c.Rule
	r.calendar = c.Calendar
	return &r
}

// maxDelay returns how many microseconds the event may be delayed.
func (c *Charge) maxDelay() int64 {
	if c.MaxDelay == 0 {
		return Never
	}
	return int64(c.MaxDelay / time.Microsecond)
}

// A Receipt identifies a charge for an Undo or a Renew. The zero Receipt undoes nothing.
type Receipt struct {
	At   int64    // the time of the charge; in flight: the number of the place
	Used *big.Rat // the refill time of the bucket before the charge; nil for windows and logs
	Rule *Rule    // the rule of the charge; nil for windows and logs
	Age  int64    // the time since the charge on a clock that never steps; 0 if unknown
}

// Keep returns the receipt for an undo of a part of a charge. The rest, cost, stays taken.
func (m Receipt) Keep(r *Rule, cost int64) Receipt {
	if r.isBucket() && m.At != 0 {
		m.Used, m.Rule = add(r.reread(m.Used, m.Rule, 0), r.refill(r.units(cost))), r
	}
	return m
}

// stepped reports whether the clock has stepped back since the charge.
func (m Receipt) stepped(now int64) bool { return now-m.At < m.Age }

// A Verdict is the result of a charge. After an op of Adjust it is the result of a later Peek with
// cost 1, except that Allowed is set, and RetryAfter and Soft are zero.
type Verdict struct {
	Allowed    bool  // by this rule alone
	Remaining  int64 // events of the limit that are left
	RetryAfter int64 // after a denial: the least wait after which the same cost is admitted, or Never
	ResetAfter int64 // the time until nothing is in use
	Delay      int64 // the time that an event which a leaky bucket admits has to wait
	Soft       bool  // allowed, but above the limit
	Found      bool  // after a Reset: something was in use; after a Renew: the place had not lapsed

	// Window is the span to which Remaining refers. For a bucket, it is the time in which Remaining
	// events refill or, if Remaining is 0, until an event of the limit is available. For a fixed
	// window or quota, it is the time until the window or period ends. For a log or sliding window, it is the time
	// until the first event leaves it, or Per if it is empty. For places and an open pause, it is 0. After a
	// denial, Window is RetryAfter, unless RetryAfter is Never.
	Window int64
	Period int64 // of a quota: the length of the present period
	Rest   int64 // of a quota: the events that have rolled over into it
}

// A state is the use of one rule by one key, at one time and under one limit. It is immutable.
type state interface {
	at(r *Rule, now int64) state // the state as it counts under r at now
	ahead() bool                 // the state that at has read is ahead of the clock

	left() int64                      // whole events of the capacity that are not in use
	reset() int64                     // the time until nothing is in use; 0 if nothing is
	window() int64                    // Verdict.Window
	delay() int64                     // the delay of an event that is admitted
	fits(cost, maxDelay int64) bool   // cost is admitted
	retry(cost, maxDelay int64) int64 // the time until cost is admitted, which is within the capacity
	receipt() Receipt

	spend(cost int64) state                      // after a Spend of cost, which fits
	debit(cost int64) (s state, changed bool)    // after a Debit; if changed is false, nothing is written
	credit(cost int64) (s state, changed bool)   // after a Credit
	undo(int64, Receipt) (s state, changed bool) // after an Undo
}

// An Oracle keeps the states of all keys. The zero Oracle is empty. It is not safe for concurrent
// use.
type Oracle struct{ states map[name]state }

// A name identifies a state.
type name struct{ key, rule, length string }

// name returns the name of the state of c.
func (c *Charge) name() name { return name{c.Key, c.Rule.Name, c.Rule.Length()} }

// read returns the state of c as it counts at now.
func (o *Oracle) read(c *Charge, now int64) state {
	s, r := o.states[c.name()], c.rule()
	if s == nil {
		s = r.unused()
	}
	s = s.at(r, now)
	if f, ok := s.(inFlight); ok && c.Op == Spend && c.Waiter != nil {
		return f.waiting(c.Waiter, c.Cost)
	}
	return s
}

// write stores s. RULE: writing a state with nothing in use deletes it, so that stores need not
// keep it. A state that is not written stays, and counts again after a step back, as one with a line does.
func (o *Oracle) write(c *Charge, s state) {
	if o.states == nil {
		o.states = make(map[name]state)
	}
	o.states[c.name()] = s
	f, _ := s.(inFlight)
	q, _ := s.(quota)
	if s.reset() == 0 && len(f.line) == 0 && q.rest == 0 {
		delete(o.states, c.name())
	}
}

func (r *Rule) unused() state {
	switch r.Algorithm {
	case "token_bucket", "leaky_bucket":
		return bucket{rule: r, tokens: r.holds()}
	case "fixed_window":
		if r.FromFirst {
			return quota{rule: r}
		}
		return fixed{rule: r}
	case "sliding_log", "sliding_window":
		return sliding{rule: r}
	case "in_flight":
		return inFlight{rule: r}
	case "quota":
		return quota{rule: r}
	case "pause":
		return pause{}
	}
	panic("oracle: unknown algorithm " + r.Algorithm)
}

// Take decides Spends and Peeks at now. If all charges of enforced rules fit, the decision is
// admitted: it takes every Spend, except a Spend of a shadow rule that does not fit. Otherwise the
// decision is denied and takes nothing.
func (o *Oracle) Take(now int64, charges []Charge) {
	if charges[0].AtMost {
		cost := charges[0].Cost
		for i := range charges {
			if c := &charges[i]; !c.Rule.Shadow {
				cost = min(cost, o.read(c, now).left())
			}
		}
		for i := range charges {
			charges[i].Cost = max(cost, 1)
		}
	}
	admitted, states := true, make([]state, len(charges))
	for i := range charges {
		c := &charges[i]
		states[i] = o.read(c, now)
		admitted = admitted && (c.Rule.Shadow || states[i].fits(c.Cost, c.maxDelay()))
	}
	for i := range charges {
		c, before, after := &charges[i], states[i], states[i]
		fits, spent := before.fits(c.Cost, c.maxDelay()), false
		switch {
		case admitted && fits && c.Op == Peek:
		case admitted && fits:
			spent = true
			if c.Receipt != nil {
				*c.Receipt = before.receipt()
			}
			after = before.spend(c.Cost)
			o.write(c, after)
		case before.ahead():
			o.write(c, before)
		}
		c.Verdict = verdict(c.Rule, before, after, c.Cost, c.maxDelay())
		if f, ok := after.(inFlight); ok && f.asks != nil {
			if f, changed := f.decided(c.Waiter, fits, spent); changed {
				o.write(c, f)
			}
		}
	}
}

// Adjust applies Debits, Credits, Undos, Renews and Resets at now. None is denied.
func (o *Oracle) Adjust(now int64, charges []Charge) {
	for i := range charges {
		c := &charges[i]
		s, changed, found := o.read(c, now), true, false
		switch c.Op {
		case Reset:
			q, _ := s.(quota)
			found = s.reset() > 0 || q.rest > 0
			s = c.Rule.unused().at(c.rule(), now)
		case Credit:
			s, changed = s.credit(c.Cost)
		case Debit:
			if c.Receipt != nil {
				*c.Receipt = s.receipt()
			}
			if changed = !c.Ban || s.reset() == 0 || s.ahead(); changed {
				s, changed = s.debit(c.debited(s))
			}
		case Undo:
			if c.Waiter != nil {
				f, _ := s.(inFlight).undo(1, Receipt{})
				s = f.(inFlight).leave(c.Waiter.Queue)
				break
			}
			s, changed = s.undo(c.Cost, *c.Receipt)
		case Renew:
			s, found = s.(inFlight).renew(*c.Receipt)
		}
		if changed {
			o.write(c, s)
		}
		v := verdict(c.Rule, s, s, 1, Never)
		v.Allowed, v.RetryAfter, v.Soft, v.Found = true, 0, false, found
		c.Verdict = v
	}
}

// debited returns the cost of c, a Debit of s, or the length of a pause in microseconds.
func (c *Charge) debited(s state) int64 {
	switch {
	case c.Rule.Algorithm != "pause":
		return c.Cost
	case c.Ban && s.reset() > 0:
		return 0
	}
	return c.Pause.Microseconds()
}

// Look returns the Verdict of c at now as if c were a Peek, and reports whether the state is ahead
// of the clock. Look writes nothing.
func (o *Oracle) Look(now int64, c *Charge) (v Verdict, ahead bool) {
	s := o.read(c, now)
	return verdict(c.Rule, s, s, c.Cost, c.maxDelay()), s.ahead()
}

// verdict returns the Verdict of a charge of cost, given the states before and after the charge.
func verdict(r *Rule, before, after state, cost, maxDelay int64) Verdict {
	v := Verdict{
		Allowed:    before.fits(cost, maxDelay),
		Remaining:  max(0, after.left()-r.soft()),
		ResetAfter: after.reset(),
		Window:     after.window(),
	}
	if q, ok := after.(quota); ok && r.Unit != "" {
		v.Period, v.Rest = q.end-q.start, q.rest
	}
	fits := r.Capacity()
	if q, ok := before.(quota); ok {
		fits = q.later()
	}
	switch {
	case v.Allowed:
		v.Delay = before.delay()
		v.Soft = before.left()-cost < r.soft()
	case cost > fits:
		v.RetryAfter = Never
	default:
		v.RetryAfter = before.retry(cost, maxDelay)
		v.Window = v.RetryAfter
	}
	return v
}
