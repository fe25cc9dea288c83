package main

import (
	"cmp"
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
	"github.com/weir-go/weir/core/rules"
)

// explain prints the limits of a key in a policy, for a caller with a plan if one is given. A route
// such as "POST /login", in place of the name of a policy, stands for its policy.
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
	print := func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) }
	if strings.Contains(name, "/") {
		route, err := routeOf(c, name)
		if err != nil {
			return err
		}
		if route == "" {
			return fmt.Errorf("%s has no route for %s, which has the limiter of the middleware", args[0], name)
		}
		name = c.Routes[route]
		print("The route %q has the policy %q.", route, name)
	}
	p, ok := c.Policies[name]
	switch {
	case !ok:
		return fmt.Errorf("%s has no policy %q", args[0], name)
	case key == "":
		return fmt.Errorf("the key is empty")
	}
	var plan string
	if len(args) > 3 {
		plan = args[3]
	}
	override, err := overrideOf(name, key)
	if err != nil {
		return err
	}
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
	for _, rule := range slices.Sorted(maps.Keys(override.Limits)) {
		if !slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r.Name == rule }) {
			print("The policy has no rule %q of the override.", rule)
		}
	}
	enforced := rules.InPercent(name, key, p.Enforce)
	if p.Enforce != 100 {
		in := "not among them"
		if enforced {
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
		limit, headroom, source := limitOf(r, override, plan)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Algorithm, limitText(limit, r.Timezone, headroom, r.Unit), source, mode((r.Shadow || !enforced) && !override.Blocked))
		if candidate := r.Candidate; candidate != nil {
			fmt.Fprintf(w, "%s, candidate\t%s\t%s\tbase\t%s\n", r.Name, candidate.Algorithm, limitText(candidate.Limit, candidate.Timezone, 0, ""), mode(true))
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

// limitOf returns the limit of r for a caller with a plan, the headroom of that plan in percent, and the
// part of the file that has the limit.
func limitOf(r rules.Rule, o rules.Override, plan string) (limit core.Limit, headroom float64, source string) {
	const override = "override of the key"
	if o.Blocked {
		return core.Blocked, 0, override
	}
	source = fmt.Sprintf("plan %q", plan)
	if o.Plan != "" {
		plan, source = o.Plan, fmt.Sprintf("plan %q, %s", o.Plan, override)
	}
	headroom, ok := r.Headroom[plan]
	if limit, ok := o.Limits[r.Name]; ok {
		return limit, headroom, override
	}
	if i := slices.IndexFunc(r.Plans, func(p core.Plan) bool { return p.Name == plan }); i >= 0 {
		return r.Plans[i].Limit, headroom, source
	}
	if !ok {
		source = "base"
	}
	return r.Limit, headroom, source
}

// limitText returns the text of a limit with the time zone of a quota, the headroom of its plan, and the
// unit of its rule, unless they are empty. An empty zone is UTC.
func limitText(l core.Limit, zone string, headroom float64, unit string) string {
	text := l.String()
	if l == core.Unlimited || l == core.Blocked {
		return text
	}
	if l.Calendar != 0 {
		text += " in " + cmp.Or(zone, "UTC")
	}
	if headroom > 0 {
		text += fmt.Sprintf(" headroom %v%%", headroom)
	}
	if unit != "" {
		text += " (" + unit + ")"
	}
	return text
}
