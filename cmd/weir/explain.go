package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/core/rules"
)

// explain prints the limits of a key in a policy, for a caller with a plan if one is given. A route
// such as "POST /login", in place of the name of a policy, stands for its policy and that of all routes.
func explain(args []string, stdout, _ io.Writer) error {
	c, err := load(args[0])
	if err != nil {
		return err
	}
	plan := ""
	if len(args) > 3 {
		plan = args[3]
	}
	return eachPolicy(c, args[0], args[1], stdout, func(policy string) error {
		s, err := newSubject(c, args[0], policy, args[2], plan)
		if err != nil {
			return err
		}
		s.override = s.policy.Keys[s.key]
		return s.explain(stdout)
	})
}

// eachPolicy calls f with the policies that name stands for, and prints why there are several: a policy of c, a route,
// or all for every policy. c is called file.
func eachPolicy(c *rules.Config, file, name string, stdout io.Writer, f func(policy string) error) error {
	print := func(format string, args ...any) { fmt.Fprintf(stdout, format+"\n", args...) }
	if name == every {
		for i, policy := range policiesOf(c, name) {
			if i > 0 {
				print("")
			}
			print("The policy %q:", policy)
			if err := f(policy); err != nil {
				return err
			}
		}
		return nil
	}
	if !strings.Contains(name, "/") {
		return f(name)
	}
	route, err := routeOf(c, name)
	policy, all := c.Routes[route], c.AllRoutes
	switch {
	case err != nil:
		return err
	case route == "" && all == "":
		return fmt.Errorf("%s has no route for %s, which has the limiter of the middleware", file, name)
	case route == "":
		print("No route matches: the request has the limiter of the middleware, and the policy %q of all routes.", all)
		return f(all)
	case policy == all:
		print("The route %q has the policy %q, which is that of all routes.", route, policy)
		return f(all)
	}
	print("The route %q has the policy %q.", route, policy)
	if err := f(policy); err != nil || all == "" {
		return err
	}
	print("\nThe request is charged to the policy %q of all routes, too.", all)
	return f(all)
}

// every is written in place of a policy, and stands for all of them. It is no name of a policy.
const every = "*"

// policiesOf returns the policies that name stands for, in order.
func policiesOf(c *rules.Config, name string) []string {
	if name == every {
		return slices.Sorted(maps.Keys(c.Policies))
	}
	return []string{name}
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
