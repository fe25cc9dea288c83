package adapter

import (
	"net/http"

	"github.com/weir-go/weir/core"
)

// limiterFor returns the limiter of New, or the limiter that the option Routes chooses for r.
func (g *Gate) limiterFor(r *http.Request, pattern string) *core.Limiter {
	if g.options.Routes != nil {
		if pattern != "" && pattern != r.Pattern {
			matched := *r
			matched.Pattern = pattern
			r = &matched
		}
		if l := g.options.Routes.ForRequest(r); l != nil {
			return l
		}
	}
	return g.asks[0].Limiter
}
