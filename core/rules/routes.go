package rules

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// routes finds the pattern of a path as [http.ServeMux] does, with the same precedence. It allocates
// nothing, and has no redirects: see DESIGN.md. Each entry has the patterns of a host and method.
type routes map[hostMethod]*routeNode

// A hostMethod belongs to patterns. An empty host or method stands for all.
type hostMethod struct{ host, method string }

// A routeNode has the patterns that begin with the same segments.
type routeNode struct {
	children map[string]*routeNode // by the next segment; "/" is that of {$}
	wildcard *routeNode            // for {x}
	pattern  string                // that ends here
	below    string                // that ends here with a slash or {x...}
}

// newRoutes checks the routes of c.
func newRoutes(c *Config) (routes, error) {
	t, mux := make(routes), http.NewServeMux()
	patterns := slices.Sorted(maps.Keys(c.Routes))
	for i, p := range patterns {
		if _, ok := c.Policies[c.Routes[p]]; !ok {
			return nil, fmt.Errorf("weir: route %q: there is no policy %q", p, c.Routes[p])
		}
		if register(mux, p) != "" {
			other, reason := rejected(p, patterns[:i])
			if other < 0 {
				return nil, fmt.Errorf("weir: route %q is an invalid pattern: %s", p, reason)
			}
			return nil, fmt.Errorf("weir: route %q conflicts with %q: %s", p, patterns[other], reason)
		}
		t.add(p)
	}
	return t, nil
}

// rejected returns the reason why a ServeMux with the patterns others rejects pattern, and the index
// of the pattern in conflict, or -1 if pattern is invalid.
func rejected(pattern string, others []string) (other int, reason string) {
	if reason = register(http.NewServeMux(), pattern); reason != "" {
		return -1, reason
	}
	for i, o := range others {
		mux := http.NewServeMux()
		register(mux, o)
		if reason = register(mux, pattern); reason != "" {
			_, why, _ := strings.Cut(reason, ":\n")
			why, _, _ = strings.Cut(why, "\n")
			return i, why
		}
	}
	return -1, ""
}

// register adds a pattern to mux, and returns the text of its panic.
func register(mux *http.ServeMux, pattern string) (reason string) {
	defer func() {
		if e := recover(); e != nil {
			reason = fmt.Sprint(e)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return ""
}

// add adds a valid pattern.
func (t routes) add(pattern string) {
	slash := strings.IndexByte(pattern, '/')
	var at hostMethod
	at.host = pattern[:slash]
	if i := strings.IndexAny(at.host, " \t"); i >= 0 {
		at.method, at.host = at.host[:i], strings.TrimLeft(at.host[i:], " \t")
	}
	if t[at] == nil {
		t[at] = new(routeNode)
	}
	n := t[at]
	for segment, rest, more := "", pattern[slash+1:], true; more; {
		segment, rest, more = strings.Cut(rest, "/")
		switch {
		case segment == "" && !more, strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "...}"):
			n.below = pattern
			return
		case segment == "{$}":
			n = n.child("/")
		case strings.HasPrefix(segment, "{"):
			if n.wildcard == nil {
				n.wildcard = new(routeNode)
			}
			n = n.wildcard
		default:
			n = n.child(unescape(segment))
		}
	}
	n.pattern = pattern
}

func (n *routeNode) child(segment string) *routeNode {
	if n.children[segment] == nil {
		if n.children == nil {
			n.children = make(map[string]*routeNode)
		}
		n.children[segment] = new(routeNode)
	}
	return n.children[segment]
}

// find returns the pattern of a request, or "". path must be clean (see cleanPath). As in a
// ServeMux, "/v1" is "/v1/" unless it has a pattern of its own.
func (t routes) find(method, host, path string) string {
	pattern, exact := t.match(method, host, path, false)
	if !exact && !strings.HasSuffix(path, "/") {
		if p, exact := t.match(method, host, path, true); exact {
			return p
		}
	}
	return pattern
}

// match returns the pattern of path, with a slash added if slash is true. exact reports whether no
// part of path is only below the pattern.
func (t routes) match(method, host, path string, slash bool) (pattern string, exact bool) {
	for _, h := range [...]string{host, ""} {
		for _, m := range [...]string{method, http.MethodGet, ""} {
			if m == http.MethodGet && method != m && method != http.MethodHead {
				continue
			}
			if pattern, exact = t[hostMethod{h, m}].match(path, slash); pattern != "" {
				return pattern, exact
			}
		}
	}
	return "", false
}

// match is that of routes, for the rest of a path.
func (n *routeNode) match(path string, slash bool) (pattern string, exact bool) {
	if n == nil {
		return "", false
	}
	if path == "" && slash {
		path, slash = "/", false
	}
	segment, rest := path, ""
	switch {
	case path == "":
		return n.pattern, true
	case path != "/":
		segment = path[1:]
		if i := strings.IndexByte(segment, '/'); i >= 0 {
			segment, rest = segment[:i], segment[i:]
		}
		segment = unescape(segment)
	}
	if pattern, exact = n.children[segment].match(rest, slash); pattern != "" {
		return pattern, exact
	}
	if segment != "/" {
		if pattern, exact = n.wildcard.match(rest, slash); pattern != "" {
			return pattern, exact
		}
	}
	return n.below, path == "/"
}

func unescape(segment string) string {
	if s, err := url.PathUnescape(segment); err == nil {
		return s
	}
	return segment
}
