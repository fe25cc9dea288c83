package gate

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core"
)

// FromContext returns the decision about the request that ctx belongs to. ctx is r.Context(), a
// context derived from it, or a *gin.Context. If several gates have decided, FromContext returns
// the decision of the innermost gate, or that of a later Check of an adapter in its handler.
//
// FromContext returns false if no gate has decided, because it skipped the request or the Store
// failed.
func FromContext(ctx context.Context) (core.Decision, bool) {
	for rec := recordFrom(ctx).innermost(); rec != nil; rec = rec.outer {
		if d := rec.reservation.Decision(); d.Len() > 0 {
			return d, true
		}
	}
	return core.Decision{}, false
}

// DecisionsFrom returns the decisions of all gates that have decided, the outermost gate first. ctx
// is as for [FromContext].
func DecisionsFrom(ctx context.Context) []core.Decision {
	var list []core.Decision
	for rec := recordFrom(ctx).innermost(); rec != nil; rec = rec.outer {
		if d := rec.reservation.Decision(); d.Len() > 0 {
			list = append(list, d)
		}
	}
	slices.Reverse(list)
	return list
}
