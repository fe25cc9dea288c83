// Package ginlimit limits the requests of Gin.
//
//	store := memstore.New()
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerSecond(10))))
//	router := gin.New()
//	router.Use(ginlimit.New(api, keyfunc.RemoteIP()))
//
// Options such as [gate.Skip] and [gate.Cost] are in package gate, which also describes the
// responses and their header fields.
package ginlimit

import (
	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/keyfunc"
)

const name = "ginlimit"

// New returns a middleware that limits the requests of each key with l. It panics if l, key or an
// option is nil, if an option belongs to another adapter, or if the limiters use different Stores.
// The middleware is safe for concurrent use.
//
// Handlers of admitted requests get the decision from [gate.FromContext], called with the
// *gin.Context or with c.Request.Context().
//
// For a denied or rejected request, the middleware aborts the chain, writes the response (or calls
// the function of [OnDenied]) and appends a [*gate.Rejection] of type gin.ErrorTypePublic to
// c.Errors. After a denial, errors.Is(c.Errors.Last(), gate.ErrDenied) is true. Once the response
// has been written, outer middlewares such as gin.ErrorLogger cannot add to it.
//
// With [gate.RefundIf], the middleware wraps c.Writer. If the handlers write nothing but set
// c.Errors, an outer middleware is expected to write the response, and RefundIf gets the status of
// that response. If no response is written, nothing is refunded.
//
// Key functions receive the *gin.Context. The Store receives c.Request.Context().
func New(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) gin.HandlerFunc {
	g, onDenied := adapter.New[func(*gin.Context, core.Decision)](name, l, key, opts...)
	// A *gin.Context looks in the context of its request only with Engine.ContextWithFallback.
	adapter.RegisterRequestKey(gin.ContextRequestKey)
	return func(c *gin.Context) {
		r, outcome, rejection := g.Admit(c, c.Writer.Header(), c.Request, c.FullPath())
		c.Request = r
		if rejection == nil {
			run(outcome, c)
			return
		}
		c.Abort()
		// c.Error would add a *gin.Error that a key function has wrapped instead of the Rejection.
		c.Errors = append(c.Errors, &gin.Error{Err: rejection, Type: gin.ErrorTypePublic})
		if onDenied != nil && rejection.Denied() {
			onDenied(c, rejection.Decision)
			if !c.Writer.Written() {
				return
			}
		} else {
			adapter.WriteProblem(c.Writer, r, rejection.Problem)
		}
		c.Writer = answered{c.Writer}
	}
}

// OnDenied replaces the response to requests over the limit. When f is called, the request is
// aborted, and Retry-After and the other header fields are set. f must choose the status, which
// should be 429, and the body; if f writes no body, an outer middleware may write it. For requests
// that could not be decided, see [gate.OnError]. OnDenied panics if f is nil.
func OnDenied(f func(c *gin.Context, d core.Decision)) gate.Option {
	return adapter.Denied(name, f)
}
