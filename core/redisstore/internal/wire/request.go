package wire

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Request is the charges that one script decides or adjusts, and their outcome. The caller sets Keys and Charges, and
// calls [Encoder.Encode], which copies all that is sent: the caller may leave before the reply, and use its charges
// again. After the reply it calls Decode, and then Answer.
type Request struct {
	Keys    []string        // in Redis, one for each charge
	Charges []driver.Charge // only Encode, Decode and Answer use them
	Clock   string          // the time for a test, in Unix microseconds; empty for that of the server
	Slot    string          // only requests with an equal slot share a script
	Repeats bool            // the caller repeats its undos

	// Encode sets these.
	Work    time.Duration // that Redis has with all charges
	Adjusts bool          // has its effect whether the caller waits for the reply or not
	Urgent  bool          // contains a renewal or an undo
	Undoes  bool          // contains an undo that the caller does not repeat, which is sent although it has left
	Takes   bool          // takes places, which the caller has to free

	verb   verb
	args   []any   // of the script: the number of charges, that of the arguments after these two, and these
	timed  []timed // the arguments that depend on the time
	set    librarySet
	values int // the number of integers that a script reports

	waited time.Duration // by which the MaxDelay of the charges has shrunk
	number atomic.Int64  // of the places that the charges take; 0 until a script is composed

	// The outcome.
	Err   error
	time  any   // of the server
	reply []any // the part of the reply that belongs to the request

	// Decode sets these.
	Time     int64 // of the server, in Unix microseconds
	Admitted bool
	Readings []driver.Reading // of the charges
	Found    []bool           // whether a Renew or an Undo has found its places, or a queue
}

// A timed argument is a longest delay, which shrinks while the request waits, or an age, which grows.
type timed struct {
	index  int // in args
	micros int64
	grows  bool
}

// Reset makes r an empty request, which keeps its memory.
func (r *Request) Reset() {
	clear(r.Keys)
	clear(r.args)
	*r = Request{Keys: r.Keys[:0], args: r.args[:0], timed: r.timed[:0], Readings: r.Readings[:0], Found: r.Found[:0]}
}

// Again removes the outcome of r, which did not run and is sent again.
func (r *Request) Again() {
	r.Err, r.time, r.reply = nil, nil, nil
	r.number.Store(0)
}

// Number returns the number of the places that the charges take, or 0 if no script was composed. It may be called while
// r is sent.
func (r *Request) Number() int64 { return r.number.Load() }

// Denied reports whether the reply is that of a decision which was denied.
func (r *Request) Denied() bool { return len(r.reply) > 0 && r.reply[0] == int64(0) }

// Wait notes the time that r has waited before it is sent. A request that is sent again waits for longer.
func (r *Request) Wait(waited time.Duration) {
	r.waited = waited.Truncate(time.Microsecond)
	for _, t := range r.timed {
		n := max(0, t.micros-r.waited.Microseconds())
		if t.grows {
			n = min(min(t.micros, maxInteger)+r.waited.Microseconds(), maxInteger)
		}
		r.args[t.index] = integer(n)
	}
}

// MaxDelay returns the MaxDelay of the i-th charge, less the time that r has waited.
func (r *Request) MaxDelay(i int) time.Duration {
	d := r.Charges[i].MaxDelay
	if d == 0 {
		return 0
	}
	return max(1, d-r.waited) // 0 would be no bound
}

// like reports whether r and o, which have the same verb, have the same arguments.
func (r *Request) like(o *Request) bool { return slices.Equal(r.args, o.args) }

func (r *Request) sharesKey(o *Request) bool {
	return slices.ContainsFunc(r.Keys, func(key string) bool { return slices.Contains(o.Keys, key) })
}

// ErrReply is the error of a reply with a wrong format or impossible values.
var ErrReply = errors.New("the reply does not have the shape of a decision")

// Decode reads the reply. The headers of decisions.lua, take.lua and adjust.lua describe it. A reply that does not match
// the charges, or contains values that are impossible for their rules, is an error, so that it cannot admit an event.
func (r *Request) Decode() error {
	if r.Time = validInteger(r.time); r.Time <= 0 {
		return ErrReply
	}
	rest := r.reply
	next := func() int64 {
		if len(rest) == 0 {
			return -1
		}
		n := validInteger(rest[0])
		rest = rest[1:]
		return n
	}
	outcome := next()
	if r.Admitted = outcome == 1; outcome < 0 || outcome > 1 {
		return ErrReply
	}
	r.Readings, r.Found = r.Readings[:0], r.Found[:0]
	for i := range r.Charges {
		c := &r.Charges[i]
		k := &c.Rule.Constants
		a := algorithmOf(&c.Rule.Definition)
		var reported [maxReadings]int64
		for j := range a.reported(k) {
			if reported[j] = next(); reported[j] < 0 {
				return ErrReply
			}
		}
		reading, ok := a.read(*k, reported)
		if !ok || reading.Rest > int64(c.Rule.Rollover) {
			return ErrReply
		}
		if c.Op == driver.Spend && c.Rule.Kind.Holds {
			reading.Number += r.Number() - r.Time
		}
		found := (c.Op == driver.Renew || c.Op == driver.Undo) && foundPlaces(c.Rule, reported)
		r.Readings, r.Found = append(r.Readings, reading), append(r.Found, found)
	}
	if len(rest) > 0 {
		return ErrReply
	}
	return nil
}

// validInteger returns v if it is an integer that scripts report, otherwise -1.
func validInteger(v any) int64 {
	n, ok := v.(int64)
	if !ok || n < 0 || n > maxInteger {
		return -1
	}
	return n
}

// Answer sets the Verdicts, the receipts of charges that were applied, and the Costs with AtMost.
// admitted says whether all requests of the decision are admitted.
func (r *Request) Answer(admitted bool) error {
	fit := true
	if r.Charges[0].AtMost {
		driver.Reduce(r.Charges, func(i int) driver.Reading { return r.Readings[i] })
	}
	for i := range r.Charges {
		c, reading := &r.Charges[i], &r.Readings[i]
		switch {
		case c.Op == driver.Reset, c.Op == driver.Debit && c.Rule.Kind.Refills:
			// The Reading is that before the op. The verdict of a Reset says whether anything was in
			// use, and the receipt of a Debit says how much of the bucket was in use.
			c.Apply(driver.State{Time: r.Time + reading.Used.Micros, Amount: reading.Used.Frac, Debt: r.Time}, reading, r.Time)
			c.Answer(reading, false)
		default:
			asked := c.MaxDelay
			if r.waited > 0 {
				c.MaxDelay = r.MaxDelay(i)
			}
			c.Answer(reading, admitted)
			c.MaxDelay = asked
			c.Verdict.Found = c.Op == driver.Renew && r.Found[i]
			takes := c.Op == driver.Spend || c.Op == driver.Debit
			if takes && admitted && c.Verdict.Allowed {
				c.Receipt = c.Rule.Receipt(reading, r.Time, int64(c.Cost))
			}
		}
		fit = fit && (c.Verdict.Allowed || c.Rule.Shadow)
	}
	if fit != r.Admitted {
		return ErrReply // the readings contradict the outcome
	}
	return nil
}
