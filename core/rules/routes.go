package rules

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/memo"
)

// routes finds the routes of requests.
type routes struct {
	mux     *http.ServeMux    // its handlers are of type route
	hosts   bool              // a pattern has a host
	depth   int               // the largest number of slashes in the path of a pattern
	longest int               // the length of the longest pattern
	rates   map[route]float64 // of the policies
	known   memo.Map[matched, known]
}

// maxMatched is the number of patterns of routers that are remembered, each with a method.
const maxMatched = 4096

// methods are the methods with which patterns are remembered. A client can send any other method,
// and the text of the method is a part of the first line of its request, which then stays in
// memory.
var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
}

// A matched is a pattern that a router has matched. The method is empty if the route is not
// remembered.
type matched struct{ method, pattern string }

// A known is the result of routed, and the route if the pattern is exact.
type known struct {
	path  string
	exact bool
	route route
}

// A route is a pattern of a configuration.
type route string

// ServeHTTP implements [http.Handler]. It is not called.
func (route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// newRoutes checks the routes of c.
func newRoutes(c *Config) (*routes, error) {
	t := &routes{mux: http.NewServeMux(), rates: map[route]float64{"": math.Inf(1)}}
	t.known.Max = maxMatched
	patterns := slices.Sorted(maps.Keys(c.Routes))
	for _, p := range patterns {
		policy, ok := c.Policies[c.Routes[p]]
		if !ok {
			return nil, fmt.Errorf("weir: route %q: there is no policy %q", p, c.Routes[p])
		}
		if reason := register(t.mux, p); reason != "" {
			other, why := conflict(reason)
			if other == "" {
				return nil, fmt.Errorf("weir: route %q is an invalid pattern: %s", p, why)
			}
			return nil, fmt.Errorf("weir: route %q conflicts with %q: %s", p, other, why)
		}
		t.rates[route(p)] = policy.rate()
		before, after, _ := strings.Cut(p, "/") // the method and the host
		t.depth, t.longest = max(t.depth, 1+strings.Count(after, "/")), max(t.longest, len(p))
		t.hosts = t.hosts || strings.LastIndexAny(before, " \t") < len(before)-1
	}
	return t, nil
}

// register adds a pattern to mux, and returns the text of its panic.
func register(mux *http.ServeMux, pattern string) (reason string) {
	defer func() {
		if e := recover(); e != nil {
			reason = fmt.Sprint(e)
		}
	}()
	mux.Handle(pattern, route(pattern))
	return ""
}

// find returns the pattern of a request, or "". path must be clean (see cleanPath), except for a CONNECT.
func (t *routes) find(method, host, path string) route {
	if len(path) > maxLooked {
		path = head(path, t.depth+1, t.longest)
	}
	u := &url.URL{Path: path}
	if p, err := url.PathUnescape(path); err == nil {
		u.Path, u.RawPath = p, path
	}
	for range 2 {
		h, _ := t.mux.Handler(&http.Request{Method: method, Host: host, URL: u})
		if r, ok := h.(route); ok {
			return r
		}
		if strings.HasSuffix(path, "/") {
			break
		}
		// A ServeMux redirects /v1 to /v1/ unless /v1 has a pattern of its own.
		u.Path += "/"
		if u.RawPath != "" {
			u.RawPath += "/"
		}
	}
	return ""
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
	if pattern := a.routes.of(r); pattern != "" {
		return a.policies[a.config.Routes[string(pattern)]].limiter
	}
	return nil
}

// Route returns the pattern in c.Routes that [Set.ForRequest] chooses for r, or "" if there is
// none. If the routes of c are invalid, the result is "".
func (c *Config) Route(r *http.Request) string {
	t, err := newRoutes(c)
	if err != nil {
		return ""
	}
	return string(t.of(r))
}

// of returns the pattern of r, or "".
func (t *routes) of(r *http.Request) route {
	var m matched
	if m.pattern = r.Pattern; !t.hosts {
		if i := slices.Index(methods, r.Method); i >= 0 {
			m.method = methods[i]
		}
	}
	k := t.known.Get(m, func(m matched) (k known) {
		if k.path, k.exact = routed(m.pattern); k.exact && m.method != "" {
			k.route = t.find(m.method, "", cleanPath(k.path))
		}
		return k
	})
	if k.exact && m.method != "" {
		return k.route
	}
	connect := r.Method == http.MethodConnect
	whole := k.path
	if !connect {
		whole = cleanPath(whole)
	}
	if k.exact || r.URL == nil {
		return t.find(r.Method, r.Host, whole)
	}
	var best route
	found := false
	add := func(path string, better func(p, q route) bool) {
		if p := t.find(r.Method, r.Host, path); !found || better(p, best) {
			best, found = p, true
		}
		if path, ok := strings.CutSuffix(path, "/"); ok && k.path != "" && (connect || within(path, k.path)) {
			if p := t.find(r.Method, r.Host, path); t.stricter(p, best) {
				best = p
			}
		}
	}
	forms, others := formsOf(r.URL)
	for _, path := range forms {
		clean := cleanPath(path)
		if !connect {
			path = clean
		} else if path != clean {
			others = append(others, clean)
		}
		if within(path, k.path) {
			add(path, moreSpecific)
		}
	}
	if !found {
		best, found = t.find(r.Method, r.Host, whole), true
	}
	for _, path := range others {
		// The handler of a CONNECT may leave the prefix: no router has cleaned the path.
		if path = cleanPath(path); connect || within(path, k.path) {
			add(path, t.stricter)
		}
	}
	return best
}

// stricter reports whether the policy of p has a lower rate than that of q, or the same rate and p is more
// specific. No route is less strict than one with a limit.
func (t *routes) stricter(p, q route) bool {
	a, b := t.rates[p], t.rates[q]
	return a < b || a == b && q != "" && moreSpecific(p, q)
}
