// Package nethttplimit limits the requests of net/http handlers, of chi, and of every other router
// that takes the same type of middleware.
//
//	limit := nethttplimit.PerIP(core.PerMinute(100)) // for each address, in memory
//	http.ListenAndServe(":8080", limit(mux))
//
// [Limit] takes any rule, key function and Store, such as that of package redisstore:
//
//	store := memstore.New()
//	limit := nethttplimit.Limit(store, core.TokenBucket("api", core.PerSecond(10)), keyfunc.ContextSubject("user"))
//
// [New] takes a limiter, which may have several rules and other uses.
//
// Options such as [gate.Skip] and [gate.Cost] are in package gate, which also describes the
// responses and their header fields.
package nethttplimit

import (
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

const name = "nethttplimit"

// New returns a middleware that limits the requests of each key with l. It panics if l, key or an
// option is nil, if an option belongs to another adapter, or if the limiters use different Stores.
// The middleware is safe for concurrent use, and panics on a nil handler.
//
// Handlers of admitted requests get the decision from [gate.FromContext], called with r.Context().
// For a denied or rejected request, the middleware writes the response. Only [gate.RefundIf] makes
// it wrap the ResponseWriter. If the handler returns without a response, a framework around the
// middleware may write one later, as Echo does behind echo.WrapMiddleware: RefundIf then gets its
// status. If nothing is written, nothing is refunded, although net/http sends 200.
func New(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) func(http.Handler) http.Handler {
	g, responder := adapter.New[respond](name, l, key, opts...)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic(name + ": New: handler is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			original := r
			r, outcome, rejection := g.Admit(r.Context(), w.Header(), r, r.Pattern)
			defer adapter.CopyBack(original, r)
			switch {
			case rejection == nil && outcome == nil:
				next.ServeHTTP(w, r)
			case rejection == nil:
				w := outcome.Watch(w)
				outcome.Run(func() (responded bool) {
					next.ServeHTTP(w, r)
					return false // w has reported a response; a framework may write one later
				})
			default:
				if respond, ok := responder(rejection); ok {
					respond(w, r, rejection)
				} else {
					adapter.WriteProblem(w, r, rejection.Problem)
				}
			}
		})
	}
}

// Limit limits the requests of each key with one rule on s, in memory or in Redis:
//
//	handler := nethttplimit.Limit(store, core.SlidingWindow("api", core.PerMinute(100)), user)(mux)
//
// It is New with the limiter of the rule, and panics as [core.Must] and New do. Two calls with one rule and one Store
// share the counts. Use New for a limiter of several rules, and for one whose methods the program calls.
func Limit(s core.Store, rule core.Rule, key keyfunc.Func, opts ...gate.Option) func(http.Handler) http.Handler {
	return New(adapter.Limiter(name, "Limit", s, rule, opts...), key, opts...)
}

// PerIP limits the requests of each client address in one line:
//
//	handler := nethttplimit.PerIP(core.PerMinute(100))(mux)
//
// It is [Limit] in a memory of its own, with a sliding window called "ip", by the address of the peer
// ([keyfunc.RemoteIP]). Behind a proxy, all clients have the address of the proxy: use Limit with
// [keyfunc.XForwardedFor]. A warning in the log says so when the first forwarding header arrives from a private
// address. PerIP panics if limit is invalid or has a Burst, which needs Limit with a [core.TokenBucket], or if an
// option is a [gate.And], whose limiter is on another Store.
func PerIP(limit core.Limit, opts ...gate.Option) func(http.Handler) http.Handler {
	l := adapter.Limiter(name, "PerIP", memstore.New(), core.SlidingWindow("ip", limit), opts...)
	return New(l, keyfunc.RemoteIP(), opts...)
}

// A respond is a function of OnDenied or OnRejected.
type respond = func(http.ResponseWriter, *http.Request, *gate.Rejection)

// OnDenied replaces the response to requests over the limit. When f is called, Retry-After and the
// other header fields are set; with [gate.Jitter], Retry-After is longer than d says. f must choose the
// status, which should be 429, and the body; if f writes nothing, the status is 200. For the other requests
// that are not let through, see [OnRejected]. OnDenied panics if f is nil.
func OnDenied(f func(w http.ResponseWriter, r *http.Request, d core.Decision)) gate.Option {
	var responder respond
	if f != nil {
		responder = func(w http.ResponseWriter, r *http.Request, rejection *gate.Rejection) { f(w, r, rejection.Decision) }
	}
	return adapter.Denied(name, responder)
}

// OnRejected replaces the response to requests that are rejected although they are not over the limit:
// the client did not say who it is (400, 401), the store could not decide (503), or the application
// failed (500). When f is called, the header fields are set. f should respond with the status of
// rejection.Problem; if it writes nothing, a response with this status and without a body is sent. For
// the choice of the status, see [gate.OnError]. OnRejected panics if f is nil.
func OnRejected(f func(w http.ResponseWriter, r *http.Request, rejection *gate.Rejection)) gate.Option {
	var responder respond
	if f != nil {
		responder = func(w http.ResponseWriter, r *http.Request, rejection *gate.Rejection) {
			own := &responding{ResponseWriter: w, status: rejection.Problem.Status}
			f(own, r, rejection)
			own.begin()
		}
	}
	return adapter.Rejected(name, responder)
}

// Check asks l about key inside a handler, for a key that is known only there, such as a login name in
// the body. It returns true if the handler may go on. If the event is denied, or cannot be decided with
// [gate.FailClosed], Check has written the whole response, as a middleware of this package does, and
// returns false:
//
//	if !nethttplimit.Check(w, r, perUser, keyfunc.UserKey(form.User)) {
//		return
//	}
//
// Check must be called before the response begins, and while no other goroutine uses r. It keeps a Content-Encoding,
// which a middleware that compresses may have set, so a handler sets the field for a body of its own after Check. For
// the messages of a websocket, use [core.Limiter.Allow].
//
// Check adds the rules of l to the header fields, and [gate.FromContext] then returns its decision: if no
// gate has decided about r before, Check sets the context of r.
// [gate.SettleFor] corrects the cost of the event, and [gate.Key] and [gate.Reset] find its key. [gate.Settle]
// and [gate.Refund] are about the gate around the handler, or about the last Check if there is none.
// [gate.RefundIf] of that gate does not change the charge of Check. An empty key is rejected with 400. Check
// panics if l is nil, or if an option is not one of [gate.Cost], [gate.FailClosed], [gate.Headers], [gate.Jitter],
// [gate.OnDecision], [gate.OnError] and [gate.XRateLimitRule], or a [gate.Options] of these.
func Check(w http.ResponseWriter, r *http.Request, l *core.Limiter, key string, opts ...gate.Option) bool {
	rejection := adapter.Check(name, r.Context(), w.Header(), r, l, key, opts...)
	if rejection != nil {
		adapter.WriteProblem(w, r, rejection.Problem)
	}
	return rejection == nil
}

// Deny writes the response of this package for a denial d that the application got from package core:
// the header fields, Retry-After and the problem document. For the zero Decision, which comes with an
// error of the store, the status is 503. Log that error, and reject an
// invalid cost before: a client cannot mend it by waiting. The header fields have the versions of the
// outer gates, or [gate.IETFDraft] without one. Deny panics if d is allowed.
func Deny(w http.ResponseWriter, r *http.Request, d core.Decision) {
	adapter.WriteProblem(w, r, adapter.Deny(name, w.Header(), r, d).Problem)
}
