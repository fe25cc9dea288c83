package core

import (
	"cmp"
	"math"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// A Rule is a named algorithm with a Limit. It is a small value that never changes: copy it freely. Its
// methods that return a Rule return a copy with a change, and all others read it. [New] returns an error for
// an invalid Rule, such as the zero Rule.
//
// A Store keeps the states of a Rule under its name. Rules with the same name and an equal definition share
// their states, on purpose. Two limiters on one Store of a process with the same name and another definition
// are an [ErrRuleConflict]. A name consists of 1 to 64 characters of printable ASCII, and is sent to clients
// in the header field RateLimit-Policy, unless [Spec.Label] is another name for them.
//
// The length of a window or log is its period, together with the number of sub-windows, that of an
// [InFlight] its [Spec.Hold], and that of a [Quota] its unit of the calendar, in any zone. The length of a
// bucket is the time in which it fills up: a minute for "10/m", "100/m" and "20/m burst 20", but two
// minutes for "10/m burst 20". The extra events of [Spec.Soft] count: "10/m" with 10 percent holds 11
// events, and has a length of 66 s.
//
// Limits of one length share the states of a name: the limits of its plans and variants, and those
// before and after [Limiter.Replace]. A limit of another length starts with unused states, except for a bucket
// after [Limiter.Replace].
type Rule struct{ d *definition }

// NewRule returns the rule that s describes. It copies the Plans, and fills in the defaults. It does not check
// s: [New], [Limiter.Variant] and [Limiter.Replace] do.
func NewRule(s Spec) Rule {
	s.complete()
	s.Plans = slices.Clone(s.Plans)
	return Rule{newDefinition(s)}
}

// An Algorithm defines how a rule counts events: see the function of the same name, such as [TokenBucket].
// Its String is "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window", "in_flight",
// "quota" or "pause". The zero Algorithm is invalid.
type Algorithm = driver.Algorithm

// The algorithms.
const (
	AlgorithmTokenBucket   = driver.TokenBucket
	AlgorithmLeakyBucket   = driver.LeakyBucket
	AlgorithmFixedWindow   = driver.FixedWindow
	AlgorithmSlidingLog    = driver.SlidingLog
	AlgorithmSlidingWindow = driver.SlidingWindow
	AlgorithmInFlight      = driver.InFlight
	AlgorithmQuota         = driver.Quota
	AlgorithmPause         = driver.Pause
)

// TokenBucket returns a rule whose bucket holds l.Burst tokens and refills continuously at l.Events
// per l.Per. A full bucket admits Burst events at once. The arithmetic is exact to the microsecond
// for any rate (ITU-T I.371, GCRA).
func TokenBucket(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.TokenBucket, Limit: l})
}

// LeakyBucket returns a rule with a queue of l.Burst events that drains at l.Events per l.Per. The
// caller must delay an admitted event by its Delay. Departures are then never closer together than
// the rate allows, in all processes that share a Store. If the queue is full, the event is denied.
//
// Each departure is rounded up to the next microsecond separately, so that the rate does not drift.
func LeakyBucket(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.LeakyBucket, Limit: l})
}

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
//
// With [Rule.FromFirst], the window of a key begins with its first event.
func FixedWindow(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.FixedWindow, Limit: l})
}

// SlidingLog returns a rule that admits at most l.Events in any span of l.Per. Each admitted event
// takes 16 to 32 bytes in memory, about 7 in Redis. l.Burst must be zero or l.Events.
func SlidingLog(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.SlidingLog, Limit: l})
}

// SlidingWindow returns a rule that admits at most l.Events in any span of l.Per, like
// [SlidingLog]. It counts the events of each sub-window, so it stores no more than 60 numbers, however
// large the limit is. [Spec.SubWindows] is another number. l.Burst must be zero or l.Events.
//
// A sub-window is counted in full until it lies completely outside the window, so an event is
// counted for l.Per plus at most one sub-window. RetryAfter can therefore be longer than l.Per: up to
// 61 s for a limit per minute. With 60 sub-windows, the rule admits about 98.5 percent of the events
// that a [SlidingLog] admits under load, and with 10 sub-windows 91 percent.
// (Interpolation, the common alternative, admits up to twice the limit in bursts at the edges.)
func SlidingWindow(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.SlidingWindow, Limit: l})
}

// noRule is the definition of the zero Rule.
var noRule = newDefinition(Spec{})

func (r Rule) def() *definition {
	if r.d == nil {
		return noRule
	}
	return r.d
}

// with returns a copy of r after change. It returns the zero Rule unchanged.
func (r Rule) with(change func(*Spec)) Rule {
	if r.d == nil {
		return r
	}
	s := r.completeSpec()
	change(&s)
	return Rule{newDefinition(s)}
}

// forPlan returns r with its limit for the callers of a plan, which is r if it does not have the plan.
func (r Rule) forPlan(plan string) Rule {
	if i := r.d.spec.indexOf(plan); i >= 0 {
		return Rule{r.d.ofPlan(i)}
	}
	if plan == unknownPlan && len(r.d.spec.Plans) > 0 {
		return Rule{r.d.ofUnknown()}
	}
	return r
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
	known := r.d.divided.Load()
	if known == nil || known.compiled != c {
		p := r.d.plan
		p.Limit = limitOf(&c.Definition)
		known = &definition{spec: r.d.spec, plan: p, compiled: c}
		r.d.divided.Store(known)
	}
	return Rule{known}
}

// Kind returns the facts about the algorithm of r. The Kind of an invalid rule has none.
func (r Rule) Kind() *driver.Kind { return r.def().spec.kind() }

func holds(r Rule) bool  { return r.Kind().Holds }
func closes(r Rule) bool { return r.Kind().Closes }

// Spec returns the description of r. Its Plans are a copy. For a Rule of a [State], the Limit is the one
// that was in force. If it is that of a plan, Plans contains only this plan. If Spare had changed it, Spare
// and UpTo are zero.
func (r Rule) Spec() Spec {
	s := r.completeSpec()
	if r.Kind().Closes && s.Limit == Unlimited {
		s.Limit = Limit{}
	}
	return s
}

// completeSpec is Spec with the limit Unlimited of a Pause.
func (r Rule) completeSpec() Spec {
	d := r.def()
	s := *d.spec
	s.Limit = d.plan.Limit
	switch d.plan.Name {
	case "":
		s.Plans = slices.Clone(s.Plans)
	case unknownPlan:
		s.Plans = nil
	default:
		s.Plans = []Plan{d.plan}
	}
	return s
}

// Name returns the name of r.
func (r Rule) Name() string { return r.def().spec.Name }

// Algorithm returns the algorithm of r.
func (r Rule) Algorithm() Algorithm { return r.def().spec.Algorithm }

// Limit returns the limit of r. For a Rule of a [State], it is the limit that was in force.
func (r Rule) Limit() Limit {
	l := r.def().plan.Limit
	l.part = nil
	return l
}

// IsShadow reports whether r has [Spec.Shadow].
func (r Rule) IsShadow() bool { return r.def().spec.Shadow }

// PlanName returns the plan that the limit of r belongs to, for a Rule of a [State]. It is empty
// for the limit without a plan. If the event has a plan that no rule of the limiter has, PlanName
// is "unknown" for every rule that has plans.
func (r Rule) PlanName() string { return r.def().plan.Name }

// Capacity returns the burst of a bucket, the events of a window or log, or the places of an [InFlight].
// It ignores [Spec.Soft], and leaves out the part of a [Plan.Headroom].
// The capacity is [math.MaxInt] if the limit is [Unlimited], and 0 if it is [Blocked].
func (r Rule) Capacity() int {
	switch d, l := r.def(), r.Limit(); l {
	case Unlimited:
		return math.MaxInt
	case Blocked:
		return 0
	default:
		if c := d.compiled; c != nil {
			return int(c.Constants.Capacity - c.Constants.Extra)
		}
		return cmp.Or(l.Burst, l.Events)
	}
}

// String describes r for logs: `token_bucket "second" 10/s`.
func (r Rule) String() string { return r.def().spec.text(&r.def().plan) }
