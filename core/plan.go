package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// unknownPlan is the plan of the rules that apply to callers with a plan that no rule has.
const unknownPlan = "unknown"

// Plan returns a copy of r with the limit l for the callers of a plan, such as paying customers:
//
//	core.TokenBucket("api", core.PerMinute(10)).
//		Plan("pro", core.PerMinute(100)).
//		Plan("staff", core.Unlimited).
//		Plan("banned", core.Blocked)
//
// [Limiter.Plan], the field Plan of an [Ask] and the option gate.Plan choose the plan of an event.
// Other events have the limit of r. All other properties of r, such as [Rule.Shadow], apply to
// every plan, whether they are set before Plan or after it. A name consists of 1 to 64 characters
// of printable ASCII. "unknown" is reserved. A second Plan of the same name replaces the first.
//
// If an application has a name for the limit of r, too, such as "free", add it with the same limit.
// Otherwise "free" is an unknown plan (see [Limiter.Plan]).
//
// Plans of the same length (see [Rule]) share the state of a key. If a key that has used 10 of 10 a
// minute changes to 100 a minute, a window or log has 90 left at once. A bucket keeps the part that
// is used: an exhausted bucket is still exhausted, and refills at the new rate. Plans of different
// lengths have states of their own. A caller that changes between plans therefore gains at most one
// limit for each length.
//
// If callers with several plans share a key, a plan with a smaller limit leaves the difference to
// the others in a window or log: after 8 events of a plan "sheddable" with 8 a minute, a plan with 10 a
// minute has 2 left. A bucket leaves nothing, because the plans share the part that is used: once
// "sheddable" has used 8 of 8, nothing is left for any plan. [Rule.Headroom] leaves a part in every algorithm.
func (r Rule) Plan(name string, l Limit) Rule {
	if r.d == nil {
		return r
	}
	d, planned := *r.d, *r.d
	planned.plans = nil
	// This omits the length that a part of r has inherited (see Divide), which is not that of l.
	planned.Definition = driver.Definition{
		Name: d.Name, Algorithm: d.Algorithm, Plan: name, SubWindows: d.SubWindows, Soft: d.Soft, Shadow: d.Shadow, UpTo: d.UpTo,
		Hold: d.Definition.Hold,
	}
	planned.setLimit(l)
	d.plans = slices.DeleteFunc(slices.Clone(d.plans), func(p Rule) bool { return p.PlanName() == name })
	d.plans = append(d.plans, planned.rule())
	return d.rule()
}

// Headroom returns a copy of r in which the callers of a plan leave percent of their limit to all others:
// after
//
//	core.TokenBucket("api", core.PerMinute(100)).Headroom("sheddable", 20)
//
// a caller of the plan "sheddable" is admitted while more than 20 of the 100 tokens are left, and all other
// callers until none is. It is for callers that share a key, such as the interactive requests and the batch
// jobs of a customer. The limit of the plan is that of [Rule.Plan], or that of r if it has none. percent is
// 0 to 99, and 0 removes the headroom. At least one event remains to the plan. Its State, its header fields
// and its RetryAfter are about the part that it may use: q=80, and Remaining 0 when 80 are used. Only
// [State.Limit] is the whole limit. A plan of another length (see [Rule]) has a state of its own, and
// leaves nothing to the others. [Rule.Soft] does not apply to the plan.
func (r Rule) Headroom(plan string, percent float64) Rule {
	if r.d == nil {
		return r
	}
	has := func(p Rule) bool { return p.PlanName() == plan }
	if !slices.ContainsFunc(r.d.plans, has) {
		r = r.Plan(plan, r.Limit())
	}
	d := *r.d
	d.plans = slices.Clone(d.plans)
	i := slices.IndexFunc(d.plans, has)
	d.plans[i] = d.plans[i].modify(func(p *definition) { p.Definition.Headroom = percent })
	return d.rule()
}

// HeadroomPercent returns the [Rule.Headroom] of r, one of the [Rule.Plans] of a rule.
func (r Rule) HeadroomPercent() float64 { return r.def().Definition.Headroom }

// Plans returns r with the limit of each plan, in the order of [Rule.Plan]. Their [Rule.PlanName] is the
// name of the plan.
func (r Rule) Plans() []Rule { return slices.Clone(r.def().plans) }

// PlanName returns the plan that the limit of r belongs to, for a Rule of a [State]. It is empty
// for the limit without a plan. If the event has a plan that no rule of the limiter has, PlanName
// is "unknown" for every rule that has plans.
func (r Rule) PlanName() string { return r.def().Definition.Plan }

// checkPlan returns an error if r, the rule of a plan, is invalid.
func (r Rule) checkPlan() error {
	var err *RuleError
	switch name := r.PlanName(); {
	case name == "":
		return r.d.invalid("plan", "has no name")
	case name == unknownPlan:
		return r.d.invalid("plan", `cannot be called "unknown"`)
	case errors.As(r.d.err, &err) && err.Field != "plan":
		return r.d.invalid("plan", fmt.Sprintf("%q: %s %s", name, err.Field, err.Reason))
	}
	return r.d.err
}

// withUnknownPlan returns r for callers whose plan is unknown.
func (r Rule) withUnknownPlan() Rule {
	return r.modify(func(d *definition) { d.Definition.Plan, d.plans = unknownPlan, nil })
}
