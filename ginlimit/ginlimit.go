// Package ginlimit limits the requests of Gin.
//
//	store := memstore.New()
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerSecond(10))))
//	router := gin.New()
//	router.Use(ginlimit.New(api, keyfunc.RemoteIP()))
//
// Options such as [gate.Skip] and [gate.Cost] are in package gate, which also describes the
// header fields and the answers.
package ginlimit

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/keyfunc"
)

const name = "ginlimit"

// New returns a middleware that asks l whether the key of a request is within
// its limits. If so, the next handler runs, and finds the decision with
// [gate.FromContext], given the *gin.Context or c.Request.Context(). If not, the
// request is aborted and answered, and c.Errors has a [*gate.Rejection] of type
// gin.ErrorTypePublic: errors.Is(c.Errors.Last(), gate.ErrDenied). The answer is
// complete then: c.Writer drops what middlewares around this one add to it, such as
// the document that gin.ErrorLogger writes for every entry of c.Errors.
//
// Key functions get the *gin.Context as their ctx, the Store gets
// c.Request.Context().
//
// With [gate.RefundIf], c.Writer is wrapped. If nothing is written and c.Errors is
// not empty when the handlers have returned, a middleware around this one is taken to
// choose the status: the request is given back or not when that writes to c.Writer,
// and not if nothing ever is.
//
// The middleware is safe for concurrent use. New panics on arguments that could
// never work: a nil limiter, key function or option, an option of another
// adapter, limiters on different Stores.
func New(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) gin.HandlerFunc {
	g, onDenied := adapter.New[func(*gin.Context, core.Decision)](name, l, key, opts...)
	// A *gin.Context asks the context of its request only if the engine is told to.
	adapter.RegisterRequestKey(gin.ContextRequestKey)
	return func(c *gin.Context) {
		r, outcome, rejection := g.Admit(c, c.Writer.Header(), c.Request)
		c.Request = r
		if rejection == nil {
			run(outcome, c)
			return
		}
		c.Abort()
		// Not c.Error, which would take a *gin.Error that a key function wrapped.
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

// OnDenied replaces the answer to requests over the limit. The request is
// aborted and Retry-After and the other header fields are set already; status
// and body are up to f, which should use 429; if f writes no body, a middleware around
// this one may. Requests that could not be decided do not come here: see
// [gate.OnError]. OnDenied panics if f is nil.
func OnDenied(f func(c *gin.Context, d core.Decision)) gate.Option {
	return adapter.Denied(name, f)
}

// ClientIP keys by c.ClientIP(), Gin's own idea of the client. Gin believes the
// X-Forwarded-For of any peer until Engine.SetTrustedProxies says otherwise, and
// then a client chooses its own key: use it only where that is configured, and
// [keyfunc.XForwardedFor] elsewhere.
//
// An address becomes a key as in [keyfunc.RemoteIP], with the same options. It
// is [keyfunc.ErrNoKey] if there is none, or if the request is not Gin's.
func ClientIP(opts ...keyfunc.IPOption) keyfunc.Func {
	_, _ = keyfunc.CanonicalIP("192.0.2.1", opts...) // panics on a nil option, and now
	return func(ctx context.Context, _ *http.Request) (string, error) {
		c, ok := ctx.Value(gin.ContextKey).(*gin.Context)
		if !ok {
			return "", fmt.Errorf("%w: not a request of Gin", keyfunc.ErrNoKey)
		}
		return keyfunc.CanonicalIP(c.ClientIP(), opts...)
	}
}
