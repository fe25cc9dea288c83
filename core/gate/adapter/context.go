package adapter

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/request"
)

// A requestContext is the context of a request behind a gate. One allocation holds the context, the
// copy of the request that has the context, the Reservation and the values of the header fields. The
// Reservation has no asks if the gate has let the request through undecided.
type requestContext struct {
	request http.Request // first, because runtime.SetFinalizer takes only the beginning of an allocation
	context.Context
	gate        *Gate
	versions    versions         // of the header fields that describe the decision
	nested      bool             // there is a gate around this gate
	reservation core.Reservation // of the request, if it was decided

	values [2]string // of the header fields
}

func newRequestContext(ctx context.Context, g *Gate) *requestContext {
	rc := &requestContext{Context: ctx, gate: g, versions: g.versions}
	if outer := requestContextOf(ctx); outer != nil {
		rc.nested = true
		if g.options.Inherits {
			rc.versions |= outer.versions
		}
	}
	return rc
}

// bind returns the copy of r that has the context rc.
func (rc *requestContext) bind(r *http.Request) *http.Request {
	rc.request = *r.WithContext(rc)
	return &rc.request
}

func (rc *requestContext) Value(key any) any {
	if _, ok := key.(request.Key); ok {
		return rc
	}
	return rc.Context.Value(key)
}

// requestContextOf returns the requestContext of the innermost gate in ctx, or nil.
func requestContextOf(ctx context.Context) *requestContext {
	rc, _ := ctx.Value(request.Key{}).(*requestContext)
	return rc
}

// Outer implements [request.Record].
func (rc *requestContext) Outer() request.Record {
	if outer := requestContextOf(rc.Context); outer != nil {
		return outer
	}
	return nil
}

// Decision implements [request.Record].
func (rc *requestContext) Decision() core.Decision { return rc.reservation.Decision() }

// RegisterRequestKey makes [gate.FromContext], [gate.DecisionsFrom] and [gate.Settle] look for the
// *http.Request under key as well. It is for adapters of frameworks whose own context does not look
// up values in the context of the request.
func RegisterRequestKey(key any) { request.RegisterKey(key) }
