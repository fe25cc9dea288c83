// Package echolimit limits the requests of Echo (version 4).
//
//	store := memstore.New()
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerSecond(10))))
//	e := echo.New()
//	e.Use(echolimit.New(api, keyfunc.RemoteIP()))
//
// Options such as [gate.Skip] and [gate.Cost] are in package gate, which also describes the
// header fields and the answers.
package echolimit

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/keyfunc"
)

const name = "echolimit"

// New returns a middleware that asks l whether the key of a request is within
// its limits, and runs the next handler if so. The handler finds the decision
// with [gate.FromContext] in c.Request().Context().
//
// If not, it returns an *echo.HTTPError whose Message is a *[gate.Problem]. The
// header fields are set, except Content-Type, and nothing is written: status, body and media
// type are up to the HTTPErrorHandler of the application. Echo's default one sends the
// problem document as application/json. A handler that chooses another media type is in
// the second example.
//
// With [gate.RefundIf], the Writer of c.Response() is wrapped. If the handler returns
// an error and nothing is written, the request is given back or not when the answer
// is, as a rule by the HTTPErrorHandler, and not if there never is one.
//
// The ctx of key functions is the context of the request, whose Value looks a
// string up in c.Get first.
//
// The middleware is safe for concurrent use. New panics on arguments that could
// never work: a nil limiter, key function or option, an option of another
// adapter, limiters on different Stores.
func New(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) echo.MiddlewareFunc {
	g, onDenied := adapter.New[func(echo.Context, core.Decision) error](name, l, key, opts...)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r, outcome, rejection := g.Admit(&view{c}, c.Response().Header(), c.Request())
			c.SetRequest(r)
			switch {
			case rejection == nil && outcome == nil:
				return next(c)
			case rejection == nil:
				return run(outcome, c, next)
			case onDenied != nil && rejection.Denied():
				return onDenied(c, rejection.Decision)
			}
			c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff") // the path of the request is in the document
			return &echo.HTTPError{Code: rejection.Problem.Status, Message: rejection.Problem}
		}
	}
}

// OnDenied replaces the answer to requests over the limit: the middleware
// returns what f returns. Retry-After and the other header fields are set
// already; status and body are up to f, which should use 429. Requests that
// could not be decided do not come here: see [gate.OnError]. OnDenied panics if
// f is nil.
func OnDenied(f func(c echo.Context, d core.Decision) error) gate.Option {
	return adapter.Denied(name, f)
}

// RealIP keys by c.RealIP(), Echo's own idea of the client. Without an
// Echo.IPExtractor it believes the X-Forwarded-For of any peer, and then a
// client chooses its own key: use it only where one is configured, and
// [keyfunc.XForwardedFor] elsewhere.
//
// An address becomes a key as in [keyfunc.RemoteIP], with the same options. It
// is [keyfunc.ErrNoKey] if there is none, or if the request is not Echo's.
func RealIP(opts ...keyfunc.IPOption) keyfunc.Func {
	_, _ = keyfunc.CanonicalIP("192.0.2.1", opts...) // panics on a nil option, and now
	return func(ctx context.Context, _ *http.Request) (string, error) {
		c, ok := ctx.Value(viewKey{}).(echo.Context)
		if !ok {
			return "", fmt.Errorf("%w: not a request of Echo", keyfunc.ErrNoKey)
		}
		return keyfunc.CanonicalIP(c.RealIP(), opts...)
	}
}
