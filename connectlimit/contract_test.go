package connectlimit_test

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"github.com/weir-go/weir/connectlimit"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// plain takes only requests with the version of the Connect protocol for calls in that protocol.
var plain = connect.NewErrorWriter(connect.WithRequireConnectProtocolHeader())

func limit(l *core.Limiter, key keyfunc.Func, opts []gate.Option) func(http.Handler) http.Handler {
	return nethttplimit.New(l, key, append(opts[:len(opts):len(opts)], connectlimit.Answers(plain))...)
}

// A plain HTTP client gets the responses of nethttplimit. OnDenied and OnRejected replace Answers, and a handler of
// connect has no ResponseWriter for Check and Deny: nethttplimit runs their tests.
func TestContract(t *testing.T) {
	testkit.WithoutRace(t, "allocations")
	gatetest.Run(t, func(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
		return limit(l, key, opts)(h)
	}, gatetest.Routes(func(g gatetest.Gate, h gatetest.Handlers) http.Handler {
		limit := limit(g.Limiter, g.Key, g.Opts)
		mux := http.NewServeMux()
		for pattern, h := range map[string]http.HandlerFunc{
			"POST /login": h.Login, "GET /login": h.Login, "GET /users/{name}": h.User, "GET /files/{path...}": h.Files,
		} {
			mux.Handle(pattern, limit(h))
		}
		return mux
	}))
}
