package core

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Rule is a named algorithm with a Limit. It is a small value that never changes: copy it freely.
// [New] returns an error for an invalid Rule, such as the zero Rule.
//
// A Store keeps the states of a Rule under its name. Rules with the same name and an equal
// definition share their states, on purpose. The same name with another definition is an
// [ErrRuleConflict]. A name consists of 1 to 64 characters of printable ASCII, and is sent to clients
// in the header field RateLimit-Policy, unless [Rule.Label] sets another name for them.
//
// The length of a window or log is its period, together with the number of sub-windows, that of an
// [InFlight] its [Rule.Hold], and that of a [Quota] its unit of the calendar, in any zone. The length of a
// bucket is the time in which it fills up: a minute for "10/m", "100/m" and "20/m burst 20", but two
// minutes for "10/m burst 20". The extra events of [Rule.Soft] count: "10/m" with 10 percent holds 11
// events, and has a length of 66 s.
//
// Limits of one length share the states of a name: the limits of its plans and variants, and those
// before and after [Limiter.Replace]. A limit of another length starts with unused states.
type Rule struct{ d *definition }

// A definition holds the fields of a Rule and the result of compiling them. It does not change.
type definition struct {
	driver.Definition
	elastic  *elastic // nil for a rule that is not elastic
	plans    []Rule   // the rule with the limit of each plan, in the order of Rule.Plan
	label    string   // the name for clients, unless it is empty
	unit     string   // the unit for clients, unless it is empty
	maxHold  time.Duration
	location *time.Location                                  // of a quota; nil for UTC
	anchor   func(ctx context.Context, key string) time.Time // of a quota; nil without anchors

	compiled *driver.Compiled // nil if err is set, and for the limits Unlimited and Blocked
	err      error            // a *RuleError

	latest *latest
}

// latest holds the objects that a definition needed last, and will probably need next.
type latest struct {
	// A Store may apply a fraction of the rule (see Divide). All decisions with that fraction share one
	// Rule.
	divided atomic.Pointer[definition]
	periods atomic.Pointer[presentPeriods]
	counter atomic.Pointer[counterOf]
}

// TokenBucket returns a rule whose bucket holds l.Burst tokens and refills continuously at l.Events
// per l.Per. A full bucket admits Burst events at once. The arithmetic is exact to the microsecond
// for any rate (ITU-T I.371, GCRA).
func TokenBucket(name string, l Limit) Rule { return newRule(name, driver.TokenBucket, l) }

// LeakyBucket returns a rule with a queue of l.Burst events that drains at l.Events per l.Per. The
// caller must delay an admitted event by its Delay. Departures are then never closer together than
// the rate allows, in all processes that share a Store. If the queue is full, the event is denied.
//
// Each departure is rounded up to the next microsecond separately, so that the rate does not drift.
func LeakyBucket(name string, l Limit) Rule { return newRule(name, driver.LeakyBucket, l) }

// FixedWindow returns a rule that admits l.Events in every window of l.Per. The windows of all keys
// begin at the multiples of l.Per since the Unix epoch, by the clock of the Store. The state is one
// small number. l.Burst must be zero or l.Events.
//
// The rule admits up to twice the limit in a span of l.Per around an edge, where one window ends
// and the next begins. If that matters, use [SlidingWindow] or [SlidingLog]. Each time that the clock
// of the Store steps back over an edge, the rule admits the limit once more.
//
//	            limit 4       edge       limit 4
//	├─────────────────────·x·x·x·x┼x·x·x·x·─────────────────────┤
//	                       └── 8 events ──┘
func FixedWindow(name string, l Limit) Rule { return newRule(name, driver.FixedWindow, l) }

// SlidingLog returns a rule that admits at most l.Events in any span of l.Per. Each admitted event
// takes 16 to 32 bytes in memory, about 7 in Redis. l.Burst must be zero or l.Events.
func SlidingLog(name string, l Limit) Rule { return newRule(name, driver.SlidingLog, l) }

// SlidingWindow returns a rule that admits at most l.Events in any span of l.Per, like
// [SlidingLog]. It counts the events of each sub-window, so it stores no more than
// [DefaultSubWindows] numbers, however large the limit is. [Rule.SubWindows] changes that number.
// l.Burst must be zero or l.Events.
//
// A sub-window is counted in full until it lies completely outside the window, so an event is
// counted for l.Per plus at most one sub-window. RetryAfter can therefore be longer than l.Per: up to
// 61 s for a limit per minute. With 60 sub-windows, the rule admits about 98.5 percent of the events
// that a [SlidingLog] admits under load, and with 10 sub-windows 91 percent.
// (Interpolation, the common alternative, admits up to twice the limit in bursts at the edges.)
func SlidingWindow(name string, l Limit) Rule { return newRule(name, driver.SlidingWindow, l) }

// DefaultSubWindows is the number of sub-windows of a [SlidingWindow] without [Rule.SubWindows].
const DefaultSubWindows = 60

func newRule(name string, a driver.Algorithm, l Limit) Rule {
	d := definition{Definition: driver.Definition{Name: name, Algorithm: a}}
	d.setLimit(l)
	switch a {
	case driver.SlidingWindow:
		d.SubWindows = DefaultSubWindows
	case driver.InFlight:
		d.Hold = DefaultHold
	}
	return d.rule()
}

// rule compiles d, and returns it as a Rule.
func (d definition) rule() Rule {
	d.latest = new(latest)
	d.Text = d.text()
	if d.err = cmp.Or(d.checkTexts(), d.checkHold(), d.checkCalendar()); d.err != nil {
		d.compiled = nil
		return Rule{&d}
	}
	if !d.limit().counts() {
		limited := d // checks everything except the limit
		limited.setLimit(Limit{Events: 1, Per: time.Second})
		switch d.Algorithm {
		case driver.InFlight:
			limited.setLimit(Limit{Events: 1})
		case driver.Quota:
			limited.setLimit(Daily(1))
		}
		d.compiled, d.err = nil, limited.rule().d.err
		return Rule{&d}
	}
	if d.compiled, d.err = d.Compile(); d.err == nil && d.elastic != nil {
		d.compileSteps()
	}
	return Rule{&d}
}

// ruleOf returns the Rule of c, which is the compiled form of r, of an equal limit of another plan,
// or of a fraction of r.
func (r Rule) ruleOf(c *driver.Compiled) Rule {
	if c == r.d.compiled {
		return r
	}
	k := r.d.compiled.Constants
	if k.Periods = c.Constants.Periods; c.Constants == k {
		return r
	}
	known := r.d.latest.divided.Load()
	if known == nil || known.compiled != c {
		known = &definition{
			Definition: c.Definition, label: r.d.label, unit: r.d.unit, maxHold: r.d.maxHold,
			location: r.d.location, anchor: r.d.anchor, compiled: c, latest: new(latest),
		}
		r.d.latest.divided.Store(known)
	}
	return Rule{known}
}

// noRule is the definition of the zero Rule.
var noRule = definition{err: &RuleError{
	Field: "algorithm", Reason: "is none: make rules with TokenBucket, SlidingLog and the like", Category: ErrInvalidRule,
}}

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

// Name returns the name of r.
func (r Rule) Name() string { return r.def().Name }

// Algorithm returns the algorithm of r. Its String is "token_bucket", "leaky_bucket",
// "fixed_window", "sliding_log", "sliding_window", "in_flight" or "quota".
func (r Rule) Algorithm() driver.Algorithm { return r.def().Algorithm }

// Limit returns the limit of r. For a Rule of a [State], it is the limit that was in force.
func (r Rule) Limit() Limit { return r.def().limit() }

// Capacity returns the burst of a bucket, the events of a window or log, or the places of an [InFlight].
// It ignores [Rule.Soft], and leaves out the part of a [Rule.Headroom].
// The capacity is [math.MaxInt] if the limit is [Unlimited], and 0 if it is [Blocked].
func (r Rule) Capacity() int {
	switch d := r.def(); d.limit() {
	case Unlimited:
		return math.MaxInt
	case Blocked:
		return 0
	default:
		if d.Definition.Headroom > 0 && d.compiled != nil {
			return int(d.compiled.Constants.Capacity)
		}
		return cmp.Or(d.Burst, d.Events)
	}
}

// String describes r for logs: `token_bucket "second" 10/s`.
func (r Rule) String() string { return r.def().text() }

func (r *definition) text() string {
	return fmt.Sprintf("%s %q %s%s", r.Algorithm, r.Name, r.limit(), r.modifiers())
}
