package core

import (
	"cmp"
	"context"
	"slices"
	"time"
)

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
// so that n processes together never admit more than r. The same holds for places and quotas. But each process admits at least one event:
// if r admits fewer than n events at once, n processes admit n. Divide returns r itself if n is
// less than 2, and if r cannot be divided, such as a soft bucket that takes decades to refill.
func (r Rule) Divide(n int) Rule {
	if n < 2 || r.def().ready() != nil {
		return r
	}
	divided := r.with(func(s *Spec) {
		s.Limit = r.d.part(n)
		for i := range s.Plans {
			s.Plans[i].Limit = (&definition{spec: r.d.ofPlans, plan: s.Plans[i]}).part(n)
		}
	})
	if divided.d.ready() != nil {
		return r
	}
	return divided
}
