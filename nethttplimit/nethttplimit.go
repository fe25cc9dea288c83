// Package nethttplimit limits the requests of net/http handlers, of chi, and of every other router
// that takes the same type of middleware.
//
//	store := memstore.New()
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerSecond(10))))
//	limit := nethttplimit.New(api, keyfunc.RemoteIP())
//	http.ListenAndServe(":8080", limit(mux))
//
// Options such as [gate.Skip] and [gate.Cost] are in package gate, which also describes the
// responses and their header fields.
package nethttplimit

import (
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
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
	g, onDenied := adapter.New[func(http.ResponseWriter, *http.Request, core.Decision)](name, l, key, opts...)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic(name + ": New: handler is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r, outcome, rejection := g.Admit(r.Context(), w.Header(), r, r.Pattern)
			switch {
			case rejection == nil && outcome == nil:
				next.ServeHTTP(w, r)
			case rejection == nil:
				w := outcome.Watch(w)
				outcome.Run(func() (answered bool) {
					next.ServeHTTP(w, r)
					return false // w has reported a response; a framework may write one later
				})
			case onDenied != nil && rejection.Denied():
				onDenied(w, r, rejection.Decision)
			default:
				adapter.WriteProblem(w, r, rejection.Problem)
			}
		})
	}
}

// OnDenied replaces the response to requests over the limit. When f is called, Retry-After and the
// other header fields are set. f must choose the status, which should be 429, and the body; if f
// writes nothing, the status is 200. For requests that could not be decided, see [gate.OnError].
// OnDenied panics if f is nil.
func OnDenied(f func(w http.ResponseWriter, r *http.Request, d core.Decision)) gate.Option {
	return adapter.Denied(name, f)
}
