package adapter_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

func build(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
	return NewMiddleware(l, key, opts...)(func(c *Context) { h(c.Writer, c.Request) })
}

func onDenied(f func(http.ResponseWriter, *http.Request, core.Decision)) gate.Option {
	return OnDenied(func(c *Context, r *gate.Rejection) bool { f(c.Writer, c.Request, r.Decision); return true })
}

func onRejected(f func(http.ResponseWriter, *http.Request, *gate.Rejection)) gate.Option {
	return OnRejected(func(c *Context, r *gate.Rejection) bool {
		w := &writer{ResponseWriter: c.Writer}
		f(w, c.Request, r)
		return w.written
	})
}

// A writer notices a response.
type writer struct {
	http.ResponseWriter
	written bool
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { w.written = true; return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	w.written = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.written = true
	return w.ResponseWriter.Write(b)
}

var errAnswered = errors.New("the response is written")

func calls(gates []gatetest.Gate, h func(http.ResponseWriter, gatetest.Call) error) http.Handler {
	var next Handler = func(c *Context) {
		_ = h(c.Writer, gatetest.Call{
			Context: func() context.Context { return c.Request.Context() },
			Request: func() *http.Request { return c.Request },
			Replace: func(r *http.Request) { c.Request = r },
			Check: func(l *core.Limiter, key string, opts ...gate.Option) error {
				if !Check(c, l, key, opts...) {
					return errAnswered
				}
				return nil
			},
			Deny: func(d core.Decision) error { Deny(c, d); return errAnswered },
		})
	}
	for _, g := range slices.Backward(gates) {
		next = NewMiddleware(g.Limiter, g.Key, g.Opts...)(next)
	}
	return next
}

// The adapter of the example passes the tests of all adapters.
func TestContract(t *testing.T) {
	testkit.WithoutRace(t, "allocations")
	gatetest.Run(t, build, gatetest.OnDenied(onDenied), gatetest.OnRejected(onRejected), gatetest.Calls(calls))
}
