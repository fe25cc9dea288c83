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

// A Rule is a named algorithm with a Limit. It is a value and never changes.
// What is wrong with it, [New] reports.
//
// The name is the namespace of the Rule's state on a Store: two Limiters with
// the same Rule share it, on purpose. It is 1 to 64 characters of printable
// ASCII, and it is sent to clients in the RateLimit-Policy field.
type Rule struct {
	name      string
	limit     Limit
	algorithm Algorithm
	id        uint64

	subWindows int
	program    algo.Program
	err        *RuleError
}

// maxName keeps a Redis key, of which the name is a part, within 128 bytes.
const maxName = 64

// TokenBucket is a rule whose bucket holds l.Burst events and refills
// continuously at l.Events per l.Per. A full bucket admits Burst events at once.
//
// It runs in the virtual-scheduling form of ITU-T I.371 (GCRA), which is exact
// to the microsecond for any rate.
func TokenBucket(name string, l Limit) Rule {
	return newRule(name, AlgorithmTokenBucket, l, func(period int64, p *algo.Program) (err error) {
		p.Bucket, err = algo.NewBucket(int64(l.Events), period, int64(l.capacity()))
		return err
	})
}

// LeakyBucket is a queue of l.Burst events that drains at l.Events per l.Per. An
// event that is admitted carries a Delay, after which it may go; departures are
// never closer than the rate, across all servers of a Store. An event that finds
// the queue full is denied.
//
// The departures of events with times that do not fall on a microsecond are
// rounded up to one, each by itself, so that the rate does not drift.
func LeakyBucket(name string, l Limit) Rule {
	return newRule(name, AlgorithmLeakyBucket, l, func(period int64, p *algo.Program) (err error) {
		p.Bucket, err = algo.NewBucket(int64(l.Events), period, int64(l.capacity()))
		p.Bucket.Queue = true
		return err
	})
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
	return windowRule(name, AlgorithmFixedWindow, l, func(period int64, p *algo.Program) (err error) {
		p.Window, err = algo.NewWindow(int64(l.Events), period)
		return err
	})
}

// SlidingLog is a rule that admits at most l.Events in any span of l.Per. It
// remembers every admitted event, and only those: about 16 bytes each in
// memory, about 7 in Redis. l.Burst must be zero or l.Events.
func SlidingLog(name string, l Limit) Rule {
	return windowRule(name, AlgorithmSlidingLog, l, func(period int64, p *algo.Program) (err error) {
		p.Log, err = algo.NewLog(int64(l.Events), period)
		return err
	})
}

// SlidingWindow is a rule that admits at most l.Events in any span of l.Per, like
// [SlidingLog], and remembers no more than [DefaultSubWindows] numbers, however
// large the limit is: it counts the events of sub-windows.
//
// The oldest sub-window counts in full until all of it has left. So an event
// counts for l.Per and up to one sub-window more: with 60 sub-windows the rule is
// too strict by 1/60 of l.Per at most, and by half of that on average. (To
// interpolate, as is often done, admits up to twice the limit to a client that
// bursts at the edges.) [Rule.SubWindows] changes their number. l.Burst must be
// zero or l.Events.
func SlidingWindow(name string, l Limit) Rule {
	return slidingWindow(name, l, DefaultSubWindows)
}

// The number of sub-windows of a [SlidingWindow].
const (
	DefaultSubWindows = 60
	MaxSubWindows     = 2048
)

// SubWindows returns r with n sub-windows, 1 to [MaxSubWindows]. More of them
// make the rule less strict and its state larger. It has no meaning for other
// algorithms than [SlidingWindow], and New then says so.
func (r Rule) SubWindows(n int) Rule {
	switch {
	case r.algorithm != AlgorithmSlidingWindow:
		r.err = r.invalid("sub-windows", "have a meaning for a sliding window only")
	case n < 1 || n > MaxSubWindows:
		r.err = r.invalid("sub-windows", fmt.Sprintf("are %d, outside 1 to %d", n, MaxSubWindows))
	default:
		return slidingWindow(r.name, r.limit, n)
	}
	return r
}

// SubWindowCount is the number of sub-windows of a [SlidingWindow], else zero.
func (r *Rule) SubWindowCount() int { return r.subWindows }

func slidingWindow(name string, l Limit, n int) Rule {
	r := windowRule(name, AlgorithmSlidingWindow, l, func(period int64, p *algo.Program) (err error) {
		p.Log, err = algo.NewCounter(int64(l.Events), period, int64(n))
		return err
	})
	r.subWindows = n
	return r
}

// windowRule is a rule that counts in windows and so has no burst.
func windowRule(name string, a Algorithm, l Limit, compile func(period int64, p *algo.Program) error) Rule {
	r := newRule(name, a, l, compile)
	if r.err == nil && l.capacity() != l.Events {
		r.err = r.invalid("burst", "has a meaning for buckets only: leave it zero")
	}
	return r
}

func (l Limit) capacity() int {
	if l.Burst == 0 {
		return l.Events
	}
	return l.Burst
}

func newRule(name string, a Algorithm, l Limit, compile func(period int64, p *algo.Program) error) Rule {
	r := Rule{name: name, limit: l, algorithm: a, id: ruleID(a, name)}
	r.program.Kind = algo.Kind(a)
	if r.err = r.check(); r.err != nil {
		return r
	}
	period, err := algo.Micros(l.Per)
	if err != nil {
		r.err = r.invalid("per", err.Error())
		return r
	}
	if err := compile(period, &r.program); err != nil {
		r.err = r.invalid("limit", err.Error())
	}
	return r
}

func (r *Rule) check() *RuleError {
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
	}
	for i := range len(r.name) {
		if c := r.name[i]; c < 0x20 || c > 0x7e {
			return r.invalid("name", "is not printable ASCII, so it cannot be sent in a RateLimit field")
		}
	}
	return nil
}

func (r *Rule) invalid(field, reason string) *RuleError {
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
func (r *Rule) Name() string { return r.name }

// Algorithm is how the rule counts.
func (r *Rule) Algorithm() Algorithm { return r.algorithm }

// Limit is the limit as it was given.
func (r *Rule) Limit() Limit { return r.limit }

// Capacity is the largest cost that the rule can admit at once: the burst of a
// bucket, the events of a log.
func (r *Rule) Capacity() int { return int(r.program.Capacity()) }

// ID is a hash of the algorithm and the name, the same in every process. State
// of rules with different IDs must be kept apart.
func (r *Rule) ID() uint64 { return r.id }

// Program is the rule compiled for the stores of this module.
func (r *Rule) Program() *algo.Program { return &r.program }

// String is the rule as a text for logs: `token_bucket "second" 10/s`.
func (r Rule) String() string {
	return fmt.Sprintf("%s %q %s", r.algorithm, r.name, r.limit)
}

func (r *Rule) sameDefinition(o *Rule) bool {
	return r.algorithm == o.algorithm && r.subWindows == o.subWindows && r.limit.Events == o.limit.Events &&
		r.limit.Per == o.limit.Per && r.limit.capacity() == o.limit.capacity()
}
