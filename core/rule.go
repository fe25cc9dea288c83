package core

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

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
	if k.Periods = c.Constants.Periods; c.Constants == k && c.Events == r.d.compiled.Events {
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

// withoutLimit returns r as a rule whose limit is Unlimited, without its other properties.
func (r Rule) withoutLimit() Rule {
	known := r.d.free.Load()
	if known == nil {
		known = newDefinition(Spec{Name: r.Name(), Algorithm: r.Algorithm(), Limit: Unlimited})
		known.once.Do(func() {}) // it is never compiled
		r.d.free.Store(known)
	}
	return Rule{known}
}

// closed returns r, a Pause, as the State of a paused key has it.
func (r Rule) closed() Rule {
	known := r.d.divided.Load()
	if known == nil {
		known = &definition{spec: r.d.spec, plan: Plan{Limit: Blocked}, compiled: r.d.compiled}
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
// It ignores [Spec.Soft], and leaves out the part of a [Plan.Headroom]. The capacity of a [State] includes the
// events that have rolled over ([Spec.Rollover]).
// The capacity is [math.MaxInt] if the limit is [Unlimited], and 0 if it is [Blocked].
func (r Rule) Capacity() int {
	switch d, l := r.def(), r.Limit(); l {
	case Unlimited:
		return math.MaxInt
	case Blocked:
		return 0
	default:
		if c := d.compiled; c != nil {
			return int(c.Constants.Capacity - c.Constants.Extra - c.Constants.Rollover)
		}
		return cmp.Or(l.Burst, l.Events)
	}
}

// String describes r for logs: `token_bucket "second" 10/s`.
func (r Rule) String() string { return r.def().spec.text(&r.def().plan) }

// Soft returns a copy of r that admits events up to percent above its limit, and flags them: see [Spec.Soft].
// With 0 the limit is hard.
func (r Rule) Soft(percent float64) Rule { return r.with(func(s *Spec) { s.Soft = percent }) }

// FromFirst returns a copy of r, a [FixedWindow], in which the window of a key begins with its first event: see
// [Spec.FromFirst].
//
//	core.FixedWindow("search", core.Per(900, 15*time.Minute)).FromFirst()
func (r Rule) FromFirst() Rule { return r.with(func(s *Spec) { s.FromFirst = true }) }

// SubWindows returns a copy of r, a [SlidingWindow], with n sub-windows: see [Spec.SubWindows]. Zero is an
// error here.
func (r Rule) SubWindows(n int) Rule {
	return r.with(func(s *Spec) { s.SubWindows = cmp.Or(n, -1) }) // zero is invalid for every algorithm
}

// ByCost returns a copy of r, an [InFlight], of which an event takes as many places as its cost: see [Spec.ByCost].
//
//	core.InFlight("batch-tokens", 90_000).ByCost()
func (r Rule) ByCost() Rule { return r.with(func(s *Spec) { s.ByCost = true }) }

// Hold returns a copy of r, an [InFlight], whose places have leases of d: see [Spec.Hold]. Zero is an error
// here.
func (r Rule) Hold(d time.Duration) Rule { return r.with(func(s *Spec) { s.Hold = d }) }

// MaxHold returns a copy of r, an [InFlight], that renews no place for longer than d: see [Spec.MaxHold].
func (r Rule) MaxHold(d time.Duration) Rule { return r.with(func(s *Spec) { s.MaxHold = d }) }

// BlockFor returns a copy of r whose denials ban the key for d: see [Spec.BlockFor]. Zero is an error here.
//
//	core.SlidingWindow("api", core.PerMinute(100)).BlockFor(10 * time.Minute)
func (r Rule) BlockFor(d time.Duration) Rule {
	return r.with(func(s *Spec) { s.BlockFor = cmp.Or(d, -1) }) // zero is no ban
}

// Rollover returns a copy of r, a [Quota], of which up to max events that a key has left in a period are added to its limit
// in the next one: see [Spec.Rollover]. Zero is an error here.
//
//	core.Quota("calls", core.Monthly(1000)).Rollover(500)
func (r Rule) Rollover(max int) Rule {
	return r.with(func(s *Spec) { s.Rollover = cmp.Or(max, -1) }) // zero is no rollover
}

// In returns a copy of r, a [Quota], whose periods are those of the calendar in a place: see
// [Spec.Location]. A nil location is UTC.
func (r Rule) In(location *time.Location) Rule {
	return r.with(func(s *Spec) { s.Location = location })
}

// Anchor returns a copy of r, a [Quota], with a period of its own for each key, which begins at the time
// that f returns: see [Spec.Anchor]. A nil f removes the anchor.
func (r Rule) Anchor(f func(ctx context.Context, key string) time.Time) Rule {
	return r.with(func(s *Spec) { s.Anchor = f })
}

// Shadow returns a copy of r that is evaluated and reported but never enforced: see [Spec.Shadow].
func (r Rule) Shadow() Rule { return r.with(func(s *Spec) { s.Shadow = true }) }

// Unit returns a copy of r whose events have this name in texts for clients: see [Spec.Unit]. An empty name
// restores the default, "requests".
func (r Rule) Unit(name string) Rule { return r.with(func(s *Spec) { s.Unit = name }) }

// Elastic returns a copy of r whose limit follows the signal spare: see [Spec.Spare].
func (r Rule) Elastic(spare func() float64, upTo float64) Rule {
	return r.with(func(s *Spec) { s.Spare, s.UpTo = spare, upTo })
}

// Plan returns a copy of r with the limit l for the callers of a plan, such as paying customers: see
// [Spec.Plans]. A second Plan of the same name replaces the first, and has no headroom.
//
//	core.TokenBucket("api", core.PerMinute(10)).
//		Plan("pro", core.PerMinute(100)).
//		Plan("staff", core.Unlimited).
//		Plan("banned", core.Blocked)
func (r Rule) Plan(name string, l Limit) Rule {
	return r.with(func(s *Spec) {
		s.Plans = slices.DeleteFunc(s.Plans, func(p Plan) bool { return p.Name == name })
		s.Plans = append(s.Plans, Plan{Name: name, Limit: l})
	})
}

// Headroom returns a copy of r in which the callers of a plan leave percent of their limit to all others:
// see [Plan.Headroom]. The limit of the plan is that of [Rule.Plan], or that of r if it has none.
//
//	core.TokenBucket("api", core.PerMinute(100)).Headroom("sheddable", 20)
func (r Rule) Headroom(plan string, percent float64) Rule {
	if r.def().spec.indexOf(plan) < 0 {
		r = r.Plan(plan, r.Limit())
	}
	return r.with(func(s *Spec) { s.Plans[s.indexOf(plan)].Headroom = percent })
}

// Divide returns a copy of r with one n-th of the limit, and of the limit of each plan that r has,
// for n processes that share no Store.
//
// The rate of a bucket is divided exactly. If its events cannot be divided, the period becomes
// longer: a third of 10/s is 10/3s. Bursts, and the events of windows and logs, are rounded down,
// so that n processes together never admit more than r. The same holds for places, quotas and [Spec.Rollover]. But each process admits
// at least one event: if r admits fewer than n events at once, n processes admit n. Divide returns r itself if n is
// less than 2, and if r cannot be divided, such as a soft bucket that takes decades to refill.
func (r Rule) Divide(n int) Rule {
	if n < 2 || r.def().ready() != nil {
		return r
	}
	divided := r.with(func(s *Spec) {
		s.Limit = r.d.part(n)
		s.Rollover /= n
		for i := range s.Plans {
			s.Plans[i].Limit = (&definition{spec: r.d.ofPlans, plan: s.Plans[i]}).part(n)
		}
	})
	if divided.d.ready() != nil {
		return r
	}
	return divided
}
