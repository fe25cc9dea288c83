// Package echolimit limits the requests of Echo (version 4).
//
//	e := echo.New()
//	e.Use(echolimit.PerIP(core.PerMinute(100))) // for each address, in memory
//
// [Limit] takes any rule, key function and Store, such as that of package redisstore:
//
//	store := memstore.New()
//	e.Use(echolimit.Limit(store, core.TokenBucket("api", core.PerSecond(10)), keyfunc.ContextSubject("user")))
//
// [New] takes a limiter, which may have several rules and other uses.
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
	"github.com/weir-go/weir/core/memstore"
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
	g, responder := adapter.New[respond](name, l, key, opts...)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			original := c.Request()
			r, outcome, rejection := g.Admit(&view{c}, c.Response().Header(), original, c.Path())
			c.SetRequest(r)
			defer func() { adapter.CopyBack(original, c.Request()) }()
			switch {
			case rejection == nil && outcome == nil:
				return next(c)
			case rejection == nil:
				return run(outcome, c, next)
			}
			if respond, ok := responder(rejection); ok {
				return respond(c, rejection)
			}
			return problem(c, rejection)
		}
	}
}

// Limit limits the requests of each key with one rule on s, in memory or in Redis:
//
//	e.Use(echolimit.Limit(store, core.SlidingWindow("api", core.PerMinute(100)), user))
//
// It is New with the limiter of the rule, and panics as [core.Must] and New do. Two calls with one rule and one Store
// share the counts. Use New for a limiter of several rules, and for one whose methods the program calls.
func Limit(s core.Store, rule core.Rule, key keyfunc.Func, opts ...gate.Option) echo.MiddlewareFunc {
	return New(adapter.Limiter(name, "Limit", s, rule, opts...), key, opts...)
}

// PerIP limits the requests of each client address in one line:
//
//	e.Use(echolimit.PerIP(core.PerMinute(100)))
//
// It is [Limit] in a memory of its own, with a sliding window called "ip", by the address of the peer
// ([keyfunc.RemoteIP]). Behind a proxy, all clients have the address of the proxy: use Limit with
// [keyfunc.XForwardedFor]. A warning in the log says so when the first forwarding header arrives from a private
// address. PerIP panics if limit is invalid or has a Burst, which needs Limit with a [core.TokenBucket], or if an
// option is a [gate.And], whose limiter is on another Store.
func PerIP(limit core.Limit, opts ...gate.Option) echo.MiddlewareFunc {
	l := adapter.Limiter(name, "PerIP", memstore.New(), core.SlidingWindow("ip", limit), opts...)
	return New(l, keyfunc.RemoteIP(), opts...)
}

// A respond is a function of OnDenied or OnRejected.
type respond = func(echo.Context, *gate.Rejection) error

// problem returns the error whose document the HTTPErrorHandler writes.
func problem(c echo.Context, rejection *gate.Rejection) error {
	c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff") // the path of the request is in the document
	return &echo.HTTPError{Code: rejection.Problem.Status, Message: rejection.Problem}
}

// run runs the next handler with o.
//
// If the handler returns an error, an outer middleware or the HTTPErrorHandler writes the response.
// The hook is on the Response and not on its Writer, because a middleware may replace the Writer
// before that, as Echo's Gzip does after an error.
func run(o *adapter.Outcome, c echo.Context, next echo.HandlerFunc) (err error) {
	res := c.Response()
	res.Writer = o.Watch(res.Writer)
	o.Run(func() (responded bool) {
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
// f. When f is called, Retry-After and the other header fields are set; with [gate.Jitter], Retry-After is
// longer than d says. f must choose the status, which should be 429, and the body. For the other requests
// that are not let through, see [OnRejected]. OnDenied panics if f is nil.
func OnDenied(f func(c echo.Context, d core.Decision) error) gate.Option {
	var responder respond
	if f != nil {
		responder = func(c echo.Context, rejection *gate.Rejection) error { return f(c, rejection.Decision) }
	}
	return adapter.Denied(name, responder)
}

// OnRejected replaces the response to requests that are rejected although they are not over the limit:
// the client did not say who it is (400, 401), the store could not decide (503), or the application
// failed (500). The middleware returns the result of f. When f is called, the header fields are set. f
// should respond with the status of rejection.Problem; if it returns nil and has written nothing, a
// response with this status and without a body is sent. For the response of this package, return
// echo.NewHTTPError(rejection.Problem.Status, rejection.Problem): Echo does not know the status of
// rejection itself. For the choice of the status, see [gate.OnError]. OnRejected panics if f is nil.
func OnRejected(f func(c echo.Context, rejection *gate.Rejection) error) gate.Option {
	var responder respond
	if f != nil {
		responder = func(c echo.Context, rejection *gate.Rejection) error {
			if err := f(c, rejection); err != nil || c.Response().Committed {
				return err
			}
			return c.NoContent(rejection.Problem.Status)
		}
	}
	return adapter.Rejected(name, responder)
}

// Check asks l about key inside a handler, for a key that is known only there, such as a login name in
// the body. It returns nil if the handler may go on. If the event is denied, or cannot be decided with
// [gate.FailClosed], Check has set the header fields and returns an error for the handler to return. It
// is the error of the middleware, without OnDenied and OnRejected. The HTTPErrorHandler writes the
// response:
//
//	if err := echolimit.Check(c, perUser, keyfunc.UserKey(form.User)); err != nil {
//		return err
//	}
//
// Check adds the rules of l to the header fields. It must be called before the response begins, and while no
// other goroutine uses the request; for the messages of a websocket, use [core.Limiter.Allow].
// Check keeps a Content-Encoding, which a middleware that compresses may have set, so a handler sets the field for a body
// of its own after Check. [gate.FromContext] returns the decision of Check.
// [gate.SettleFor] corrects the cost of the event, and [gate.Key] and [gate.Reset] find its key. [gate.Settle]
// and [gate.Refund] are about the gate around the handler, or about the last Check if there is none.
// [gate.RefundIf] of that gate does not change the charge of Check. An empty key is rejected with 400. Check
// panics if l is nil, or if an option is not one of [gate.Cost], [gate.FailClosed], [gate.Headers], [gate.Jitter],
// [gate.OnDecision], [gate.OnError] and [gate.XRateLimitRule], or a [gate.Options] of these.
func Check(c echo.Context, l *core.Limiter, key string, opts ...gate.Option) error {
	if rejection := adapter.Check(name, &view{c}, c.Response().Header(), c.Request(), l, key, opts...); rejection != nil {
		return problem(c, rejection)
	}
	return nil
}

// Deny sets the header fields for a denial d that the application got from package core, and returns the
// error from which the HTTPErrorHandler writes the response, with the problem document. For the zero
// Decision, which comes with an error of the store, the status is 503. Log that error, and reject an
// invalid cost before: a client cannot mend it by waiting. The header fields have the versions of the
// outer gates, or [gate.IETFDraft] without one. Deny panics if d is allowed.
func Deny(c echo.Context, d core.Decision) error {
	return problem(c, adapter.Deny(name, c.Response().Header(), c.Request(), d))
}

// RealIP returns a key function that derives the key from c.RealIP(), Echo's own address of the
// client. Use RealIP only if an Echo.IPExtractor is configured, and [keyfunc.XForwardedFor] otherwise.
// Without an IPExtractor, the address depends on the version of Echo. Before v4.16.3, Echo believes the
// X-Forwarded-For of every peer, so a client can choose its own key (CVE-2026-118653). Since v4.16.3 it
// believes no header, and behind a proxy all clients have one key.
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
