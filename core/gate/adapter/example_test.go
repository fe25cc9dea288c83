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
	g, responder := adapter.New[Respond]("examplelimit", l, key, opts...)
	return func(next Handler) Handler {
		return func(c *Context) {
			original := c.Request
			r, outcome, rejection := g.Admit(original.Context(), c.Writer.Header(), original, "")
			c.Request = r
			defer func() { adapter.CopyBack(original, c.Request) }()
			if rejection == nil {
				c.Writer = outcome.Watch(c.Writer)
				outcome.Run(func() (responded bool) { next(c); return true })
			} else if respond, ok := responder(rejection); ok {
				if written := respond(c, rejection); !written {
					c.Writer.WriteHeader(rejection.Problem.Status)
				}
			} else {
				adapter.WriteProblem(c.Writer, c.Request, rejection.Problem)
			}
		}
	}
}

// A Respond writes a response in place of the problem document. If it returns false, it has written
// nothing.
type Respond = func(c *Context, r *gate.Rejection) (written bool)

// OnDenied replaces the response to requests over the limit.
func OnDenied(f Respond) gate.Option { return adapter.Denied("examplelimit", f) }

// OnRejected replaces the response to other requests that are not let through.
func OnRejected(f Respond) gate.Option { return adapter.Rejected("examplelimit", f) }

// Check asks inside a handler.
func Check(c *Context, l *core.Limiter, key string, opts ...gate.Option) bool {
	rejection := adapter.Check("examplelimit", c.Request.Context(), c.Writer.Header(), c.Request, l, key, opts...)
	if rejection != nil {
		adapter.WriteProblem(c.Writer, c.Request, rejection.Problem)
	}
	return rejection == nil
}

// Deny writes the response to a denial by the application.
func Deny(c *Context, d core.Decision) {
	rejection := adapter.Deny("examplelimit", c.Writer.Header(), c.Request, d)
	adapter.WriteProblem(c.Writer, c.Request, rejection.Problem)
}

// An adapter for a framework with its own context type.
func Example() {
	api := core.Must(core.New(memstore.New(), core.SlidingLog("api", core.PerMinute(1))))
	limit := NewMiddleware(api, keyfunc.RemoteIP(), OnDenied(func(c *Context, r *gate.Rejection) bool {
		text := "over the limit"
		if seconds, ok := gate.RetryAfter(r.Decision); ok { // false if the client is blocked
			text = fmt.Sprintf("come back in %d s", seconds)
		}
		http.Error(c.Writer, text, http.StatusTooManyRequests)
		return true
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
