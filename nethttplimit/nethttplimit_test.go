package nethttplimit_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func build(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
	return nethttplimit.New(l, key, opts...)(h)
}

// buildRoutes has the gate in the handlers of a ServeMux.
func buildRoutes(g gatetest.Gate, h gatetest.Handlers) http.Handler {
	limit := nethttplimit.New(g.Limiter, g.Key, g.Opts...)
	mux := http.NewServeMux()
	for pattern, h := range map[string]http.HandlerFunc{
		"POST /login": h.Login, "GET /login": h.Login, "GET /users/{name}": h.User, "GET /files/{path...}": h.Files,
	} {
		mux.Handle(pattern, limit(h))
	}
	return mux
}

// buildCalls has handlers that call Check and Deny.
func buildCalls(gates []gatetest.Gate, h func(w http.ResponseWriter, c gatetest.Call) error) http.Handler {
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = h(w, gatetest.Call{
			Context: r.Context,
			Request: func() *http.Request { return r },
			Check: func(l *core.Limiter, key string, opts ...gate.Option) error {
				if !nethttplimit.Check(w, r, l, key, opts...) {
					return errAnswered
				}
				return nil
			},
			Deny: func(d core.Decision) error { nethttplimit.Deny(w, r, d); return errAnswered },
		})
	})
	for _, g := range slices.Backward(gates) {
		next = nethttplimit.New(g.Limiter, g.Key, g.Opts...)(next)
	}
	return next
}

var errAnswered = errors.New("the response is written")

func TestContract(t *testing.T) {
	testkit.WithoutRace(t, "allocations")
	gatetest.Run(t, build, gatetest.OnDenied(nethttplimit.OnDenied), gatetest.OnRejected(nethttplimit.OnRejected), gatetest.Routes(buildRoutes),
		gatetest.Calls(buildCalls))
}

func BenchmarkRequest(b *testing.B) {
	gatetest.Benchmark(b, build, func(h http.HandlerFunc) http.Handler { return h })
}
