package rules

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/weir-go/weir/core"
)

// ForRequest returns the limiter of the policy that the routes choose for r, or nil if no route
// matches. It implements gate.Policy, for the option gate.Routes of a middleware. The limiter
// stays valid after [Set.Apply].
//
// If r.Pattern is set, a router has matched r already. ForRequest looks up that pattern as if it
// were the path of r, so that each spelling of a path has the policy of the handler that it reaches:
// with the pattern /login, the paths //login, /login/ and /%6cogin belong to the route of /login. A
// placeholder, such as :id or {id}, is a segment like others: /users/:id belongs to the route
// /users/{id}, or to /users/. A route of one of its paths, such as /users/me, does not apply, because
// it is not a pattern of the router.
//
// If r.Pattern ends with a slash, or contains * or {x...}, ForRequest looks up the path of r, if the
// path is within the pattern, and otherwise the pattern up to that part. If r.Pattern is empty, it
// looks up the path of r. Paths are cleaned like those of a [http.ServeMux], which redirects
// //login to /login and /v1 to /v1/: both choose one policy.
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

// Route returns the pattern in c.Routes that [Set.ForRequest] chooses for r, or "" if there is none.
// If the routes of c are invalid, the result is "".
func (c *Config) Route(r *http.Request) string {
	t, err := newRoutes(c)
	if err != nil {
		return ""
	}
	return string(t.of(r))
}

// of returns the pattern of r, or "".
func (t *routes) of(r *http.Request) route {
	path, exact := routed(r.Pattern)
	if i := slices.Index(methods, r.Method); i >= 0 && exact && !t.hosts {
		return t.known.Get(matched{methods[i], path}, func(m matched) route { return t.find(m.method, "", cleanPath(m.path)) })
	}
	if !exact && r.URL != nil {
		if own := cleanPath(r.URL.EscapedPath()); within(own, path) {
			path = own
		}
	}
	return t.find(r.Method, r.Host, cleanPath(path))
}

// routed returns the path of the pattern of a router, up to a part that stands for any number of
// segments. exact reports whether there is no such part.
func routed(pattern string) (path string, exact bool) {
	i := strings.IndexByte(pattern, '/')
	if i < 0 {
		return "", false
	}
	pattern = pattern[i:]
	if path, exact = strings.CutSuffix(pattern, "{$}"); exact {
		return path, true
	}
	if i := strings.LastIndex(pattern, "/{"); i >= 0 && strings.HasSuffix(pattern, "...}") {
		return pattern[:i+1], false
	}
	path, _, found := strings.Cut(pattern, "*")
	return path, !found && path[len(path)-1] != '/'
}

// within reports whether path begins with prefix, in which a segment with : or { stands for any
// segment.
func within(path, prefix string) bool {
	for {
		want, prefixes, more := strings.Cut(prefix, "/")
		segment, rest, ok := strings.Cut(path, "/")
		if segment = unescape(segment); !more {
			return strings.HasPrefix(segment, want)
		}
		if !ok || segment != unescape(want) && !strings.ContainsAny(want, ":{") {
			return false
		}
		path, prefix = rest, prefixes
	}
}

// cleanPath returns p as [http.ServeMux] cleans it.
func cleanPath(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	clean := path.Clean(p)
	if p[len(p)-1] != '/' || clean == "/" {
		return clean
	}
	if len(p) == len(clean)+1 && p[:len(clean)] == clean {
		return p
	}
	return clean + "/"
}

func unescape(segment string) string {
	if s, err := url.PathUnescape(segment); err == nil {
		return s
	}
	return segment
}
