package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weir-go/weir/core"
)

// Diff returns the changes from a to b in words, in alphabetical order. It returns none if a and b
// have the same effect. nil is a Config without policies.
//
//	api key user:99: added (second 5/s)
//	api.hour: added (sliding_log 500/h)
//	api.second plan gold: 100/s to unlimited
//	api.second: 10/s to 20/s
//	policy login: removed
//
// A rule whose events before the change do not count, as after one of the period of a window, has the line
// "begins unused for every key".
//
// Diff is for operators. The result contains keys, which may be personal data, such as addresses:
// do not log it where keys must not be logged.
func Diff(a, b *Config) []string {
	var d differ
	a, b = cmp.Or(a, &Config{}), cmp.Or(b, &Config{})
	d.off("all policies", a.Disabled, b.Disabled)
	each(a.Policies, b.Policies, func(name string, a, b *Policy) {
		switch {
		case b == nil:
			d.add("policy %s: removed", name)
			return
		case a == nil:
			d.add("policy %s: added", name)
			a = &Policy{Enforce: 100}
		}
		d.policy(name, a, b)
	})
	each(a.Routes, b.Routes, func(pattern string, a, b *string) {
		change(&d, "route "+pattern, a, b, func(s string) string { return s })
	})
	named := func(policy string) *string {
		if policy == "" {
			return nil
		}
		return &policy
	}
	if a.AllRoutes != b.AllRoutes {
		change(&d, "all_routes", named(a.AllRoutes), named(b.AllRoutes), func(s string) string { return s })
	}
	slices.Sort(d)
	return d
}

// A differ collects changes.
type differ []string

func (d *differ) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

func (d *differ) off(what string, a, b bool) {
	if a != b {
		d.add("%s: switched %s", what, map[bool]string{true: "off", false: "on"}[b])
	}
}

// each calls f for every name in a or b, with nil for a value that is absent.
func each[T any](a, b map[string]T, f func(name string, a, b *T)) {
	for name, x := range a {
		if y, ok := b[name]; ok {
			f(name, &x, &y)
		} else {
			f(name, &x, nil)
		}
	}
	for name, y := range b {
		if _, ok := a[name]; !ok {
			f(name, nil, &y)
		}
	}
}

// change adds the change of a subject from a to b, which are nil if they are absent.
func change[T any](d *differ, subject string, a, b *T, text func(T) string) {
	switch {
	case a == nil:
		d.add("%s: added (%s)", subject, text(*b))
	case b == nil:
		d.add("%s: removed (was %s)", subject, text(*a))
	case text(*a) != text(*b):
		d.add("%s: %s to %s", subject, text(*a), text(*b))
	}
}

func (d *differ) policy(name string, a, b *Policy) {
	d.off("policy "+name, a.Disabled, b.Disabled)
	change(d, "policy "+name+" enforce", &a.Enforce, &b.Enforce, percent)
	before, after := byName(a.Rules, ruleName), byName(b.Rules, ruleName)
	each(before, after, func(rule string, a, b *Rule) { d.rule(storeName(name, rule), a, b) })
	kept := func(rules []Rule, others map[string]Rule) []Rule {
		return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { _, ok := others[r.Name]; return !ok })
	}
	if !slices.EqualFunc(kept(a.Rules, after), kept(b.Rules, before), func(a, b Rule) bool { return a.Name == b.Name }) {
		d.add("policy %s: rules in another order", name)
	}
	each(a.Keys, b.Keys, func(key string, a, b *Override) {
		if strings.ContainsFunc(key, func(c rune) bool { return c == ' ' || !unicode.IsGraphic(c) }) {
			key = strconv.Quote(key)
		}
		change(d, name+" key "+key, a, b, Override.text)
	})
}

func ruleName(r Rule) string      { return r.Name }
func planName(p core.Plan) string { return p.Name }

func byName[T any](all []T, name func(T) string) map[string]T {
	m := make(map[string]T, len(all))
	for _, x := range all {
		m[name(x)] = x
	}
	return m
}

// rule adds the changes of a rule or candidate.
func (d *differ) rule(what string, a, b *Rule) {
	if a == nil || b == nil {
		change(d, what, a, b, Rule.text)
	}
	if b == nil {
		return
	}
	if a == nil {
		added := *b
		added.Plans, added.Headroom, added.Candidate = nil, nil, nil
		a = &added
	}
	for i := range fields {
		if fields[i].diff != nil {
			fields[i].diff(d, what, a, b)
		}
	}
	d.unused(what, states(a, a.Limit), states(b, b.Limit))
	if a.Candidate != nil || b.Candidate != nil {
		d.rule(what+" candidate", a.Candidate, b.Candidate)
	}
}

// unused adds that the events before a change do not count after it.
func (d *differ) unused(what string, before, after any) {
	if before != after && before != nil && after != nil {
		d.add("%s: %s", what, beginsUnused)
	}
}

const beginsUnused = "begins unused for every key"

// states returns a value that is equal for two rules with a limit of the same name if the events of one count for
// the other one, and nil if the limit counts none.
func states(r *Rule, l core.Limit) any {
	s := core.NewRule(r.Spec).Spec() // with the values of absent fields
	if l == core.Unlimited || l == core.Blocked {
		return nil
	}
	if r.kind().Refills {
		l.Per = 0
	}
	return [...]any{s.Algorithm, l.Per, l.Calendar, s.SubWindows, s.FromFirst, s.Hold}
}

// text describes the rule without its plans and candidate: "sliding_log 500/h soft 10% unit tokens".
func (r Rule) text() string {
	text := r.Algorithm.String()
	if r.Limit != (core.Limit{}) {
		text += " " + r.Limit.String()
	}
	for _, p := range core.NewRule(r.spec(r.Name)).Spec().Properties(core.Plan{}) {
		if !p.Default {
			text += " " + p.Text
		}
	}
	return text
}

// text describes the override: "plan gold, second 5/s, until 2027-01-01T00:00:00Z".
func (o Override) text() string {
	var parts []string
	if o.Blocked {
		parts = append(parts, "blocked")
	}
	if o.Plan != "" {
		parts = append(parts, "plan "+o.Plan)
	}
	for _, rule := range slices.Sorted(maps.Keys(o.Limits)) {
		parts = append(parts, rule+" "+o.Limits[rule].String())
	}
	if !o.Until.IsZero() {
		parts = append(parts, "until "+o.Until.UTC().Format(time.RFC3339Nano))
	}
	return strings.Join(parts, ", ")
}
