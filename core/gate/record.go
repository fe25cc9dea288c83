package gate

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/requestkey"
)

// A record is the context of a request behind a gate, except for that of an early charge. One allocation holds the
// context, the copy of the request that has the context, the Reservation and the values of the header fields. The
// Reservation has no asks if the gate has let the request through undecided. In a check, the context is
// that of the request itself, and the copy has the parent of the context.
type record struct {
	request     http.Request  // first, because runtime.SetFinalizer takes only the beginning of an allocation
	original    *http.Request // whose context is the parent
	gate        *gate
	outer       *record                // the previous decision about the request, or nil
	latest      atomic.Pointer[record] // the last check of the handler, whose outer records end with this one; nil if there was none
	reservation core.Reservation       // of the request, if it was decided

	values    [2]string // of the header fields
	placeless bool      // no rule in force is in flight; false if writeFields has not found that out
}

func newRecord(r *http.Request, g *gate) *record {
	rec := &record{original: r, gate: g}
	if outer := recordOf(r.Context()); outer != nil {
		rec.outer = outer.innermost()
	}
	return rec
}

// innermost returns the record of the last decision about the request of rec.
func (rec *record) innermost() *record {
	if rec != nil {
		if latest := rec.latest.Load(); latest != nil {
			return latest
		}
	}
	return rec
}

// A recordContext is the context of a record.
type recordContext record

func (c *recordContext) Deadline() (time.Time, bool) { return c.original.Context().Deadline() }
func (c *recordContext) Done() <-chan struct{}       { return c.original.Context().Done() }
func (c *recordContext) Err() error                  { return c.original.Context().Err() }

func (c *recordContext) Value(key any) any {
	if _, ok := key.(recordKey); ok {
		return (*record)(c)
	}
	return c.original.Context().Value(key)
}

// recordKey is the key of the record of the innermost gate in a context.
type recordKey struct{}

// recordOf returns the record of the innermost gate in ctx, or nil.
func recordOf(ctx context.Context) *record {
	rec, _ := ctx.Value(recordKey{}).(*record)
	return rec
}

// recordFrom is recordOf for the context of a request, or one that stores the request under a
// registered key.
func recordFrom(ctx context.Context) *record {
	if rec := recordOf(ctx); rec != nil {
		return rec
	}
	if r := requestkey.From(ctx); r != nil {
		return recordOf(r.Context())
	}
	return nil
}

// detached returns the context of the request without its end.
func (rec *record) detached() context.Context { return context.WithoutCancel(rec.original.Context()) }

// charged reports whether the gate or check of rec has admitted its request, so that handlers can settle
// the cost.
func (rec *record) charged() bool { return rec.reservation.Decision().Allowed }

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
