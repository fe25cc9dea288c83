package rules

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/rules/internal/overrides"
)

// A PublishedRule is a rule of the limiters of a process on a store of package resilient, also of those in code, as the
// process has described it in Redis within a day.
type PublishedRule struct {
	Name string
	At   time.Time // when a process has described it last, by the clock of Redis

	// Policy has the rule alone, under an empty name, so that it has the states of the program if Name is the name of the
	// policy in a [Config]. The time zone and the anchor of a quota, its unit, and limits of Choose and Variant are not
	// known.
	Policy Policy
	// MorePlans is the number of plans of the rule that Policy does not have. It has at least one of each length.
	MorePlans int
	// Elastic is the factor of an elastic rule, whose present limit is not known, or zero.
	Elastic float64
	// Others are other descriptions of the rule by processes that run or have ended within the last eleven minutes, such as
	// those of another version of the program; the latest first.
	Others []PublishedRule
}

// Published returns the rules that the processes of the application have on their stores, by name. The error is one of
// Redis, or says that a part of the record in Redis is not well formed; the result then has the rest.
func (s *RedisSource) Published(ctx context.Context) (map[string]PublishedRule, error) {
	all, err := overrides.Await(ctx, func() ([]processes.Rule, error) { return s.record().Published(ctx) })
	if err != nil {
		err = fmt.Errorf("weir: rules in Redis: %w", err)
	}
	rules := make(map[string]PublishedRule)
	for _, r := range all {
		p := published(r)
		latest, ok := rules[p.Name]
		switch {
		case !ok:
			rules[p.Name] = p
		case latest.At.Sub(p.At) <= processes.Current:
			latest.Others = append(latest.Others, p)
			rules[p.Name] = latest
		}
	}
	return rules, err
}

func published(r processes.Rule) PublishedRule {
	b := r.Base
	spec := core.Spec{
		Algorithm: b.Algorithm, Limit: limitOf(b), Soft: b.Soft, FromFirst: b.FromFirst, SubWindows: b.SubWindows, Hold: b.Hold, ByCost: b.ByCost,
		Shadow: b.Shadow,
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
	return PublishedRule{Name: b.Name, At: r.At, Policy: Policy{Rules: []Rule{rule}, Enforce: 100}, MorePlans: r.More, Elastic: b.UpTo}
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
