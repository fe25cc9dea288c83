// Package oracle says what the rate limiting algorithms mean: each in its textbook form, in exact
// rational numbers, with lists that are scanned from their beginning. Random histories of calls
// compare every store with it. It shares no code with the engine of the stores, so a fault of the
// engine shows as a difference.
//
// Where a definition leaves a choice, a paragraph that begins with RULE states what was chosen,
// and why. Two such rules hold for all algorithms:
//
// RULE: a state that was written after now, by a clock that has stepped back since, counts as of
// now, and every denied call writes it back as such. Otherwise it would deny each later call, too,
// until the clock has caught up. A call that admits a Peek writes nothing.
//
// RULE: a changed limit meets the state of the limit before it, which is kept by key and name of
// the rule. Each algorithm states how it reads such a state.
//
// All times and spans are in microseconds. Times count from the Unix epoch, by the clock of the
// store, which may step back and leap forward between two calls, and are positive.
package oracle

import (
	"math"
	"math/big"
	"time"
)

const (
	// Never is the RetryAfter of a cost that is never admitted.
	Never = math.MaxInt64
	// MaxCount is what events are counted to. RULE: counts saturate below it, so that stores may
	// keep them in six bytes.
	MaxCount = 1 << 48
	// Horizon is the longest span that a limit or a debt reaches over: 100 years. RULE: a cost
	// that takes longer to refill counts as a microsecond more than Horizon, which no bucket
	// holds, and a debt of Horizon does not grow, so that times stay below 2^53.
	Horizon = 100 * 366 * 24 * int64(time.Hour/time.Microsecond)
)

// A Rule is an algorithm with a limit.
type Rule struct {
	Name      string
	Algorithm string // "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window"

	Events, Per int64 // so many events in so many microseconds
	Burst       int64 // what a bucket holds; 0 means Events
	Extra       int64 // soft throttling: how much is admitted beyond the limit
	SubWindows  int64 // of a sliding window
	Shadow      bool  // evaluated, and charged as far as it fits, but not enforced

	// Base is the rule of which a bucket is an elastic enlargement. RULE: such a bucket holds what
	// refills in the time in which Base fills up, cut to the parts of a microsecond that the rate
	// has. So neither limit cuts a state short that the other has written, and alternation between
	// them admits nothing extra.
	Base *Rule
}

// limit is how many events the rule admits at once, without Extra.
func (r *Rule) limit() int64 {
	if r.Burst != 0 {
		return r.Burst
	}
	return r.Events
}

// capacity is how many events the rule admits at once.
func (r *Rule) capacity() int64 {
	if r.Base != nil {
		return floor(r.holds())
	}
	return r.limit() + r.Extra
}

// soft is how many of the capacity are beyond the limit.
func (r *Rule) soft() int64 { return r.capacity() - r.limit() }

// An Op is what a charge does.
type Op uint8

// The ops of Take are Spend and Peek, those of Adjust are the others.
const (
	Spend  Op = iota // takes Cost, if every charge of the call fits
	Peek             // takes nothing, and denies the call if Cost does not fit
	Reset            // forgets the state
	Credit           // frees Cost, or as much as is in use
	Debit            // takes Cost whether it fits or not
	Undo             // frees what still counts of the charge that wrote Receipt
)

// A Charge is one rule of one key, and what a call does to it.
type Charge struct {
	Key  string
	Rule *Rule
	Op   Op
	Cost int64 // at least 1, but for Reset

	// MaxDelay denies a Spend or Peek that a leaky bucket would delay for longer, in whole
	// microseconds. Zero is no bound.
	MaxDelay time.Duration
	// Receipt, if it is not nil, is written by a Spend that takes its cost and by a Debit, and read
	// by an Undo.
	Receipt *Receipt

	Verdict Verdict // the answer
}

// patience is how long the event of c may be delayed.
func (c *Charge) patience() int64 {
	if c.MaxDelay == 0 {
		return Never
	}
	return int64(c.MaxDelay / time.Microsecond)
}

// A Receipt tells an Undo when a charge was made. The zero Receipt undoes nothing.
type Receipt struct {
	At   int64
	Used *big.Rat // of a bucket: how long the bucket would have taken to fill up before the charge,
	Rule *Rule    // and under which limit
	Age  int64    // how long ago the charge was made, by a clock that never steps; 0 if unknown
}

// Keep is the receipt of a charge under r of which cost stays taken when the rest is undone.
func (m Receipt) Keep(r *Rule, cost int64) Receipt {
	if r.isBucket() && m.At != 0 {
		m.Used, m.Rule = add(r.reread(m.Used, m.Rule, 0), r.refill(r.units(cost))), r
	}
	return m
}

// stepped reports whether the clock has stepped back since the charge.
func (m Receipt) stepped(now int64) bool { return now-m.At < m.Age }

// A Verdict is the answer to a charge. After a charge of Adjust, Verdict is about one event.
type Verdict struct {
	Allowed    bool  // what this rule alone says; true for a charge of Adjust
	Remaining  int64 // events of the limit that are left
	RetryAfter int64 // denied: the least wait after which the same cost is admitted, or Never
	ResetAfter int64 // until nothing is in use
	Delay      int64 // allowed by a leaky bucket: how long the event has to wait
	Soft       bool  // allowed, but beyond the limit
	Found      bool  // Reset: whether anything was in use

	// Window is the span to which Remaining belongs: in which so much refills, for a bucket, and
	// otherwise in which no more is admitted. Without Remaining it is the time until an event of
	// the limit is available, and after a denial it is RetryAfter, unless that is Never.
	Window int64
}

// A state is what is in use of one rule by one key, as it counts at one time under one limit. A
// state does not change: the methods return another one.
type state interface {
	at(r *Rule, now int64) state // the same state, as it counts at now under r
	late() bool                  // whether the state that was read was written after now

	left() int64                       // whole events of the capacity that are not in use
	reset() int64                      // until nothing is in use; 0 if nothing is
	window() int64                     // see Verdict.Window
	delay() int64                      // how long an event would have to wait that is admitted
	fits(cost, patience int64) bool    // whether cost is admitted
	retry(cost, patience int64) int64  // how long until a cost within the capacity is admitted
	receipt() Receipt                  // that of a charge
	spend(cost int64) state            // after a cost that fits
	debit(cost int64) (state, bool)    // false: nothing is to be written
	credit(cost int64) (state, bool)   // the same
	undo(int64, Receipt) (state, bool) // the same
}

// An Oracle keeps the states of all keys. It is not safe for concurrent use. The zero Oracle is
// empty.
type Oracle struct{ states map[[2]string]state }

// read returns the state that c is about, as it counts at now.
func (o *Oracle) read(c *Charge, now int64) state {
	s := o.states[[2]string{c.Key, c.Rule.Name}]
	if s == nil {
		s = c.Rule.untouched()
	}
	return s.at(c.Rule, now)
}

// write keeps s. RULE: a state with nothing in use is forgotten, so what was in use before does not
// come back if the clock steps back. (A state that is not written is kept, and does come back.)
func (o *Oracle) write(c *Charge, s state) {
	if o.states == nil {
		o.states = make(map[[2]string]state)
	}
	if o.states[[2]string{c.Key, c.Rule.Name}] = s; s.reset() == 0 {
		delete(o.states, [2]string{c.Key, c.Rule.Name})
	}
}

func (r *Rule) untouched() state {
	switch r.Algorithm {
	case "token_bucket", "leaky_bucket":
		return bucket{rule: r, tokens: r.holds()}
	case "fixed_window":
		return fixed{rule: r}
	case "sliding_log", "sliding_window":
		return sliding{rule: r}
	}
	panic("oracle: no algorithm is called " + r.Algorithm)
}

// Take decides charges, which are Spends and Peeks, at now: all are admitted or none. A shadow rule
// has no say, and is charged what the others admit if it fits.
func (o *Oracle) Take(now int64, charges []Charge) {
	admitted, states := true, make([]state, len(charges))
	for i := range charges {
		c := &charges[i]
		states[i] = o.read(c, now)
		admitted = admitted && (c.Rule.Shadow || states[i].fits(c.Cost, c.patience()))
	}
	for i := range charges {
		c, before, after := &charges[i], states[i], states[i]
		switch fits := before.fits(c.Cost, c.patience()); {
		case admitted && fits && c.Op == Peek:
		case admitted && fits:
			if c.Receipt != nil {
				*c.Receipt = before.receipt()
			}
			after = before.spend(c.Cost)
			o.write(c, after)
		case before.late():
			o.write(c, before)
		}
		c.Verdict = verdict(c.Rule, before, after, c.Cost, c.patience())
	}
}

// Adjust makes charges, which are Debits, Credits, Undos and Resets, at now. None is denied.
func (o *Oracle) Adjust(now int64, charges []Charge) {
	for i := range charges {
		c := &charges[i]
		s, changed, found := o.read(c, now), true, false
		switch c.Op {
		case Reset:
			found = s.reset() > 0
			s = c.Rule.untouched().at(c.Rule, now)
		case Credit:
			s, changed = s.credit(c.Cost)
		case Debit:
			if c.Receipt != nil {
				*c.Receipt = s.receipt()
			}
			s, changed = s.debit(c.Cost)
		case Undo:
			s, changed = s.undo(c.Cost, *c.Receipt)
		}
		if changed {
			o.write(c, s)
		}
		v := verdict(c.Rule, s, s, 1, Never)
		v.Allowed, v.RetryAfter, v.Soft, v.Found = true, 0, false, found
		c.Verdict = v
	}
}

// verdict is the answer to cost, which met the state before and left the state after.
func verdict(r *Rule, before, after state, cost, patience int64) Verdict {
	v := Verdict{
		Allowed:    before.fits(cost, patience),
		Remaining:  max(0, after.left()-r.soft()),
		ResetAfter: after.reset(),
		Window:     after.window(),
	}
	switch {
	case v.Allowed:
		v.Delay = before.delay()
		v.Soft = before.left()-cost < r.soft()
	case cost > r.capacity():
		v.RetryAfter = Never
	default:
		v.RetryAfter = before.retry(cost, patience)
		v.Window = v.RetryAfter
	}
	return v
}
