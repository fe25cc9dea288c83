package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A Config is a set of policies: the content of a configuration file. Parse checks everything, so
// every rule of a Config is valid. A Config does not change.
type Config struct {
	Name     string            `json:"-"` // of the source: that of Parse; it has no effect
	Policies map[string]Policy // by name
	Routes   map[string]string // net/http patterns to names of policies
	Disabled bool              // no limit is enforced or counted
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
		case p.Disabled || p.Enforce == 0 || r.Shadow || l == core.Unlimited:
		case l == core.Blocked || l.Per == 0 && l.Calendar == 0:
			return 0
		default:
			rate = min(rate, float64(l.Events)/cmp.Or(spans[l.Calendar], l.Per).Seconds())
		}
	}
	return rate
}

// A Rule is the configuration of one rule of a policy.
type Rule struct {
	Name       string
	Algorithm  driver.Algorithm
	Limit      core.Limit
	Plans      []Plan             // in the order of the file
	Headroom   map[string]float64 // as of core.Rule.Headroom, by the name of a plan, which may have no Plan
	Soft       float64
	SubWindows int
	Hold       time.Duration // of an in-flight rule: as of core.Rule.Hold; zero means core.DefaultHold
	MaxHold    time.Duration // of an in-flight rule: as of core.Rule.MaxHold
	Timezone   string        // of a quota: the name of its core.Rule.In in the IANA database; empty means UTC
	Shadow     bool
	Unit       string // as of core.Rule.Unit; empty means requests
	Candidate  *Rule  // evaluated as a shadow rule beside this one, with states of its own
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

// A Plan is the limit of a rule for the callers of a plan.
type Plan struct {
	Name  string
	Limit core.Limit
}

// An Override blocks one key, or gives it another plan or other limits.
type Override struct {
	Blocked bool // every event is denied, also by shadow rules and outside Enforce; Plan and Limits have no effect
	Plan    string
	Limits  map[string]core.Limit // by the name of the rule
	Until   time.Time             // the zero Time means for ever
}

// id returns a text that overrides that differ at most in their ends have.
func (o *Override) id() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%t %q", o.Blocked, o.Plan)
	for _, name := range slices.Sorted(maps.Keys(o.Limits)) {
		fmt.Fprintf(&b, " %q %v", name, o.Limits[name])
	}
	return b.String()
}

// clone returns a copy that an application may change: equal overrides share their limits.
func (o Override) clone() Override {
	o.Limits = maps.Clone(o.Limits)
	return o
}
