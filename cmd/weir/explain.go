package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
)

// explain prints the limits of a key in a policy, for a caller with a plan if one is given. A route
// such as "POST /login", in place of the name of a policy, stands for its policy and that of all routes.
func explain(args []string, stdout, _ io.Writer) error {
	c, err := load(args[0])
	if err != nil {
		return err
	}
	return explainIn(c, args, func(policy, key string) (rules.Override, error) { return c.Policies[policy].Keys[key], nil }, stdout)
}

// explainIn is explain for c, which has the name args[0]. overrideOf returns the override of a key.
func explainIn(c *rules.Config, args []string, overrideOf func(policy, key string) (rules.Override, error), stdout io.Writer) error {
	name, key := args[1], args[2]
	var plan string
	if len(args) > 3 {
		plan = args[3]
	}
	one := func(policy string) error {
		p, ok := c.Policies[policy]
		switch {
		case !ok:
			return fmt.Errorf("%s has no policy %q", args[0], policy)
		case key == "":
			return fmt.Errorf("the key is empty")
		}
		override, err := overrideOf(policy, key)
		if err != nil {
			return err
		}
		return explainPolicy(c, policy, p, key, plan, override, stdout)
	}
	if !strings.Contains(name, "/") {
		return one(name)
	}
	route, err := routeOf(c, name)
	policy, all := c.Routes[route], c.AllRoutes
	switch {
	case err != nil:
		return err
	case route == "" && all == "":
		return fmt.Errorf("%s has no route for %s, which has the limiter of the middleware", args[0], name)
	case route == "":
		fmt.Fprintf(stdout, "No route matches: the request has the limiter of the middleware, and the policy %q of all routes.\n", all)
		return one(all)
	case policy == all:
		fmt.Fprintf(stdout, "The route %q has the policy %q, which is that of all routes.\n", route, policy)
		return one(all)
	}
	fmt.Fprintf(stdout, "The route %q has the policy %q.\n", route, policy)
	if err := one(policy); err != nil || all == "" {
		return err
	}
	fmt.Fprintf(stdout, "\nThe request is charged to the policy %q of all routes, too.\n", all)
	return one(all)
}

// explainPolicy prints the limits of a key in the policy p of c, which is called name. The key has an override.
func explainPolicy(c *rules.Config, name string, p rules.Policy, key, plan string, override rules.Override, stdout io.Writer) error {
	print := func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) }
	if until := override.Until; !until.IsZero() {
		end := "ends"
		if !time.Now().Before(until) {
			end, override = "ended", rules.Override{}
		}
		print("The override of the key %s at %s.", end, until.Format(time.RFC3339))
	}
	switch {
	case c.Disabled:
		print("All policies are off: no rule is enforced or counted.")
	case p.Disabled:
		print("The policy is off: its rules are neither enforced nor counted.")
	}
	hasPlan := func(plan string) bool {
		return plan == "" || slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return slices.Contains(plansOf(r), plan) })
	}
	if !hasPlan(plan) {
		print("No rule of the policy has the plan %q.", plan)
	}
	if !hasPlan(override.Plan) { // it is in Redis, and older than the configuration
		print("No rule of the policy has the plan %q of the override.", override.Plan)
		override.Plan = ""
	}
	limits := override.Limits
	override.Limits = maps.Clone(limits)
	for _, rule := range slices.Sorted(maps.Keys(limits)) {
		if !slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r.Name == rule }) {
			print("The policy has no rule %q of the override.", rule)
			delete(override.Limits, rule)
		} else if _, err := limiterOf(name, p, key, rules.Override{Limits: map[string]core.Limit{rule: limits[rule]}}); err != nil {
			print("The rule %q cannot have the limit of the override, %v.", rule, limits[rule])
			delete(override.Limits, rule)
		}
	}
	l, err := limiterOf(name, p, key, override)
	if err != nil {
		return err
	}
	if hasPlan(plan) {
		l = l.Plan(plan)
	}
	d, err := l.Peek(context.Background(), key)
	if err != nil {
		return err
	}
	if p.Enforce != 100 {
		in := "not among them"
		if rules.InPercent(name, key, p.Enforce) {
			in = "among them"
		}
		print("The policy is enforced for %s%% of the keys; this key is %s.", strconv.FormatFloat(p.Enforce, 'f', -1, 64), in)
	}
	mode := func(shadow bool) string {
		switch {
		case c.Disabled || p.Disabled:
			return "off"
		case shadow:
			return "shadow"
		}
		return "enforce"
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tALGORITHM\tLIMIT\tSOURCE\tMODE")
	for _, r := range p.Rules {
		s, _ := d.StateOf(name + "." + r.Name)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Algorithm, inForce(s, r.Unit), sourceOf(s, r.Name, override), mode(s.Rule.IsShadow()))
		if candidate := r.Candidate; candidate != nil {
			fmt.Fprintf(w, "%s, candidate\t%s\t%s\tbase\t%s\n", r.Name, candidate.Algorithm, limitText(candidate.Limit, candidate.Spec, cmp.Or(candidate.Timezone, "UTC"), 0, ""), mode(true))
		}
	}
	return w.Flush()
}

// newRequest returns a request for a text such as "POST /login" or "GET example.com/v1".
func newRequest(text string) (*http.Request, error) {
	method, target, ok := strings.Cut(text, " ")
	if !ok {
		method, target = http.MethodGet, text
	}
	return http.NewRequest(method, "http://"+target, nil)
}

// routeOf returns the route of a request such as "POST /login" or "GET example.com/v1".
func routeOf(c *rules.Config, request string) (string, error) {
	r, err := newRequest(request)
	if err != nil {
		return "", err
	}
	return c.Route(r), nil
}

// limiterOf returns the limiter of p, which is called name, if key has the override o.
func limiterOf(name string, p rules.Policy, key string, o rules.Override) (*core.Limiter, error) {
	o.Until = time.Time{}
	p.Disabled, p.Keys = false, map[string]rules.Override{key: o}
	set, err := rules.New(memstore.New(), &rules.Config{Policies: map[string]rules.Policy{name: p}})
	if err != nil {
		return nil, err
	}
	return set.Limiter(name)
}

// sourceOf returns the part of the file that has the limit of s, a state of a rule of a key with the override o.
func sourceOf(s core.State, rule string, o rules.Override) string {
	_, isOwn := o.Limits[rule]
	switch plan := s.Rule.PlanName(); {
	case o.Blocked || isOwn:
		return "override of the key"
	case plan == "":
		return "base"
	case o.Plan != "":
		return fmt.Sprintf("plan %q, override of the key", plan)
	default:
		return fmt.Sprintf("plan %q", plan)
	}
}

// limitText returns the text of a limit of a rule, whether its window begins with the first event or its events take
// places by cost, the time zone of a quota, the headroom of its plan, and the unit of its rule, unless they are empty.
func limitText(l core.Limit, of core.Spec, zone string, headroom float64, unit string) string {
	text := l.String()
	if l == core.Unlimited || l == core.Blocked {
		return text
	}
	if of.FromFirst {
		text += " from the first event"
	}
	if of.ByCost {
		text += " by cost"
	}
	if l.Calendar != 0 {
		text += " in " + zone
	}
	if headroom > 0 {
		text += fmt.Sprintf(" headroom %v%%", headroom)
	}
	if unit != "" {
		text += " (" + unit + ")"
	}
	return text
}
