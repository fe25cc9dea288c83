package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules"
)

// ofStates returns a command that changes the states of a key in Redis, unless change is nil, and
// prints the states that it then has.
func (r *remote) ofStates(change func(ctx context.Context, l *core.Limiter, key string, args []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		if err := r.configure(ctx); err != nil {
			return err
		}
		args = append([]string{args[0], r.resolve(args[1])}, args[2:]...)
		if args[0] == every {
			if err := r.start(r.config.Policies); err != nil {
				return err
			}
			return r.ofEvery(ctx, args[1], false, change == nil, func(ctx context.Context, policy, key string) error {
				return r.ofStatesIn(ctx, policy, key, args[2:], change)
			})
		}
		policies, err := r.selected(args[0])
		if err != nil {
			return err
		}
		for _, policy := range policies {
			if len(policies) > 1 {
				fmt.Fprintf(r.stdout, "%s:\n", r.title(policy))
			}
			if err := r.ofStatesIn(ctx, policy, args[1], args[2:], change); err != nil {
				return err
			}
		}
		return nil
	}
}

// ofStatesIn is ofStates for one policy.
func (r *remote) ofStatesIn(ctx context.Context, policy, key string, args []string, change func(ctx context.Context, l *core.Limiter, key string, args []string) error) error {
	s, err := r.subject(policy, key)
	if err == nil {
		err = checkPlan(s.policy, r.plan)
	}
	if err != nil {
		return err
	}
	if _, ok := r.code[policy]; ok && r.rule != "" {
		if r.rule != policy {
			return fmt.Errorf("the rule %q is in code, and alone in its place: it is not %q", policy, r.rule)
		}
	} else if r.rule != "" {
		if s.policy, err = onlyRule(s.policy, r.rule, key); err != nil {
			return err
		}
	}
	if err := r.start(map[string]rules.Policy{policy: s.policy}); err != nil {
		return err
	}
	defer r.hint(ctx, key, policy)()
	l, err := r.limiter(policy, r.plan)
	if err != nil {
		return err
	}
	d, err := l.Peek(ctx, key)
	if err == nil && change != nil {
		bans, _ := s.bans(d)
		if err = change(ctx, l, key, args); err == nil {
			d, err = l.Peek(ctx, key)
		}
		if _, left := s.bans(d); err == nil && bans != "" && left == 0 {
			fmt.Fprintf(r.stdout, "The ban by %s has ended.\n", bans)
		}
	}
	if err != nil {
		return err
	}
	// An error is about an override that is not in force.
	if s.override, err = r.set.OverrideOf(ctx, policy, key); err == nil && change == nil {
		if names := s.otherPlans(); len(names) > 0 {
			r.note("the limits are those without a plan; the policy has %s: see -plan", list(names))
		}
	}
	return s.table(r.stdout, "RULE LIMIT USED LEFT NEXT UNUSED MODE", d)
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
		if r.Kind().Holds {
			return fmt.Errorf("the rule %s counts running events, which end by themselves: name another one with -rule, or use reset", cmp.Or(r.Spec().Label, r.Name()))
		}
	}
	return l.Credit(ctx, key, n)
}
