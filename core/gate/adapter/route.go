package adapter

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-go/weir/core"
)

// limiterFor returns the limiter of New, or the limiter that the option Routes chooses for r. rc is
// not bound to a request yet, and lends its own for the copy with the pattern.
func (g *Gate) limiterFor(rc *requestContext, r *http.Request, pattern string) *core.Limiter {
	if g.options.Routes != nil {
		if pattern != "" && pattern != r.Pattern {
			rc.request = *r
			rc.request.Pattern = pattern
			r = &rc.request
		}
		if l := g.options.Routes.ForRequest(r); l != nil {
			return l
		}
	}
	return g.asks[0].Limiter
}

// hidesDots reports whether the path of u has a segment "." or ".." only when it is decoded.
func hidesDots(u *url.URL) bool {
	if u.RawPath == "" {
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
