package adapter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

// Context and Handler are the types of the framework of this example.
type Context struct {
	Writer  http.ResponseWriter
	Request *http.Request
}

type Handler func(c *Context)

func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h(&Context{w, r}) }

// NewMiddleware is the New of the adapter.
func NewMiddleware(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) func(Handler) Handler {
	g, onDenied := adapter.New[func(*Context, core.Decision)]("examplelimit", l, key, opts...)
	return func(next Handler) Handler {
		return func(c *Context) {
			r, outcome, rejection := g.Admit(c.Request.Context(), c.Writer.Header(), c.Request, "")
			c.Request = r
			switch {
			case rejection == nil:
				c.Writer = outcome.Watch(c.Writer)
				outcome.Run(func() (answered bool) { next(c); return true })
			case rejection.Denied() && onDenied != nil:
				onDenied(c, rejection.Decision)
			default:
				adapter.WriteProblem(c.Writer, c.Request, rejection.Problem)
			}
		}
	}
}

// OnDenied replaces the answer to requests over the limit.
func OnDenied(f func(c *Context, d core.Decision)) gate.Option {
	return adapter.Denied("examplelimit", f)
}

// An adapter for a framework with its own context type.
func Example() {
	api := core.Must(core.New(memstore.New(), core.SlidingLog("api", core.PerMinute(1))))
	limit := NewMiddleware(api, keyfunc.RemoteIP(), OnDenied(func(c *Context, d core.Decision) {
		seconds, _ := gate.RetryAfter(d)
		http.Error(c.Writer, fmt.Sprintf("come back in %d s", seconds), http.StatusTooManyRequests)
	}))
	handler := limit(func(c *Context) {
		d, _ := gate.FromContext(c.Request.Context())
		fmt.Fprintln(c.Writer, d.State(0).Remaining, "left")
	})

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 0 left
	// 429 come back in 60 s
}
