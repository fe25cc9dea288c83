package core

import (
	"fmt"

	"github.com/weir-go/weir/core/internal/algo"
)

// An Algorithm names how a Rule counts.
type Algorithm uint8

// The algorithms. The zero Algorithm is none.
const (
	AlgorithmTokenBucket   = Algorithm(algo.KindTokenBucket)
	AlgorithmSlidingLog    = Algorithm(algo.KindSlidingLog)
	AlgorithmLeakyBucket   = Algorithm(algo.KindLeakyBucket)
	AlgorithmFixedWindow   = Algorithm(algo.KindFixedWindow)
	AlgorithmSlidingWindow = Algorithm(algo.KindSlidingWindow)
)

var algorithmNames = [...]string{
	"none",
	AlgorithmTokenBucket:   "token_bucket",
	AlgorithmSlidingLog:    "sliding_log",
	AlgorithmLeakyBucket:   "leaky_bucket",
	AlgorithmFixedWindow:   "fixed_window",
	AlgorithmSlidingWindow: "sliding_window",
}

// String is the name used in configuration: "token_bucket", "leaky_bucket",
// "fixed_window", "sliding_log" or "sliding_window".
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return "none"
}

// A Rule is a named algorithm with a Limit. It is a small value that never changes: copy
// it freely. Copies of one Rule are equal (==), and two Rules that were made alike are not.
// [New] reports the faults of a Rule. The zero Rule is none, and New refuses it.
//
// The name is the namespace of the Rule's state on a Store: two Limiters with
// the same Rule share it, on purpose. It is 1 to 64 characters of printable
// ASCII, and it is sent to clients in the RateLimit-Policy field.
type Rule struct{ d *definition }

// A definition is a Rule with all that follows from it. It does not change after compile.
type definition struct {
	name      string
	limit     Limit
	algorithm Algorithm
	id        uint64

	subWindows int
	soft       float64 // percent
	shadow     bool
	elastic    *elastic // nil for a limit that stands still

	program algo.Program
	err     *RuleError
}

// maxName keeps a Redis key, of which the name is a part, within 128 bytes.
const maxName = 64

// TokenBucket is a rule whose bucket holds l.Burst events and refills
// continuously at l.Events per l.Per. A full bucket admits Burst events at once.
//
// It runs in the virtual-scheduling form of ITU-T I.371 (GCRA), which is exact
// to the microsecond for any rate.
func TokenBucket(name string, l Limit) Rule {
	return newRule(name, AlgorithmTokenBucket, l)
}

// LeakyBucket is a queue of l.Burst events that drains at l.Events per l.Per. An
// event that is admitted carries a Delay, after which it may go; departures are
// never closer than the rate, across all servers of a Store. An event that finds
// the queue full is denied.
//
// The departures of events with times that do not fall on a microsecond are
// rounded up to one, each by itself, so that the rate does not drift.
func LeakyBucket(name string, l Limit) Rule {
	return newRule(name, AlgorithmLeakyBucket, l)
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
	return newRule(name, AlgorithmFixedWindow, l)
}

// SlidingLog is a rule that admits at most l.Events in any span of l.Per. It
// remembers every admitted event, and only those: 16 to 32 bytes each in
// memory, about 7 in Redis. l.Burst must be zero or l.Events.
func SlidingLog(name string, l Limit) Rule {
	return newRule(name, AlgorithmSlidingLog, l)
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
	return made(definition{name: name, algorithm: AlgorithmSlidingWindow, limit: l, subWindows: DefaultSubWindows})
}

// The number of sub-windows of a [SlidingWindow]. A decision with a cost above one
// may have to read all of them, a refund to write all of them. With MaxSubWindows
// that takes Redis 0.1 to 0.2 ms, and the state stays in the compact form that Redis
// gives to hashes of up to 128 fields. 120 sub-windows are half a second each of a
// minute, half a minute each of an hour.
const (
	DefaultSubWindows = 60
	MaxSubWindows     = 120
)

func (l Limit) capacity() int {
	if l.Burst == 0 {
		return l.Events
	}
	return l.Burst
}

func newRule(name string, a Algorithm, l Limit) Rule {
	return made(definition{name: name, algorithm: a, limit: l})
}

// made is the Rule of d, which it compiles.
func made(d definition) Rule {
	d.compile()
	return Rule{&d}
}

var noRule definition

// def is the definition of r, which is empty for the zero Rule.
func (r Rule) def() *definition {
	if r.d == nil {
		return &noRule
	}
	return r.d
}

// compile works out all that follows from what the rule was given.
func (r *definition) compile() {
	r.id = ruleID(r.algorithm, r.name)
	r.program = algo.Program{Kind: algo.Kind(r.algorithm)}
	if r.err = r.check(); r.err != nil {
		return
	}
	period, err := algo.Micros(r.limit.Per)
	if err != nil {
		r.err = r.invalid("per", err.Error())
		return
	}
	if err := r.program.Compile(r.shape(period)); err != nil {
		r.err = r.invalid("limit", err.Error())
		return
	}
	r.stretch()
}

// shape is the rule in the numbers of package algo.
func (r *definition) shape(period int64) algo.Shape {
	capacity := int64(r.limit.capacity())
	return algo.Shape{
		Events:     int64(r.limit.Events),
		Period:     period,
		Capacity:   capacity,
		Extra:      share(capacity, r.soft),
		SubWindows: int64(r.subWindows),
	}
}

// check finds what is wrong with what the rule was given.
func (r *definition) check() *RuleError {
	switch l := r.limit; {
	case r.name == "":
		return r.invalid("name", "is empty")
	case len(r.name) > maxName:
		return r.invalid("name", fmt.Sprintf("is %d bytes long, more than %d", len(r.name), maxName))
	case l == Limit{}:
		return r.invalid("limit", "is zero")
	case l.Events <= 0:
		return r.invalid("events", fmt.Sprintf("is %d, not positive", l.Events))
	case l.Per <= 0:
		return r.invalid("per", fmt.Sprintf("is %v, not positive", l.Per))
	case l.Burst < 0:
		return r.invalid("burst", fmt.Sprintf("is %d, negative", l.Burst))
	case !r.isBucket() && l.capacity() != l.Events:
		return r.invalid("burst", "has a meaning for buckets only: leave it zero")
	}
	for i := range len(r.name) {
		if c := r.name[i]; c < 0x20 || c > 0x7e {
			return r.invalid("name", "is not printable ASCII, so it cannot be sent in a RateLimit field")
		}
	}
	return r.checkModifiers()
}

func (r *definition) isBucket() bool {
	return r.algorithm == AlgorithmTokenBucket || r.algorithm == AlgorithmLeakyBucket
}

func (r *definition) invalid(field, reason string) *RuleError {
	return &RuleError{Rule: r.name, Field: field, Reason: reason, category: ErrInvalidRule}
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

// Name is the rule's name.
func (r Rule) Name() string { return r.def().name }

// Algorithm is how the rule counts.
func (r Rule) Algorithm() Algorithm { return r.def().algorithm }

// Limit is the limit as it was given.
func (r Rule) Limit() Limit { return r.def().limit }

// Capacity is the limit itself: the burst of a bucket, the events of a window or
// log. A [Rule.Soft] rule admits more at once.
func (r Rule) Capacity() int { return r.def().limit.capacity() }

// ID is a hash of the algorithm and the name, the same in every process. State
// of rules with different IDs must be kept apart.
func (r Rule) ID() uint64 { return r.def().id }

// Program is the rule compiled for the stores of this module.
func (r Rule) Program() *algo.Program { return &r.def().program }

// String is the rule as a text for logs: `token_bucket "second" 10/s`.
func (r Rule) String() string {
	d := r.def()
	return fmt.Sprintf("%s %q %s%s", d.algorithm, d.name, d.limit, d.modifiers())
}

func (r *definition) same(o *definition) bool {
	return r.algorithm == o.algorithm && r.limit.Events == o.limit.Events &&
		r.limit.Per == o.limit.Per && r.limit.capacity() == o.limit.capacity() && r.sameModifiers(o)
}
