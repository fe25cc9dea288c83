// Package echolimit limits the requests of Echo (version 4).
//
//	store := memstore.New()
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerSecond(10))))
//	e := echo.New()
//	e.Use(echolimit.New(api, keyfunc.RemoteIP()))
//
// Options such as [gate.Skip] and [gate.Cost] are in package gate, which also describes the
// responses and their header fields.
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

// New returns a middleware that limits the requests of each key with l. It panics if l, key or an
// option is nil, if an option belongs to another adapter, or if the limiters use different Stores.
// The middleware is safe for concurrent use.
//
// Handlers of admitted requests get the decision from [gate.FromContext], called with
// c.Request().Context().
//
// For a denied or rejected request, the middleware sets the header fields of the response, except
// Content-Type, and returns an *echo.HTTPError whose Message is a *[gate.Problem]. The
// HTTPErrorHandler of the application must write the response. Echo's default handler sends the
// problem document as application/json; the second example sends another media type.
//
// With [gate.RefundIf], the middleware wraps the Writer of c.Response(). If the handler returns an
// error and has written nothing, the HTTPErrorHandler is expected to write the response, and
// RefundIf gets the status of that response. If no response is written, nothing is refunded.
//
// Key functions receive the context of the request, but its Value looks up strings with c.Get
// first.
func New(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) echo.MiddlewareFunc {
	g, onDenied := adapter.New[func(echo.Context, core.Decision) error](name, l, key, opts...)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r, outcome, rejection := g.Admit(&view{c}, c.Response().Header(), c.Request(), c.Path())
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

// run runs the next handler with o.
//
// If the handler returns an error, an outer middleware or the HTTPErrorHandler writes the response.
// The hook is on the Response and not on its Writer, because a middleware may replace the Writer
// before that, as Echo's Gzip does after an error.
func run(o *adapter.Outcome, c echo.Context, next echo.HandlerFunc) (err error) {
	res := c.Response()
	res.Writer = o.Watch(res.Writer)
	o.Run(func() (answered bool) {
		err = next(c)
		switch {
		case res.Committed:
			o.Answer(res.Status) // a no-op unless an inner Writer has buffered the response
		case err != nil:
			res.Before(func() { o.Answer(res.Status) })
			return false
		}
		return true
	})
	return err
}

// OnDenied replaces the response to requests over the limit: the middleware returns the result of
// f. When f is called, Retry-After and the other header fields are set. f must choose the status,
// which should be 429, and the body. For requests that could not be decided, see [gate.OnError].
// OnDenied panics if f is nil.
func OnDenied(f func(c echo.Context, d core.Decision) error) gate.Option {
	return adapter.Denied(name, f)
}

// RealIP returns a key function that derives the key from c.RealIP(), Echo's own address of the
// client. Without an Echo.IPExtractor, Echo believes the X-Forwarded-For of every peer, so a client
// can choose its own key. Use RealIP only if an IPExtractor is configured, and
// [keyfunc.XForwardedFor] otherwise.
//
// An address becomes a key as in [keyfunc.RemoteIP], with the same options. The error is
// [keyfunc.ErrNoKey] if there is no address, or if Echo does not serve the request.
func RealIP(opts ...keyfunc.IPOption) keyfunc.Func {
	_, _ = keyfunc.CanonicalIP("192.0.2.1", opts...) // panics on a nil option before the first request
	return func(ctx context.Context, _ *http.Request) (string, error) {
		c, ok := ctx.Value(viewKey{}).(echo.Context)
		if !ok {
			return "", fmt.Errorf("%w: not a request of Echo", keyfunc.ErrNoKey)
		}
		return keyfunc.CanonicalIP(c.RealIP(), opts...)
	}
}
