package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
)

// A subject is a key of a policy, and the parts of a configuration and of Redis that limit it.
type subject struct {
	config    *rules.Config
	name      string // of the policy
	policy    rules.Policy
	key, plan string         // plan is that of the caller, which the override can replace
	override  rules.Override // the one in force
}

// newSubject returns the subject for a key of a policy of c, which is called file. It has no override.
func newSubject(c *rules.Config, file, policy, key, plan string) (*subject, error) {
	p, ok := c.Policies[policy]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s has no policy %q; it has %s", file, policy, list(slices.Collect(maps.Keys(c.Policies))))
	case key == "":
		return nil, errors.New("the key is empty")
	}
	return &subject{config: c, name: policy, policy: p, key: key, plan: plan}, nil
}

// off reports whether no rule of the policy is enforced or counted.
func (s *subject) off() bool { return s.config.Disabled || s.policy.Disabled }

func (s *subject) hasPlan(plan string) bool {
	return plan == "" || slices.Contains(plans(s.policy), plan)
}

// lines describes the parts that limit the key, and removes those of the override that are not in force.
func (s *subject) lines() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if until := s.override.Until; !until.IsZero() {
		entry, end := "override", "ends"
		if s.override.Blocked {
			entry = "block"
		}
		if !time.Now().Before(until) {
			end, s.override = "ended", rules.Override{}
		}
		add("The %s of the key %s at %s.", entry, end, until.Format(time.RFC3339))
	}
	switch {
	case s.config.Disabled:
		add("All policies are off: no rule is enforced or counted.")
	case s.policy.Disabled:
		add("The policy is off: its rules are neither enforced nor counted.")
	}
	if !s.hasPlan(s.plan) {
		add("No rule of the policy has the plan %q.", s.plan)
		s.plan = ""
	}
	o := &s.override
	if !s.hasPlan(o.Plan) { // it is in Redis, and older than the configuration
		add("No rule of the policy has the plan %q of the override.", o.Plan)
		o.Plan = ""
	}
	limits := o.Limits
	o.Limits = maps.Clone(limits)
	for _, rule := range slices.Sorted(maps.Keys(limits)) {
		if !slices.ContainsFunc(s.policy.Rules, func(r rules.Rule) bool { return r.Name == rule }) {
			add("The policy has no rule %q of the override.", rule)
			delete(o.Limits, rule)
		} else if _, err := s.limiter(rules.Override{Limits: map[string]core.Limit{rule: limits[rule]}}); err != nil {
			add("The rule %q cannot have the limit of the override, %v.", rule, limits[rule])
			delete(o.Limits, rule)
		}
	}
	if s.policy.Enforce != 100 {
		in := "not among them"
		if rules.InPercent(s.name, s.key, s.policy.Enforce) {
			in = "among them"
		}
		add("The policy is enforced for %s%% of the keys; this key is %s.", strconv.FormatFloat(s.policy.Enforce, 'f', -1, 64), in)
	}
	return all
}

// limiter returns a limiter of the policy in memory, for a key with the override o.
func (s *subject) limiter(o rules.Override) (*core.Limiter, error) {
	o.Until = time.Time{}
	p := s.policy
	p.Disabled, p.Keys = false, map[string]rules.Override{s.key: o}
	set, err := rules.New(memstore.New(), &rules.Config{Policies: map[string]rules.Policy{s.name: p}})
	if err != nil {
		return nil, err
	}
	return set.Limiter(s.name)
}

// explain prints the limits of the key, after its lines.
func (s *subject) explain(w io.Writer) error {
	for _, line := range s.lines() {
		fmt.Fprintln(w, line)
	}
	l, err := s.limiter(s.override)
	if err != nil {
		return err
	}
	d, err := l.Plan(s.plan).Peek(context.Background(), s.key)
	if err != nil {
		return err
	}
	for _, state := range d.States() {
		l, of := state.Limit(), state.Rule.Spec()
		if of.BlockFor > 0 && !of.Shadow && !s.off() && l != core.Unlimited && l != core.Blocked && planOf(state).Headroom == 0 {
			fmt.Fprintf(w, "A denial by %s bans the key for %s.\n", s.ruleOf(state), duration(of.BlockFor))
		}
	}
	return s.table(w, "RULE ALGORITHM LIMIT SOURCE MODE", d)
}

// table prints columns of the states of d, a decision about the key.
func (s *subject) table(to io.Writer, columns string, d core.Decision) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	names := strings.Fields(columns)
	fmt.Fprintln(w, strings.Join(names, "\t"))
	for _, state := range d.States() {
		cells := s.cells(d, state)
		row := make([]string, len(names))
		for i, name := range names {
			row[i] = cells[name]
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// cells returns the cells for a state of d, by column.
func (s *subject) cells(d core.Decision, state core.State) map[string]string {
	rule := s.ruleOf(state)
	all := map[string]string{
		"RULE": rule, "ALGORITHM": state.Rule.Algorithm().String(), "LIMIT": inForce(state, strings.TrimSuffix(state.Rule.Spec().Unit, "requests")),
		"SOURCE": s.sourceOf(state, rule), "USED": strconv.Itoa(state.Used()), "LEFT": strconv.Itoa(state.Remaining),
		"NEXT": waitOf(state, state.RetryAfter), "UNUSED": waitOf(state, state.ResetAfter), "MODE": "enforce",
	}
	set := func(text string, columns ...string) {
		for _, c := range columns {
			all[c] = text
		}
	}
	if state.Estimate {
		set("when an event ends", "NEXT")
	}
	if state.Rule.Kind().Holds && state.Used() > 0 {
		set("when all end", "UNUSED")
	}
	if l := state.Limit(); l == core.Unlimited || l == core.Blocked {
		set("-", "USED", "LEFT")
	}
	if state.Unknown { // another rule has denied without a call of Redis
		set("-", "USED", "LEFT", "NEXT", "UNUSED")
	}
	switch {
	case paused(d, state):
		set("paused", "LIMIT")
	case state.Ban > 0:
		set("banned", "USED")
	}
	switch {
	case s.off():
		set("off", "MODE")
	case state.Rule.IsShadow():
		set("shadow", "MODE")
	}
	return all
}

// paused reports whether a state of d is that of a pause that has begun.
func paused(d core.Decision, s core.State) bool {
	return s.Rule.Kind().Closes && s.Limit() == core.Blocked && !d.Blocked()
}

// bans returns the names of the rules that ban the key of d, and the time until the last of these bans ends.
func (s *subject) bans(d core.Decision) (names string, left time.Duration) {
	var all []string
	for _, state := range d.States() {
		if state.Ban > 0 {
			all, left = append(all, s.ruleOf(state)), max(left, state.Ban)
		}
	}
	return strings.Join(all, ", "), left
}

// ruleOf returns the name of the rule of a state in its policy. A candidate is called NAME.candidate.
func (s *subject) ruleOf(state core.State) string {
	return strings.TrimPrefix(state.Rule.Name(), s.name+".")
}

// sourceOf returns the part of the configuration or of Redis that has the limit of a state of a rule.
func (s *subject) sourceOf(state core.State, rule string) string {
	_, isOwn := s.override.Limits[rule]
	switch plan := state.Rule.PlanName(); {
	case strings.HasSuffix(rule, ".candidate"):
		return "base"
	case s.override.Blocked && state.Limit() == core.Blocked || isOwn:
		return "override of the key"
	case plan == "":
		return "base"
	case s.override.Plan != "":
		return fmt.Sprintf("plan %q, override of the key", plan)
	default:
		return fmt.Sprintf("plan %q", plan)
	}
}

// planOf returns the plan whose limit was in force. It has no properties if that was the limit of callers without a plan.
func planOf(s core.State) (p core.Plan) {
	if of := s.Rule.Spec(); s.Rule.PlanName() != "" && len(of.Plans) > 0 { // only that plan, or none if it is unknown
		p = of.Plans[0]
	}
	return p
}

// inForce returns the text of the limit that was in force, of a rule with a unit: "none" for a pause. It says how the limit
// counts.
func inForce(s core.State, unit string) string {
	of, l := s.Rule.Spec(), s.Limit()
	switch {
	case of.Limit == (core.Limit{}):
		return "none"
	case l == core.Unlimited || l == core.Blocked:
		return l.String()
	}
	text := l.String()
	for _, p := range of.Properties(planOf(s)) {
		if p.OfLimit {
			text += " " + p.Text
		}
	}
	if unit != "" {
		text += " (" + unit + ")"
	}
	return text
}

// waitOf returns the text of a time to wait for s: for a quota, the end of its period in its time zone,
// rounded to a minute because the clock of this process may not be that of Redis.
func waitOf(s core.State, d time.Duration) string {
	if s.Period() == 0 || d == 0 || d == core.Never {
		return wait(d)
	}
	return "at " + time.Now().Add(d).Round(time.Minute).In(cmp.Or(s.Rule.Spec().Location, time.UTC)).Format(time.RFC3339)
}

// wait returns the text of a time to wait, rounded up to milliseconds.
func wait(d time.Duration) string {
	switch {
	case d == 0:
		return "now"
	case d > core.Never-time.Millisecond:
		return "never"
	}
	return "in " + (d + time.Millisecond - 1).Truncate(time.Millisecond).String()
}
