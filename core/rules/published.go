package rules

import (
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/processes"
)

// A PublishedRule is a rule of the limiters of a process on a store of package resilient, also of those in code, as the
// process has described it in Redis within a day.
type PublishedRule struct {
	Name string
	Text string    // describes the rule as core.Rule.String does
	At   time.Time // when a process has described it last, by the clock of Redis

	// Policy has the rule alone, under an empty name, so that it has the states of the program if Name is the name of the
	// policy in a [Config]. The time zone and the anchor of a quota, its unit, and limits of Choose and Variant are not
	// known, nor is the time of BlockFor, which is a second here.
	Policy Policy
	// InSet says that the rule is that of a policy in the configuration of a Set of the process, and not of a limiter in code.
	InSet bool
	// MorePlans is the number of plans of the rule that Policy does not have. It has at least one of each length.
	MorePlans int
	// Elastic is the factor of an elastic rule, whose present limit is not known, or zero.
	Elastic float64
	// Others are other descriptions of the rule by processes that run or have ended within the last three minutes, such as
	// those of another version of the program; the latest first.
	Others []PublishedRule
}

func published(r processes.Rule) PublishedRule {
	b := r.Base
	spec := core.Spec{
		Algorithm: b.Algorithm, Limit: limitOf(b), Soft: b.Soft, FromFirst: b.FromFirst, Rollover: b.Rollover, SubWindows: b.SubWindows, Hold: b.Hold, ByCost: b.ByCost,
		Shadow: b.Shadow,
	}
	if r.Bans {
		spec.BlockFor = time.Second
	}
	rule := Rule{Spec: spec}
	for _, l := range append(r.Plans, r.Others...) {
		rule.Plans = append(rule.Plans, core.Plan{Name: l.Plan, Limit: limitOf(l)})
		if l.Headroom > 0 {
			if rule.Headroom == nil {
				rule.Headroom = make(map[string]float64)
			}
			rule.Headroom[l.Plan] = l.Headroom
		}
	}
	return PublishedRule{Name: b.Name, Text: r.Text, At: r.At, Policy: Policy{Rules: []Rule{rule}, Enforce: 100}, InSet: r.InSet, MorePlans: r.More, Elastic: b.UpTo}
}

func limitOf(l processes.Limit) core.Limit {
	switch l.Always {
	case driver.Allowed:
		return core.Unlimited
	case driver.Blocked:
		return core.Blocked
	}
	return core.Limit{Events: l.Events, Per: l.Per, Calendar: l.Calendar, Burst: l.Burst}
}
