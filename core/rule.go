package core

import (
	"fmt"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
)

// A Rule is a named algorithm with a Limit. It is a small value that never changes: copy
// it freely. [New] reports the faults of a Rule. The zero Rule is none, and New refuses it.
//
// The name is the namespace of the Rule's state on a Store: Rules that were made alike are the
// same Rule there and share their state, on purpose. (Only copies of one Rule are equal by ==.)
// The same name with another definition is an [ErrRuleConflict]. A name is 1 to 64 characters
// of printable ASCII, and it is sent to clients in the RateLimit-Policy field.
type Rule struct{ d *definition }

// A definition is a Rule with all that follows from it. It does not change once it is a Rule.
type definition struct {
	driver.Definition
	elastic *elastic // nil for a limit that stands still

	compiled *driver.Compiled
	err      error // a *RuleError; compiled is nil then

	// divided is the Rule of the part of compiled that a Store has applied last, so that the
	// same Rule is in all States.
	divided *atomic.Pointer[definition]
}

// TokenBucket is a rule whose bucket holds l.Burst events and refills
// continuously at l.Events per l.Per. A full bucket admits Burst events at once.
//
// It is exact to the microsecond for any rate (ITU-T I.371, GCRA).
func TokenBucket(name string, l Limit) Rule {
	return newRule(name, driver.TokenBucket, l)
}

// LeakyBucket is a queue of l.Burst events that drains at l.Events per l.Per. An
// event that is admitted carries a Delay, after which it may go; departures are
// never closer than the rate, across all servers of a Store. An event that finds
// the queue full is denied.
//
// The departures of events with times that do not fall on a microsecond are
// rounded up to one, each by itself, so that the rate does not drift.
func LeakyBucket(name string, l Limit) Rule {
	return newRule(name, driver.LeakyBucket, l)
}

// FixedWindow is a rule that admits l.Events in every window of l.Per, counted
// from the Unix epoch by the Store's clock. Its state is one small number, and
// all clients start afresh at the same moments.
//
// It admits up to twice the limit in a span of l.Per that lies across an edge:
//
//	            limit 4       edge       limit 4
//	├─────────────────────·x·x·x·x┼x·x·x·x·─────────────────────┤
//	                       └── 8 events ──┘
//
// Where that matters, use [SlidingWindow] or [SlidingLog]. l.Burst must be zero
// or l.Events.
func FixedWindow(name string, l Limit) Rule {
	return newRule(name, driver.FixedWindow, l)
}

// SlidingLog is a rule that admits at most l.Events in any span of l.Per. It
// remembers every admitted event, and only those: 16 to 32 bytes each in
// memory, about 7 in Redis. l.Burst must be zero or l.Events.
func SlidingLog(name string, l Limit) Rule {
	return newRule(name, driver.SlidingLog, l)
}

// SlidingWindow is a rule that admits at most l.Events in any span of l.Per, like
// [SlidingLog], and remembers no more than [DefaultSubWindows] numbers, however
// large the limit is: it counts the events of sub-windows.
//
// The oldest sub-window counts in full until all of it has left. So an event
// counts for l.Per and up to one sub-window more: with 60 sub-windows the rule is
// too strict by 1/60 of l.Per at most: under load it admits 98.5 percent of what a
// [SlidingLog] would, and 91 percent with 10 sub-windows, measured. (To
// interpolate, as is often done, admits up to twice the limit to a client that
// bursts at the edges.) [Rule.SubWindows] changes their number. l.Burst must be
// zero or l.Events.
func SlidingWindow(name string, l Limit) Rule {
	return newRule(name, driver.SlidingWindow, l)
}

// DefaultSubWindows is the number of sub-windows of a [SlidingWindow] that [Rule.SubWindows]
// has not changed.
const DefaultSubWindows = 60

func newRule(name string, a driver.Algorithm, l Limit) Rule {
	d := definition{Definition: driver.Definition{Name: name, Algorithm: a}}
	d.setLimit(l)
	if a == driver.SlidingWindow {
		d.SubWindows = DefaultSubWindows
	}
	return d.rule()
}

// rule returns the Rule of d, which it compiles.
func (d definition) rule() Rule {
	d.divided = new(atomic.Pointer[definition])
	d.Text = d.text()
	if d.compiled, d.err = d.Compile(); d.err == nil && d.elastic != nil {
		d.stretch()
	}
	return Rule{&d}
}

// as returns the Rule of c, which is that of r or a part of it that a Store has applied.
func (r Rule) as(c *driver.Compiled) Rule {
	if c == r.d.compiled {
		return r
	}
	known := r.d.divided.Load()
	if known == nil || known.compiled != c {
		known = &definition{Definition: c.Definition(), compiled: c}
		r.d.divided.Store(known)
	}
	return Rule{known}
}

// noRule is the definition of the zero Rule.
var noRule = definition{err: &RuleError{
	Field: "algorithm", Reason: "is none: make rules with TokenBucket, SlidingLog and the like", Category: ErrInvalidRule,
}}

// def returns the definition of r.
func (r Rule) def() *definition {
	if r.d == nil {
		return &noRule
	}
	return r.d
}

func (r *definition) limit() Limit { return Limit{Events: r.Events, Per: r.Per, Burst: r.Burst} }

func (r *definition) setLimit(l Limit) { r.Events, r.Per, r.Burst = l.Events, l.Per, l.Burst }

func (r *definition) invalid(field, reason string) *RuleError {
	return &RuleError{Rule: r.Name, Field: field, Reason: reason, Category: ErrInvalidRule}
}

// Name is the rule's name.
func (r Rule) Name() string { return r.def().Name }

// Algorithm is how the rule counts. Its String is "token_bucket", "leaky_bucket",
// "fixed_window", "sliding_log" or "sliding_window".
func (r Rule) Algorithm() driver.Algorithm { return r.def().Algorithm }

// Limit is the limit. Of a Rule in a [State], it is the limit that was in force.
func (r Rule) Limit() Limit { return r.def().limit() }

// Capacity is the limit itself: the burst of a bucket, the events of a window or
// log. A [Rule.Soft] rule admits more at once.
func (r Rule) Capacity() int { return r.def().limit().capacity() }

// Compiled is the rule as stores have it, and nil if [New] would refuse it. An application
// does not need it.
func (r Rule) Compiled() *driver.Compiled { return r.def().compiled }

// String is the rule as a text for logs: `token_bucket "second" 10/s`.
func (r Rule) String() string { return r.def().text() }

func (r *definition) text() string {
	return fmt.Sprintf("%s %q %s%s", r.Algorithm, r.Name, r.limit(), r.modifiers())
}
