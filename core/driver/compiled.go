package driver

import (
	"fmt"
	"sync/atomic"
)

// A Compiled is a rule with its constants in exact integers, made by [Definition.Compile]. It never
// changes, is not to be copied, and is safe for concurrent use.
type Compiled struct {
	definition Definition
	id         uint64
	engine     engine
	constants  Constants
	divided    atomic.Pointer[division] // the latest
}

// A division is the part of a rule for one of n processes.
type division struct {
	n    int
	part *Compiled
}

// Constants are the numbers of an algorithm, for a store that runs it elsewhere. Two rules of the
// same Algorithm and Constants admit the same.
type Constants struct {
	Algorithm Algorithm
	Capacity  int64 // the largest cost that is ever admitted, with what a soft limit lets through
	Extra     int64 // how much of it is beyond the limit itself

	// Of a bucket: one event, and all that the bucket holds, as the time in which they refill.
	// Fractions are in parts of Denominator.
	Unit, Full  Span
	Denominator int64

	// Of a window or log.
	Period    int64 // in microseconds
	SubWindow int64 // in microseconds; 1 of a SlidingLog, and zero of a FixedWindow
}

// A Span is Micros microseconds and Frac parts of one; how many parts are a microsecond is the
// Denominator of the rule that it belongs to.
type Span struct{ Micros, Frac int64 }

// Never is the time in microseconds, or in nanoseconds, that never comes: the RetryAfter of a cost
// that can never be admitted, and a delay without a bound.
const Never = 1<<63 - 1

func newCompiled(d Definition, e engine) *Compiled {
	k := e.constants()
	k.Algorithm = d.Algorithm
	return &Compiled{definition: d, id: ruleID(d.Algorithm, d.Name), engine: e, constants: k}
}

// ruleID is the FNV-1a hash of the algorithm and the name.
func ruleID(a Algorithm, name string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := (offset ^ uint64(a)) * prime
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	return h
}

// ID is a hash of the algorithm and the name, the same in every process. States of rules with
// different IDs must be kept apart; two rules of one ID share a State.
func (c *Compiled) ID() uint64 { return c.id }

// Name is the rule's name.
func (c *Compiled) Name() string { return c.definition.Name }

// Algorithm is how the rule counts.
func (c *Compiled) Algorithm() Algorithm { return c.definition.Algorithm }

// Shadow says whether the rule does not count for decisions.
func (c *Compiled) Shadow() bool { return c.definition.Shadow }

// Definition returns the definition that was compiled.
func (c *Compiled) Definition() Definition { return c.definition }

// Constants returns the numbers of the algorithm.
func (c *Compiled) Constants() Constants { return c.constants }

// Equivalent says whether c and o admit the same: they have the same Constants.
func (c *Compiled) Equivalent(o *Compiled) bool { return c == o || c.constants == o.constants }

// Capacity is the largest cost that the rule can ever admit at once.
func (c *Compiled) Capacity() int64 { return c.constants.Capacity }

// Divide returns the rule for one of n processes: see [Definition.Divide]. It remembers the result
// for the latest n, so that a store can call it for every charge.
func (c *Compiled) Divide(n int) *Compiled {
	if n < 2 {
		return c
	}
	latest := c.divided.Load()
	if latest != nil && latest.n == n {
		return latest.part
	}
	d := division{n, c}
	if _, part := c.definition.divide(n); part != nil {
		d.part = part
	}
	if !c.divided.CompareAndSwap(latest, &d) {
		return c.Divide(n) // another goroutine has divided c meanwhile
	}
	return d.part
}

// String is the rule as a text for messages.
func (c *Compiled) String() string {
	if d := &c.definition; d.Text == "" {
		return fmt.Sprintf("%s %q of %d in %v, burst %d", d.Algorithm, d.Name, d.Events, d.Per, d.capacity())
	}
	return c.definition.Text
}

// Slack is how long a bucket may still have to refill, in microseconds, for one more event to fit.
// For other algorithms it is zero.
func (c *Compiled) Slack() int64 { return c.constants.Full.Micros - c.constants.Unit.Micros }

// Price is how long a bucket takes to refill n events, for any n that is not negative. It is at
// most a microsecond more than [Horizon], which no bucket holds. For other algorithms it is zero.
func (c *Compiled) Price(n int64) Span {
	if b, ok := c.engine.(*bucket); ok {
		return b.price(n)
	}
	return Span{}
}

// Read returns the meaning of s at now for a charge of cost. It changes nothing.
func (c *Compiled) Read(s State, now, cost int64) (r Reading) {
	c.read(&r, s, now, cost)
	return r
}

// ExpiresAt returns the time from which on s means the same as the zero State, and zero for the
// zero State, which need not be stored. A Store may forget s then; where it counts whole seconds,
// it rounds up.
func (c *Compiled) ExpiresAt(s State) int64 { return c.engine.expiresAt(s) }

// Verdict returns the answer at r to a Spend of cost that may be held for maxDelay microseconds;
// spent says whether it was taken, and is ignored if it does not fit.
func (c *Compiled) Verdict(r Reading, cost, maxDelay int64, spent bool) Verdict {
	var v Verdict
	v.set(c, &r, cost, maxDelay, spent)
	return v
}

// Keep returns the receipt of a charge of which cost stays when the rest is undone.
func (c *Compiled) Keep(m Receipt, cost int64) Receipt {
	if b, ok := c.engine.(*bucket); ok {
		return b.keep(m, cost)
	}
	return m
}
