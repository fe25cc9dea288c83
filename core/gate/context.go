package gate

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/request"
)

// FromContext returns the decision about the request whose context ctx is:
// r.Context(), or a context made from it, or a *gin.Context. With several gates
// on the request it is that of the innermost that has decided.
//
// It returns false if no gate has: the request was skipped, or let through because
// the Store failed.
func FromContext(ctx context.Context) (core.Decision, bool) {
	for r := request.From(ctx); r != nil; r = r.Outer() {
		if d := r.Decision(); d.Len() > 0 {
			return *d, true
		}
	}
	return core.Decision{}, false
}

// DecisionsFrom returns the decisions of all gates about the request whose context ctx is, the
// outermost first, with ctx as for [FromContext]. A gate that has not decided is left out.
func DecisionsFrom(ctx context.Context) []core.Decision {
	var list []core.Decision
	for r := request.From(ctx); r != nil; r = r.Outer() {
		if d := r.Decision(); d.Len() > 0 {
			list = append(list, *d)
		}
	}
	slices.Reverse(list)
	return list
}
