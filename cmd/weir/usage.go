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
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/rules"
)

// ofStates returns a command that changes the states of a key in Redis, unless change is nil, and
// prints the states that it then has.
func (r *remote) ofStates(change func(ctx context.Context, l *core.Limiter, key string, args []string) error) func(args []string, _, _ io.Writer) error {
	return func(args []string, _, _ io.Writer) error {
		return r.connect(func(ctx context.Context) error {
			policy, key := args[0], args[1]
			l, err := r.limiter(ctx, policy, key)
			if err == nil && change != nil {
				err = change(ctx, l, key, args[2:])
			}
			if err != nil {
				return err
			}
			d, err := l.Peek(ctx, key)
			if err != nil {
				return err
			}
			return r.printUsage(policy, d)
		})
	}
}

// limiter returns the limiter of a policy on Redis for a key, for the rule and the plan of the flags.
func (r *remote) limiter(ctx context.Context, policy, key string) (*core.Limiter, error) {
	c, err := r.config(ctx)
	if err != nil {
		return nil, err
	}
	p, ok := c.Policies[policy]
	if !ok {
		return nil, fmt.Errorf("%s has no policy %q; it has %s", r.name(), policy, list(slices.Collect(maps.Keys(c.Policies))))
	}
	if err := checkPlan(p, r.plan); err != nil {
		return nil, err
	}
	if r.rule != "" {
		if p, err = onlyRule(p, r.rule, key); err != nil {
			return nil, err
		}
	}
	// The errors are about parts of an override that are not in force, such as those of other rules.
	set, err := rules.New(redisstore.New(r.rdb, append(r.storeOptions(), redisstore.Timeout(timeout))...), &rules.Config{Policies: map[string]rules.Policy{policy: p}, Disabled: c.Disabled},
		rules.Overrides(r.source), rules.OnError(func(error) {}))
	if err != nil {
		return nil, err
	}
	l, err := set.Limiter(policy)
	if err != nil {
		return nil, err
	}
	return l.Plan(r.plan), nil
}

// list returns names in order.
func list(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ", ") }

// checkPlan returns an error if no rule of p has a plan of the name, unless that is empty.
func checkPlan(p rules.Policy, name string) error {
	names := plans(p)
	switch {
	case name == "" || slices.Contains(names, name):
		return nil
	case len(names) == 0:
		return errors.New("the policy has no plans")
	}
	return fmt.Errorf("the policy has no plan %q; it has %s", name, list(slices.Compact(names)))
}

// plans returns the plans of the rules of p, in order.
func plans(p rules.Policy) (names []string) {
	for _, r := range p.Rules {
		names = append(names, plansOf(r)...)
	}
	slices.Sort(names)
	return names
}

// plansOf returns the plans of r, which have a limit of their own or a headroom.
func plansOf(r rules.Rule) []string {
	names := slices.Collect(maps.Keys(r.Headroom))
	for _, plan := range r.Plans {
		names = append(names, plan.Name)
	}
	return names
}

// onlyRule returns p for a key, with one of its rules.
func onlyRule(p rules.Policy, name, key string) (rules.Policy, error) {
	at := slices.IndexFunc(p.Rules, func(r rules.Rule) bool { return r.Name == name })
	if at < 0 {
		names := make([]string, len(p.Rules))
		for i, r := range p.Rules {
			names[i] = r.Name
		}
		return p, fmt.Errorf("the policy has no rule %q; it has %s", name, list(names))
	}
	p.Rules = p.Rules[at : at+1]
	o := p.Keys[key]
	o.Limits = maps.Clone(o.Limits)
	maps.DeleteFunc(o.Limits, func(rule string, _ core.Limit) bool { return rule != name })
	if !slices.Contains(plans(p), o.Plan) {
		o.Plan = ""
	}
	p.Keys = nil
	if o.Blocked || o.Plan != "" || len(o.Limits) > 0 {
		p.Keys = map[string]rules.Override{key: o}
	}
	return p, nil
}

// printUsage prints the States of a Peek about a key of a policy.
func (r *remote) printUsage(policy string, d core.Decision) error {
	w := tabwriter.NewWriter(r.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tLIMIT\tUSED\tLEFT\tNEXT\tUNUSED\tMODE")
	for _, s := range d.States() {
		used, left, mode := strconv.Itoa(s.Used()), strconv.Itoa(s.Remaining), "enforce"
		if l := s.Limit(); l == core.Unlimited || l == core.Blocked {
			used, left = "-", "-"
		}
		next, unused := waitOf(s, s.RetryAfter), waitOf(s, s.ResetAfter)
		if s.Unknown { // another rule has denied without a call of Redis
			used, left, next, unused = "-", "-", "-", "-"
		}
		if s.Estimate {
			next = "when an event ends"
		}
		if s.Rule.Algorithm() == core.AlgorithmInFlight && s.Used() > 0 && used != "-" {
			unused = "when all end"
		}
		if s.Rule.IsShadow() {
			mode = "shadow"
		}
		limit := inForce(s, strings.TrimSuffix(s.Rule.Spec().Unit, "requests"))
		if s.Rule.Algorithm() == core.AlgorithmPause && s.Limit() == core.Blocked && !d.Blocked() {
			limit = "paused"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", strings.TrimPrefix(s.Rule.Name(), policy+"."), limit,
			used, left, next, unused, mode)
	}
	return w.Flush()
}

// inForce returns the text of the limit that was in force, of a rule with a unit: "none" for a pause.
func inForce(s core.State, unit string) string {
	of, headroom := s.Rule.Spec(), 0.0
	if of.Limit == (core.Limit{}) {
		return "none"
	}
	if s.Rule.PlanName() != "" && len(of.Plans) > 0 { // only that plan, or none if it is unknown
		headroom = of.Plans[0].Headroom
	}
	return limitText(s.Limit(), of, cmp.Or(of.Location, time.UTC).String(), headroom, unit)
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

func reset(ctx context.Context, l *core.Limiter, key string, _ []string) error {
	_, err := l.Reset(ctx, key)
	return err
}

func credit(ctx context.Context, l *core.Limiter, key string, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return fmt.Errorf("the number of events is not 1 or more: %q", args[0])
	}
	for _, r := range l.Rules() {
		if r.Algorithm() == core.AlgorithmInFlight {
			return fmt.Errorf("the rule %s counts running events, which end by themselves: name another one with -rule, or use reset", cmp.Or(r.Spec().Label, r.Name()))
		}
	}
	return l.Credit(ctx, key, n)
}
