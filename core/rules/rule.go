package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

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

// storeName returns the name of a rule on a store. A rule without a name has that of its policy: see PublishedRule.
func storeName(policy, rule string) string {
	if rule == "" {
		return policy
	}
	return policy + "." + rule
}

// candidateName returns the name of the candidate of a rule on a store.
func candidateName(rule string) string { return rule + ".candidate" }

// algorithmNames has every algorithm under its name in a file.
var algorithmNames = func() map[string]core.Algorithm {
	names := make(map[string]core.Algorithm)
	for a := core.Algorithm(1); a.String() != core.Algorithm(0).String(); a++ {
		names[a.String()] = a
	}
	return names
}()

// kind returns the facts about the algorithm of r.
func (r *Rule) kind() *driver.Kind { return (&driver.Definition{Algorithm: r.Algorithm}).Kind() }

// allows reports whether a property of [driver.Kind.Properties] has a meaning for r.
func (r *Rule) allows(property string) bool { return slices.Contains(r.kind().Properties, property) }

// spec returns r, without its candidate, as a rule that is called name on a store.
func (r *Rule) spec(name string) core.Spec {
	s := r.Spec
	s.Name, s.Plans = name, slices.Clone(s.Plans)
	if r.Timezone != "" {
		s.Location, _ = location(r.Timezone) // see fault
	}
	for i := range s.Plans {
		s.Plans[i].Headroom = r.Headroom[s.Plans[i].Name]
	}
	for _, plan := range slices.Sorted(maps.Keys(r.Headroom)) {
		if !slices.ContainsFunc(r.Plans, func(p core.Plan) bool { return p.Name == plan }) {
			s.Plans = append(s.Plans, core.Plan{Name: plan, Limit: r.Limit, Headroom: r.Headroom[plan]})
		}
	}
	return s
}

// check returns an error for a fault of r, or that of package core.
func (r *Rule) check(name string) *core.RuleError {
	if field, reason := r.fault(); reason != "" {
		return invalid(name, field, reason)
	}
	_, err := core.New(noStore{}, core.NewRule(r.spec(name)))
	var e *core.RuleError
	errors.As(err, &e)
	return e
}

// checkLimit is check for r with the limit l in place of that of every plan.
func (r Rule) checkLimit(name string, l core.Limit) *core.RuleError {
	r.Limit, r.Plans = l, nil
	return r.check(name)
}

func invalid(rule, field, reason string) *core.RuleError {
	return &core.RuleError{Rule: rule, Field: field, Reason: reason, Category: core.ErrInvalidRule}
}

// fault returns the reason why r cannot have its limit, time zone, period or candidate, and the field, or empty texts.
func (r *Rule) fault() (field, reason string) {
	k := r.kind()
	var e *core.RuleError
	if err := k.Check(r.Name, func(property string) bool {
		return property == "timezone" && r.Timezone != "" || property == "limit" && r.Limit != core.Limit{} || property == "candidate" && r.Candidate != nil
	}); errors.As(err, &e) {
		return e.Field, e.Reason
	}
	if r.Timezone != "" {
		if _, err := location(r.Timezone); err != nil {
			return "timezone", err.Error()
		}
	}
	if reason := periodFault(k, r.Limit); reason != "" {
		return "limit", reason
	}
	if r.Candidate != nil && r.Candidate.kind().Closes {
		return "candidate", "cannot be a pause"
	}
	for _, p := range r.Plans {
		if reason := periodFault(k, p.Limit); reason != "" {
			return "plan", fmt.Sprintf("%q: limit %s", p.Name, reason)
		}
	}
	return "", ""
}

// spans are the fixed spans to write for periods of the calendar.
var spans = map[core.Calendar]time.Duration{core.Day: 24 * time.Hour, core.Week: 7 * 24 * time.Hour, core.Month: 30 * 24 * time.Hour}

// periodFault returns the reason why rules of a kind cannot have the period of l, or an empty text. A limit
// has no period if they count events at the same time, and one of the calendar for a quota.
func periodFault(k *driver.Kind, l core.Limit) string {
	span, isCalendar := spans[l.Calendar]
	switch {
	case l.Events <= 0 || k.Closes: // Unlimited, Blocked or invalid
	case k.Holds && (l.Per != 0 || isCalendar):
		return fmt.Sprintf("%v has a period, and %v counts events at the same time: write %d", l, k.Name, l.Events)
	case k.Holds || k.Calendar && isCalendar:
	case k.Calendar && l.Per == 0:
		return fmt.Sprintf("%v has no period, unlike %v/day and %v/month", l, l, l)
	case k.Calendar:
		for calendar, span := range spans {
			if l.Per == span {
				return fmt.Sprintf("%v has a fixed period, and %v counts by the calendar: write %v", l, k.Name, core.Limit{Events: l.Events, Calendar: calendar})
			}
		}
		return fmt.Sprintf("%v has a fixed period, and %v counts by the calendar: write %d per day, week or month, such as %[3]d/day", l, k.Name, l.Events)
	case l.Per == 0 && !isCalendar:
		return fmt.Sprintf("%v has no period, unlike %v/s and %v/h", l, l, l)
	case isCalendar:
		fixed := l
		fixed.Per, fixed.Calendar = span, 0
		return fmt.Sprintf("%v has a period of the calendar, and only quota counts by the calendar: write %v", l, fixed)
	}
	return ""
}

// with returns r with the limit l for all plans.
func (r Rule) with(l core.Limit) *Rule {
	r.Limit, r.Plans = l, slices.Clone(r.Plans)
	for i := range r.Plans {
		r.Plans[i].Limit = l
	}
	return &r
}

// A noStore is the store of limiters that are made only to check their rules.
type noStore struct{}

func (noStore) Take(context.Context, []driver.Charge) error   { return driver.ErrUnavailable }
func (noStore) Adjust(context.Context, []driver.Charge) error { return driver.ErrUnavailable }

// locations has the locations that were loaded, by name.
var locations sync.Map

// location returns the location that has a name in the IANA database of time zones.
func location(name string) (*time.Location, error) {
	if l, ok := locations.Load(name); ok {
		return l.(*time.Location), nil
	}
	if name == "Local" || name == "localtime" {
		return nil, fmt.Errorf("%q differs from machine to machine: write a name such as Europe/Berlin", name)
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is unknown: write a name such as Europe/Berlin; "+
			"where the system has no zoneinfo, the program has to import time/tzdata", name)
	}
	locations.Store(name, l)
	return l, nil
}
