package adapter

import (
	"net/http"

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
