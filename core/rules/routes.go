package rules

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/bounds"
	"github.com/weir-go/weir/core/internal/routes"
)

// tooManyRules returns the reason why the policy of a route of c and that of all routes cannot be in one
// decision, or an empty text.
func (c *Config) tooManyRules() string {
	all := c.Policies[c.AllRoutes]
	for _, pattern := range slices.Sorted(maps.Keys(c.Routes)) {
		name := c.Routes[pattern]
		of := c.Policies[name]
		if n, m := all.countRules(), of.countRules(); name != c.AllRoutes && n+m > bounds.Charges {
			return fmt.Sprintf("policy %q has %d rules, candidates and bans, and %q of the route %q has %d: a decision can have %d", c.AllRoutes, n, name, pattern, m, bounds.Charges)
		}
	}
	return ""
}

// newRoutes checks the routes of c.
func newRoutes(c *Config) (*routes.Table, error) {
	if c.AllRoutes != "" {
		reason := c.tooManyRules()
		if _, ok := c.Policies[c.AllRoutes]; !ok {
			reason = fmt.Sprintf("there is no policy %q", c.AllRoutes)
		}
		if reason != "" {
			return nil, fmt.Errorf("weir: all_routes: %s", reason)
		}
	}
	rates := make(map[string]float64, len(c.Routes))
	for _, p := range slices.Sorted(maps.Keys(c.Routes)) {
		policy, ok := c.Policies[c.Routes[p]]
		if !ok {
			return nil, fmt.Errorf("weir: route %q: there is no policy %q", p, c.Routes[p])
		}
		rates[p] = policy.rate()
	}
	t, err := routes.New(rates)
	if err != nil {
		return nil, fmt.Errorf("weir: route %w", err)
	}
	return t, nil
}

// ForRequest returns the limiter of the policy that the routes choose for r, or nil if no route
// matches. It implements gate.Policy, for the option gate.Routes of a middleware. The limiter
// stays valid after [Set.Apply].
//
// If r.Pattern is set, a router has matched r already. ForRequest looks up that pattern as if it
// were the path of r, so that each spelling of a path has the policy of the handler that it
// reaches. If the pattern ends with a slash, or contains * or {x...}, it looks up the path of r, if
// the path is within the pattern, and otherwise the pattern up to that part. If r.Pattern is empty,
// it looks up the path of r.
//
//	r.Pattern     path of r     looked up     a route that applies    one that does not
//	/login        /%6cogin      /login        /login
//	/users/:id    /users/me     /users/:id    /users/{id}, /users/    /users/me
//	/files/       /files/a      /files/a      /files/a, /files/
//	/files/*      /other        /files/       /files/                 /other
//	              //login       /login        /login
//
// Paths are cleaned like those of a [http.ServeMux], which redirects //login to /login and /v1 to
// /v1/: both choose one policy.
//
// The handler of a prefix may read a path in several ways. If the path contains %2F, ForRequest looks up
// the path with %2F and with slashes, and the pattern with more literal segments, or else with more
// segments, applies. It also looks up the following forms. The policy with the lower rate
// applies: the rate of a policy is the lowest of its limits without a plan, divided by the period, and 0 for
// a limit without a period. If the rates are equal, the pattern with more literal segments applies. A
// request whose path itself has no route does not get a policy without a limit.
//
//	form                            path                     looked up, too     reader
//	CONNECT, cleaned                CONNECT /files//a/b      /files/a/b         http.FileServer behind a ServeMux
//	slashes for backslashes         /files/a%5Cb             /files/a/b         file systems of Windows
//	decoded twice                   /files/%2561/b           /files/a/b         Static of Echo 4
//	without the slash at the end    /files/a/                /files/a           Static of Echo, path.Clean
//
// The last form is for requests with a pattern only. ForRequest tells lower from upper case, and a ; is a
// part of a segment. A gate rejects a path such as /files/a%2F..%2Fb (see gate.Routes).
//
// Methods and hosts are those of r. A handler such as [http.FileServer] serves a request of any method that
// the router passes on: the pattern of a route to limit it has no method. A client can send any host: use a
// pattern with a host only if the router checks the host, too.
func (s *Set) ForRequest(r *http.Request) *core.Limiter {
	a := s.applied.Load()
	if len(a.config.Routes) == 0 {
		return nil
	}
	if pattern := a.routes.Find(r); pattern != "" {
		return a.policies[a.config.Routes[pattern]].limiter
	}
	return nil
}

// ForAll returns the limiter of the policy of all routes, or nil if there is none (all_routes in a file,
// Config.AllRoutes). A gate with the option gate.Routes charges it with each request, in one decision with
// the limiter of ForRequest.
func (s *Set) ForAll() *core.Limiter { return s.applied.Load().all }

// Route returns the pattern in c.Routes that [Set.ForRequest] chooses for r, or "" if there is
// none. If the routes of c are invalid, or AllRoutes, the result is "".
func (c *Config) Route(r *http.Request) string {
	t, err := newRoutes(c)
	if err != nil {
		return ""
	}
	return t.Find(r)
}
