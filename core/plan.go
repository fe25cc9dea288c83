package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// A plan is a limit of a rule for a group of callers.
type plan struct {
	name  string
	limit driver.Definition // its limit, perhaps as the result of Rule.Divide; the rest is that of the Rule
}

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
// Other events have the limit of r. All other properties of r, such as [Rule.Shadow], apply to every
// plan, whether they are set before Plan or after it. A name consists of 1 to 64 characters of
// printable ASCII. "unknown" is reserved. A second Plan of the same name replaces the first.
//
// Plans of the same length (see [Rule]) share the state of a key: an exhausted key that changes from
// 10 to 100 a minute is still exhausted, and recovers at the new rate from then on. Plans of
// different lengths have states of their own. A caller that changes between plans therefore gains
// at most one limit for each length.
func (r Rule) Plan(name string, l Limit) Rule {
	return r.modify(func(d *definition) {
		d.plans = slices.DeleteFunc(slices.Clone(d.plans), func(p plan) bool { return p.name == name })
		d.plans = append(d.plans, plan{name, driver.Definition{Events: l.Events, Per: l.Per, Burst: l.Burst}})
	})
}

// PlanName returns the plan that the limit of r belongs to, for a Rule of a [State]. It is empty for
// the limit without a plan, and "unknown" if the Rule has plans and no rule of the limiter has that of
// the event.
func (r Rule) PlanName() string { return r.def().Definition.Plan }

// withPlan returns r with the limit of p.
func (r Rule) withPlan(p plan) Rule {
	return r.modify(func(d *definition) {
		l := p.limit
		l.Name, l.Algorithm, l.Plan = d.Name, d.Algorithm, p.name
		l.SubWindows, l.Soft, l.Shadow, l.UpTo = d.SubWindows, d.Soft, d.Shadow, d.UpTo
		d.Definition, d.plans = l, nil
	})
}

// checkPlan returns an error if r, the result of withPlan, is invalid.
func (r Rule) checkPlan() error {
	var err *RuleError
	switch name := r.d.Definition.Plan; {
	case name == "":
		return r.d.invalid("plan", "has no name")
	case name == unknownPlan:
		return r.d.invalid("plan", `cannot be called "unknown"`)
	case errors.As(r.d.err, &err) && err.Field != "plan":
		return r.d.invalid("plan", fmt.Sprintf("%q: %s %s", name, err.Field, err.Reason))
	}
	return r.d.err
}
