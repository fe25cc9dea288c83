// Package nethttplimit limits the requests of net/http handlers, and with them
// those of chi and every other router that takes the same middleware.
//
//	store := memstore.New()
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerSecond(10))))
//	limit := nethttplimit.New(api, keyfunc.RemoteIP())
//	http.ListenAndServe(":8080", limit(mux))
//
// Options such as [gate.Skip] and [gate.Cost] are in package gate, which also describes the
// header fields and the answers.
package nethttplimit

import (
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/keyfunc"
)

const name = "nethttplimit"

// New returns a middleware that asks l whether the key of a request is within
// its limits, and runs the next handler if so. The handler finds the decision
// with [gate.FromContext] in r.Context(). The ResponseWriter is passed on as it
// is, except with [gate.RefundIf].
//
// The middleware is safe for concurrent use. New panics on arguments that could
// never work: a nil limiter, key function or option, an option of another
// adapter, limiters on different Stores. The middleware panics on a nil handler.
func New(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) func(http.Handler) http.Handler {
	g, onDenied := adapter.New[func(http.ResponseWriter, *http.Request, core.Decision)](name, l, key, opts...)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic(name + ": New: handler is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r, outcome, rejection := g.Admit(r.Context(), w.Header(), r)
			switch {
			case rejection == nil && outcome == nil:
				next.ServeHTTP(w, r)
			case rejection == nil:
				w := outcome.Watch(w)
				outcome.Run(func() bool { next.ServeHTTP(w, r); return true })
			case onDenied != nil && rejection.Denied():
				onDenied(w, r, rejection.Decision)
			default:
				adapter.WriteProblem(w, r, rejection.Problem)
			}
		})
	}
}

// OnDenied replaces the answer to requests over the limit. Retry-After and the
// other header fields are set already; status and body are up to f, which should
// use 429: an f that writes nothing answers 200. Requests that could not be decided do not come here: see
// [gate.OnError]. OnDenied panics if f is nil.
func OnDenied(f func(w http.ResponseWriter, r *http.Request, d core.Decision)) gate.Option {
	return adapter.Denied(name, f)
}
