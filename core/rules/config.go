package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules/internal/document"
)

// A Config is a set of policies: the content of a configuration file. Parse checks everything, so
// every rule of a Config is valid. A Config does not change.
type Config struct {
	Name      string            // of the source: that of Parse; it has no effect
	Policies  map[string]Policy // by name
	Routes    map[string]string // net/http patterns to names of policies
	AllRoutes string            // the policy that every request is charged to, beside that of its route; empty for none
	Disabled  bool              // no limit is enforced or counted
}

// version returns a hash of c without its name.
func (c *Config) version() string {
	text := fmt.Appendf(nil, "%t %q %q", c.Disabled, c.Routes, c.AllRoutes)
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		p := c.Policies[name]
		text = fmt.Appendf(text, " policy %q %t %v", name, p.Disabled, p.Enforce)
		for i := range p.Rules {
			text = document.Encoded(text, p.Rules[i].node())
		}
		for _, key := range slices.Sorted(maps.Keys(p.Keys)) {
			o := p.Keys[key]
			text = fmt.Appendf(text, " key %q %s %v", key, o.content().ID(), o.Until.UTC())
		}
	}
	return hashOf(text)
}

// A Policy is the configuration of one limiter.
type Policy struct {
	Rules    []Rule
	Keys     map[string]Override // by key
	Enforce  float64             // the percentage of keys for which the policy is enforced; shadow rules for the others
	Disabled bool                // the policy is neither enforced nor counted
}

// rate returns the events a second that p admits in the long run without a plan: 0 if p is blocked or has a
// limit without a period, and +Inf if nothing is limited.
func (p *Policy) rate() float64 {
	rate := math.Inf(1)
	for _, r := range p.Rules {
		switch l := r.Limit; {
		case p.Disabled || p.Enforce == 0 || r.Shadow || l == core.Unlimited || r.kind().Closes:
		case l == core.Blocked || l.Per == 0 && l.Calendar == 0:
			return 0
		default:
			rate = min(rate, float64(l.Events)/cmp.Or(spans[l.Calendar], l.Per).Seconds())
		}
	}
	return rate
}

// A Rule is the configuration of one rule of a policy: a core.Spec, and properties of configurations. Label,
// Location, Anchor, Spare, UpTo and the Headroom of a Plan must be zero, and so must the Limit of a core.Pause.
type Rule struct {
	core.Spec
	Headroom  map[string]float64 // that of the plans, by name; a plan that is not in Plans has the limit of the rule
	Timezone  string             // of a quota: the name of its Location in the IANA database; empty means UTC
	Candidate *Rule              // evaluated as a shadow rule beside this one, with states of its own
}

// isForeign reports whether r has a property that a configuration cannot have.
func (r *Rule) isForeign() bool {
	return r.Label != "" || r.Location != nil || r.Anchor != nil || r.Spare != nil || r.UpTo != 0 ||
		slices.ContainsFunc(r.Plans, func(p core.Plan) bool { return p.Headroom != 0 })
}

// planNames returns the names of the plans of r, with those that have the limit of r and a headroom.
func (r *Rule) planNames() []string {
	names := slices.Collect(maps.Keys(r.Headroom))
	for _, p := range r.Plans {
		if _, ok := r.Headroom[p.Name]; !ok {
			names = append(names, p.Name)
		}
	}
	return names
}
