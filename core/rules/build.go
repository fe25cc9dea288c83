package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// storeName returns the name of a rule on a store.
func storeName(policy, rule string) string { return policy + "." + rule }

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

func isPause(r Rule) bool { return r.Algorithm == driver.Pause }

// spec returns r, without its candidate, as a rule that is called name on a store.
func (r *Rule) spec(name string) core.Spec {
	s := r.Spec
	s.Name, s.Plans = name, slices.Clone(s.Plans)
	if r.Timezone != "" {
		s.Location, _ = location(r.Timezone) // see timezoneFault
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

// fault returns the reason why the algorithm of r cannot have its time zone, a period, a limit or its candidate, and
// the field, or empty texts.
func (r *Rule) fault() (field, reason string) {
	if reason := timezoneFault(r.Algorithm, r.Timezone); reason != "" {
		return "timezone", reason
	}
	if reason := periodFault(r.Algorithm, r.Limit); reason != "" {
		return "limit", reason
	}
	switch {
	case isPause(*r) && r.Limit != (core.Limit{}):
		return "limit", "has no meaning for a pause: leave it out"
	case isPause(*r) && r.Candidate != nil:
		return "candidate", "has no meaning for a pause"
	case r.Candidate != nil && isPause(*r.Candidate):
		return "candidate", "cannot be a pause"
	}
	for _, p := range r.Plans {
		if reason := periodFault(r.Algorithm, p.Limit); reason != "" {
			return "plan", fmt.Sprintf("%q: limit %s", p.Name, reason)
		}
	}
	return "", ""
}

// spans are the fixed spans to write for periods of the calendar.
var spans = map[core.Calendar]time.Duration{core.Day: 24 * time.Hour, core.Week: 7 * 24 * time.Hour, core.Month: 30 * 24 * time.Hour}

// periodFault returns the reason why an algorithm cannot have the period of l, or an empty text. A limit
// has no period if the algorithm counts events at the same time, and one of the calendar for a quota.
func periodFault(a driver.Algorithm, l core.Limit) string {
	span, isCalendar := spans[l.Calendar]
	switch {
	case l.Events <= 0: // Unlimited, Blocked or invalid
	case a == driver.InFlight && (l.Per != 0 || isCalendar):
		return fmt.Sprintf("%v has a period, and %v counts events at the same time: write %d", l, a, l.Events)
	case a == driver.InFlight || a == driver.Quota && isCalendar:
	case a == driver.Quota && l.Per == 0:
		return fmt.Sprintf("%v has no period, unlike %v/day and %v/month", l, l, l)
	case a == driver.Quota:
		for calendar, span := range spans {
			if l.Per == span {
				return fmt.Sprintf("%v has a fixed period, and %v counts by the calendar: write %v", l, a, core.Limit{Events: l.Events, Calendar: calendar})
			}
		}
		return fmt.Sprintf("%v has a fixed period, and %v counts by the calendar: write %d per day, week or month, such as %[3]d/day", l, a, l.Events)
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
