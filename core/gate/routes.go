package gate

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
)

// Routes makes p choose the limiter of a request, in place of the limiter of New. *rules.Set is a
// Policy: its configuration file has patterns of routes and the names of their policies.
//
//	nethttplimit.New(api, keyfunc.RemoteIP(), gate.Routes(set))
//
// Everything else stays as given to New: the key function, which all routes share, [Cost], [Plan],
// [MaxDelay] and the limiters of [And]. A route with another key, such as a login, needs a gate of
// its own, or [keyfunc.FirstOf]. If New has And limiters, p must return limiters on their Store;
// otherwise such requests are undecidable ([OnError] with a [core.ErrInvalidAsk], status 500).
// Handlers use [Settle], or [SettleFor] with the limiter that p has chosen.
//
// If p has a method ForAll() *[core.Limiter], as *rules.Set has, the gate charges the limiter that ForAll
// returns with each request, too, unless it is nil: for the key of New, at the same cost, under the same
// plan, and in one decision with the limiter of the route, or that of New for a request without a route.
// Such a limit of all routes is all_routes in a configuration file. If both are the same limiter, it is
// charged once. ForAll must be fast and return a limiter on the Store of the others, as for [And], and the same
// one until the configuration changes.
//
// The response to a path that has a dot segment only when it is decoded, such as /files/%2e%2e/x or
// /files/a%2F..%2Fx, is 400 ([ErrPath]): handlers and routers do not agree on the route of such a
// path.
//
// Use the middleware where the router has matched the request, so that p gets the pattern: in
// handlers of a [http.ServeMux], with Use in Gin and Echo, and with With in chi. In front of a
// router, such as with Pre of Echo, with Use of a chi.Router or around a ServeMux, p gets the path
// alone, which the router may understand in another way. A client can then choose among the
// policies, unless the router is a ServeMux and p a *rules.Set. In a sub-router of chi and behind
// [http.StripPrefix], patterns lack the prefix.
//
// Routes panics if p is nil.
func Routes(p Policy) Option {
	argument.NotNil("gate: Routes", "policy", p)
	return option(func(o *options) { o.routes = p })
}

// ErrPath is the error of a request of a gate with [Routes] whose path has a dot segment only when it
// is decoded.
var ErrPath = errors.New("weir: the path has an encoded dot segment")

// A Policy chooses the limiters of requests.
type Policy interface {
	// ForRequest returns the limiter of r, or nil for the limiter of New. r.Pattern is the pattern
	// that the router has matched, in the syntax of the router: that of a [http.ServeMux],
	// c.FullPath() of Gin or c.Path() of Echo. It is empty if none has matched.
	//
	// A gate calls ForRequest once for each request that it does not skip, nor rejects with ErrPath, before
	// the key functions, and concurrently; and again if the result of ForAll has changed meanwhile (see
	// Routes). ForRequest must be fast, must not modify r, and should return
	// the same *core.Limiter each time, not new views: a gate recognizes exhausted keys by it (see
	// [And]).
	ForRequest(r *http.Request) *core.Limiter
}

// A policyOfAll is a Policy with a limiter of all routes: see [Routes].
type policyOfAll interface{ ForAll() *core.Limiter }

// route returns the limiter of r by the option Routes, which is usual for a request without a route, and that of all
// routes, or nil. pattern is the pattern of the route that the framework has matched. rec has room for a copy of r.
func (g *gate) route(rec *record, r *http.Request, pattern string, usual *core.Limiter) (l, all *core.Limiter, err error) {
	if hidesDots(r.URL) {
		return nil, nil, ErrPath
	}
	if pattern != "" && pattern != r.Pattern {
		rec.request = *r
		rec.request.Pattern = pattern
		r = &rec.request
	}
	if g.ofAll == nil {
		return cmp.Or(g.routes.ForRequest(r), usual), nil, nil
	}
	all = g.ofAll.ForAll()
	for range 10 { // a configuration changes once, unless ForAll returns another view each time
		l = g.routes.ForRequest(r)
		now := g.ofAll.ForAll()
		if now == all { // both are of one configuration
			break
		}
		all = now
	}
	return cmp.Or(l, usual), all, nil
}

// hidesDots reports whether the path of u has a segment "." or ".." only when it is decoded.
func hidesDots(u *url.URL) bool {
	if u.RawPath == "" || !strings.Contains("/"+u.Path, "/.") {
		return false
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		decoded, err := url.PathUnescape(segment)
		if err != nil || decoded == segment {
			continue
		}
		for part := range strings.SplitSeq(decoded, "/") {
			if part == "." || part == ".." {
				return true
			}
		}
	}
	return false
}
