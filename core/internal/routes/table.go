// Package routes finds the pattern of a configuration that a request has, for package rules and the tests of
// adapters.
package routes

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-go/weir/core/internal/memo"
)

// A Table finds the routes of requests. Use [New] to make one. It is safe for concurrent use.
type Table struct {
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

// New returns a Table of patterns, as those of a [http.ServeMux], each with the rate of its policy. An error
// begins with the pattern that is invalid or conflicts with another one.
func New(rates map[string]float64) (*Table, error) {
	t := &Table{mux: http.NewServeMux(), rates: map[route]float64{"": math.Inf(1)}}
	t.known.Max = maxMatched
	for _, p := range slices.Sorted(maps.Keys(rates)) {
		if reason := Register(t.mux, p); reason != "" {
			other, why := Conflict(reason)
			if other == "" {
				return nil, fmt.Errorf("%q is an invalid pattern: %s", p, why)
			}
			return nil, fmt.Errorf("%q conflicts with %q: %s", p, other, why)
		}
		t.rates[route(p)] = rates[p]
		before, after, _ := strings.Cut(p, "/") // the method and the host
		t.depth, t.longest = max(t.depth, 1+strings.Count(after, "/")), max(t.longest, len(p))
		t.hosts = t.hosts || strings.LastIndexAny(before, " \t") < len(before)-1
	}
	return t, nil
}

// Register adds a pattern to mux, and returns the text of its panic, which is empty if the pattern is valid.
func Register(mux *http.ServeMux, pattern string) (reason string) {
	defer func() {
		if e := recover(); e != nil {
			reason = fmt.Sprint(e)
		}
	}()
	mux.Handle(pattern, route(pattern))
	return ""
}

// find returns the pattern of a request, or "". path must be clean (see cleanPath), except for a CONNECT.
func (t *Table) find(method, host, path string) route {
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

// Find returns the pattern that r has, or "". The documentation of rules.Set.ForRequest has the details.
func (t *Table) Find(r *http.Request) string { return string(t.of(r)) }

func (t *Table) of(r *http.Request) route {
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
func (t *Table) stricter(p, q route) bool {
	a, b := t.rates[p], t.rates[q]
	return a < b || a == b && q != "" && moreSpecific(p, q)
}
