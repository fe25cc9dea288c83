package adapter_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/keyfunc"
)

// The adapter of the example passes the tests of all adapters.
func TestContract(t *testing.T) {
	gatetest.Run(t, func(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
		return NewMiddleware(l, key, opts...)(func(c *Context) { h(c.Writer, c.Request) })
	}, gatetest.OnDenied(func(f func(http.ResponseWriter, *http.Request, core.Decision)) gate.Option {
		return OnDenied(func(c *Context, r *gate.Rejection) { f(c.Writer, c.Request, r.Decision) })
	}))
}
