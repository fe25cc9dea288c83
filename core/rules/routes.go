package rules

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/memo"
)

// routes finds the routes of requests.
type routes struct {
	mux   *http.ServeMux // its handlers are of type route
	hosts bool           // a pattern has a host
	known memo.Map[matched, known]
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
	t := &routes{mux: http.NewServeMux()}
	t.known.Max = maxMatched
	patterns := slices.Sorted(maps.Keys(c.Routes))
	for _, p := range patterns {
		if _, ok := c.Policies[c.Routes[p]]; !ok {
			return nil, fmt.Errorf("weir: route %q: there is no policy %q", p, c.Routes[p])
		}
		if reason := register(t.mux, p); reason != "" {
			other, why := conflict(reason)
			if other == "" {
				return nil, fmt.Errorf("weir: route %q is an invalid pattern: %s", p, why)
			}
			return nil, fmt.Errorf("weir: route %q conflicts with %q: %s", p, other, why)
		}
		before, _, _ := strings.Cut(p, "/") // the method and the host
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

// find returns the pattern of a request, or "". path must be clean (see cleanPath).
func (t *routes) find(method, host, path string) route {
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
// /v1/: both choose one policy. Neither cleans the path of a CONNECT.
// If the path contains %2F, which some handlers take for a slash, ForRequest looks up both forms,
// and the pattern with more literal segments, or else with more segments, applies. A gate rejects a
// path such as /files/a%2F..%2Fb (see gate.Routes).
//
// Methods and hosts are those of r. A client can send any host: use a pattern with a host only if
// the router checks the host, too.
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
	clean := cleanPath
	if r.Method == http.MethodConnect {
		clean = func(path string) string { return path }
	}
	if k.exact || r.URL == nil {
		return t.find(r.Method, r.Host, clean(k.path))
	}
	var best route
	found := false
	// The handler may take %2F for a slash or for a part of a segment.
	forms := [2]string{r.URL.EscapedPath()}
	forms[1] = slashes.Replace(forms[0])
	for i, path := range forms {
		if path = clean(path); i == 1 && forms[1] == forms[0] || !within(path, k.path) {
			continue
		}
		if p := t.find(r.Method, r.Host, path); !found || moreSpecific(p, best) {
			best, found = p, true
		}
	}
	if !found {
		return t.find(r.Method, r.Host, clean(k.path))
	}
	return best
}
