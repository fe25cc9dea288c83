// Package ginlimit limits the requests of Gin.
//
//	router := gin.New()
//	router.Use(ginlimit.PerIP(core.PerMinute(100))) // for each address, in memory
//
// [Limit] takes any rule, key function and Store, such as that of package redisstore:
//
//	store := memstore.New()
//	router.Use(ginlimit.Limit(store, core.TokenBucket("api", core.PerSecond(10)), keyfunc.ContextSubject("user")))
//
// [New] takes a limiter, which may have several rules and other uses.
//
// Options such as [gate.Skip] and [gate.Cost] are in package gate, which also describes the
// responses and their header fields.
package ginlimit

import (
	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/core/memstore"
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
	g, responder := adapter.New[respond](name, l, key, opts...)
	return func(c *gin.Context) {
		original := c.Request
		r, outcome, rejection := g.Admit(c, c.Writer.Header(), original, c.FullPath())
		c.Request = r
		defer func() { adapter.CopyBack(original, c.Request) }()
		if rejection == nil {
			run(outcome, c)
			return
		}
		respond, _ := responder(rejection)
		abort(c, rejection, respond)
	}
}

// A *gin.Context looks in the context of its request only with Engine.ContextWithFallback.
func init() { adapter.RegisterRequestKey(gin.ContextRequestKey) }

// Limit limits the requests of each key with one rule on s, in memory or in Redis:
//
//	router.Use(ginlimit.Limit(store, core.SlidingWindow("api", core.PerMinute(100)), user))
//
// It is New with the limiter of the rule, and panics as [core.Must] and New do. Two calls with one rule and one Store
// share the counts. Use New for a limiter of several rules, and for one whose methods the program calls.
func Limit(s core.Store, rule core.Rule, key keyfunc.Func, opts ...gate.Option) gin.HandlerFunc {
	return New(adapter.Limiter(name, "Limit", s, rule, opts...), key, opts...)
}

// PerIP limits the requests of each client address in one line:
//
//	router.Use(ginlimit.PerIP(core.PerMinute(100)))
//
// It is [Limit] in a memory of its own, with a sliding window called "ip", by the address of the peer
// ([keyfunc.RemoteIP]). Behind a proxy, all clients have the address of the proxy: use Limit with
// [keyfunc.XForwardedFor]. A warning in the log says so when the first forwarding header arrives from a private
// address. PerIP panics if limit is invalid or has a Burst, which needs Limit with a [core.TokenBucket], or if an
// option is a [gate.And], whose limiter is on another Store.
func PerIP(limit core.Limit, opts ...gate.Option) gin.HandlerFunc {
	l := adapter.Limiter(name, "PerIP", memstore.New(), core.SlidingWindow("ip", limit), opts...)
	return New(l, keyfunc.RemoteIP(), opts...)
}

// A respond is a function of OnDenied or OnRejected.
type respond = func(*gin.Context, *gate.Rejection)

// abort ends the chain of c with the response of respond, or with the problem document if respond is
// nil.
func abort(c *gin.Context, rejection *gate.Rejection, respond respond) {
	c.Abort()
	// c.Error would add a *gin.Error that a key function has wrapped instead of the Rejection.
	c.Errors = append(c.Errors, &gin.Error{Err: rejection, Type: gin.ErrorTypePublic})
	if respond == nil {
		adapter.WriteProblem(c.Writer, c.Request, rejection.Problem)
	} else if respond(c, rejection); !c.Writer.Written() {
		return
	}
	c.Writer = complete{c.Writer}
}

// OnDenied replaces the response to requests over the limit. When f is called, the request is
// aborted, and Retry-After and the other header fields are set; with [gate.Jitter], Retry-After is longer
// than d says. f must choose the status, which should be 429, and the body; if f writes no body, an outer
// middleware may write it. For the other requests that are not let through, see [OnRejected]. OnDenied
// panics if f is nil.
func OnDenied(f func(c *gin.Context, d core.Decision)) gate.Option {
	var responder respond
	if f != nil {
		responder = func(c *gin.Context, rejection *gate.Rejection) { f(c, rejection.Decision) }
	}
	return adapter.Denied(name, responder)
}

// OnRejected replaces the response to requests that are rejected although they are not over the limit:
// the client did not say who it is (400, 401), the store could not decide (503), or the application
// failed (500). When f is called, the request is aborted, and the header fields are set. f should respond
// with the status of rejection.Problem, which is the status if f chooses none. If f writes no body, an
// outer middleware may write it. For the choice of the status, see [gate.OnError]. OnRejected panics if f
// is nil.
func OnRejected(f func(c *gin.Context, rejection *gate.Rejection)) gate.Option {
	var responder respond
	if f != nil {
		responder = func(c *gin.Context, rejection *gate.Rejection) {
			c.Status(rejection.Problem.Status)
			f(c, rejection)
		}
	}
	return adapter.Rejected(name, responder)
}

// Check asks l about key inside a handler, for a key that is known only there, such as a login name in
// the body. It returns true if the handler may go on. If the event is denied, or cannot be decided with
// [gate.FailClosed], Check has aborted the chain and written the whole response, as the middleware does
// (without OnDenied and OnRejected), and returns false:
//
//	if !ginlimit.Check(c, perUser, keyfunc.UserKey(form.User)) {
//		return
//	}
//
// Check adds the rules of l to the header fields. It must be called before the response begins, and while no
// other goroutine uses the request, also that of c.Copy(); for the messages of a websocket, use
// [core.Limiter.Allow]. Check keeps a Content-Encoding, which a middleware that compresses may have set, so a handler sets
// the field for a body of its own after Check. [gate.FromContext] returns the decision of Check.
// [gate.SettleFor] corrects the cost of the event, and [gate.Key] and [gate.Reset] find its key. [gate.Settle]
// and [gate.Refund] are about the gate around the handler, or about the last Check if there is none.
// [gate.RefundIf] of that gate does not change the charge of Check. An empty key is rejected with 400. Check
// panics if l is nil, or if an option is not one of [gate.Cost], [gate.FailClosed], [gate.Headers], [gate.Jitter],
// [gate.OnDecision], [gate.OnError] and [gate.XRateLimitRule], or a [gate.Options] of these.
func Check(c *gin.Context, l *core.Limiter, key string, opts ...gate.Option) bool {
	rejection := adapter.Check(name, c, c.Writer.Header(), c.Request, l, key, opts...)
	if rejection != nil {
		abort(c, rejection, nil)
	}
	return rejection == nil
}

// Deny aborts the chain, and writes the response of this package for a denial d that the application got
// from package core: the header fields, Retry-After and the problem document. For the zero Decision, which
// comes with an error of the store, the status is 503. Log that error, and reject an
// invalid cost before: a client cannot mend it by waiting. The header fields have the versions of the
// outer gates, or [gate.IETFDraft] without one. Deny panics if d is allowed.
func Deny(c *gin.Context, d core.Decision) {
	abort(c, adapter.Deny(name, c.Writer.Header(), c.Request, d), nil)
}
