package echolimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/echolimit/v5"
)

// refund returns a RefundIf that refunds every request and appends the statuses.
func refund(statuses *[]int) gate.Option {
	return gate.RefundIf(func(status int) bool { *statuses = append(*statuses, status); return true })
}

// client is a key function with the same key for every request.
func client(context.Context, *http.Request) (string, error) { return "192.0.2.1", nil }

// left returns the remaining events of client.
func left(t *testing.T, l *core.Limiter) int {
	t.Helper()
	d, err := l.Peek(t.Context(), "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	return d.State(0).Remaining
}

// A plainWriter is a ResponseWriter of another middleware. A *unwrapper also has an Unwrap.
type (
	plainWriter struct{ http.ResponseWriter }
	unwrapper   struct{ plainWriter }
)

func (u *unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func hides(w http.ResponseWriter) http.ResponseWriter   { return &plainWriter{w} }
func unwraps(w http.ResponseWriter) http.ResponseWriter { return &unwrapper{plainWriter{w}} }

// replaces returns a middleware that wraps the ResponseWriter of the context, and then may restore it.
func replaces(wrap func(http.ResponseWriter) http.ResponseWriter, restores bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			if was := c.Response(); restores {
				defer c.SetResponse(was)
			}
			c.SetResponse(wrap(c.Response()))
			return next(c)
		}
	}
}

// below is a middleware that wraps the ResponseWriter of the Response, and then restores it.
func below(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		res, err := echo.UnwrapResponse(c.Response())
		if err != nil {
			return err
		}
		was := res.ResponseWriter
		defer func() { res.ResponseWriter = was }()
		res.ResponseWriter = unwraps(was)
		return next(c)
	}
}

// Every way in which a request of Echo can end.
func TestNew_RefundIf(t *testing.T) {
	problem := errors.New("problem")
	fails := func(err error) echo.HandlerFunc { return func(*echo.Context) error { return err } }
	empty := func(c *echo.Context) error { return c.NoContent(403) }
	text := func(c *echo.Context) error { return c.String(403, "no") }
	long := middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000})
	wrapped := echo.WrapMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(unwraps(w), r) })
	})
	for _, c := range []struct {
		name    string
		outer   echo.MiddlewareFunc // around the gate
		inner   echo.MiddlewareFunc // inside the gate
		handler echo.HandlerFunc
		status  int    // of the answer
		asked   string // the statuses that RefundIf gets; empty if nothing is refunded
	}{
		{name: "HTTPError", handler: fails(echo.ErrUnauthorized), status: 401, asked: "[401]"},
		{name: "wrapped HTTPError", handler: fails(fmt.Errorf("wrapped: %w", echo.ErrUnauthorized)), status: 401, asked: "[401]"},
		{name: "error", handler: fails(problem), status: 500, asked: "[500]"},
		{name: "error of a middleware", inner: func(echo.HandlerFunc) echo.HandlerFunc { return fails(echo.ErrForbidden) }, handler: ok, status: 403, asked: "[403]"},
		{name: "the error handler is called", handler: func(c *echo.Context) error { c.Echo().HTTPErrorHandler(c, echo.ErrNotFound); return nil }, status: 404, asked: "[404]"},
		{name: "the error handler is called before its error", handler: func(c *echo.Context) error { c.Echo().HTTPErrorHandler(c, echo.ErrNotFound); return echo.ErrNotFound }, status: 404, asked: "[404]"},
		{
			name: "an outer middleware answers", handler: fails(problem),
			outer: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error {
					if err := next(c); err != nil {
						return c.String(409, "x")
					}
					return nil
				}
			},
			status: 409, asked: "[409]",
		},
		{name: "an outer middleware restores the writer", handler: fails(echo.ErrUnauthorized), outer: replaces(unwraps, true), status: 401, asked: "[401]"},
		{name: "an outer middleware replaces the writer", handler: fails(echo.ErrUnauthorized), outer: replaces(unwraps, false), status: 401, asked: "[401]"},
		{name: "an outer middleware hides the Response", handler: fails(echo.ErrUnauthorized), outer: replaces(hides, false), status: 401, asked: "[401]"},
		{name: "an outer middleware hides the Response for some time", handler: fails(echo.ErrUnauthorized), outer: replaces(hides, true), status: 401},
		{name: "an inner middleware restores the writer", handler: fails(echo.ErrUnauthorized), inner: replaces(unwraps, true), status: 401, asked: "[401]"},
		{name: "an inner middleware hides the Response", handler: fails(echo.ErrUnauthorized), inner: replaces(hides, false), status: 401, asked: "[401]"},
		{name: "an outer middleware restores the writer of the Response", handler: fails(echo.ErrUnauthorized), outer: below, status: 401, asked: "[401]"},
		{name: "an inner middleware restores the writer of the Response", handler: fails(echo.ErrUnauthorized), inner: below, status: 401, asked: "[401]"},
		{name: "outer Gzip", handler: empty, outer: middleware.Gzip(), status: 403, asked: "[403]"},
		{name: "outer Gzip, with a body", handler: text, outer: middleware.Gzip(), status: 403, asked: "[403]"},
		{name: "outer Gzip, with a short body", handler: text, outer: long, status: 403, asked: "[403]"},
		{name: "outer Gzip, without a response", handler: fails(nil), outer: middleware.Gzip(), status: 200, asked: "[200]"},
		{name: "outer Gzip, with an error", handler: fails(echo.ErrUnauthorized), outer: middleware.Gzip(), status: 401, asked: "[401]"},
		{name: "inner Gzip", handler: empty, inner: middleware.Gzip(), status: 403, asked: "[403]"},
		{name: "inner Gzip, with a short body", handler: text, inner: long, status: 403, asked: "[403]"},
		{name: "inner Gzip, with an error", handler: fails(echo.ErrUnauthorized), inner: middleware.Gzip(), status: 401, asked: "[401]"},
		{name: "outer WrapMiddleware", handler: fails(echo.ErrUnauthorized), outer: wrapped, status: 401, asked: "[401]"},
		{name: "inner WrapMiddleware", handler: fails(echo.ErrUnauthorized), inner: wrapped, status: 401, asked: "[401]"},
		{
			name: "writes to the Response itself", outer: replaces(unwraps, true),
			handler: func(c *echo.Context) error {
				res, err := echo.UnwrapResponse(c.Response())
				if err == nil {
					res.WriteHeader(403)
				}
				return err
			},
			status: 403, asked: "[403]",
		},
		{
			name: "an outer timeout", handler: fails(echo.ErrUnauthorized),
			outer: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error { // ends the context before the answer is written
					ctx, cancel := context.WithTimeout(c.Request().Context(), time.Hour)
					defer cancel()
					c.SetRequest(c.Request().WithContext(ctx))
					return next(c)
				}
			},
			status: 401, asked: "[401]",
		},
		{
			name: "ended with an error", status: 401,
			handler: fails(echo.ErrUnauthorized),
			inner: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error {
					c.Request().Context().Value(hangUp{}).(context.CancelFunc)()
					return next(c)
				}
			},
		},
		{
			name: "a panic", handler: func(c *echo.Context) error { _ = c.NoContent(204); panic(problem) },
			outer: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) (err error) {
					defer func() { _ = recover() }()
					return next(c)
				}
			},
			status: 204, asked: "[500]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := times(5)
			var statuses []int
			var middlewares []echo.MiddlewareFunc
			for _, m := range []echo.MiddlewareFunc{c.outer, echolimit.New(l, client, refund(&statuses)), c.inner} {
				if m != nil {
					middlewares = append(middlewares, m)
				}
			}
			e := server(c.handler, middlewares...)
			got := served(t, e)
			want, remaining := c.asked, 5
			if want == "" {
				want, remaining = "[]", 4
			}
			if got != c.status || fmt.Sprint(statuses) != want || left(t, l) != remaining {
				t.Errorf("status %d, RefundIf got %v, %d left; want %d, %s and %d", got, statuses, left(t, l), c.status, want, remaining)
			}
		})
	}
}

// With RouterConfig.AutoHandleHEAD, a handler of GET gets a ResponseWriter that keeps the status until
// the handler has returned.
func TestNew_RefundIfHEAD(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler echo.HandlerFunc
		status  int
	}{
		{"response", func(c *echo.Context) error { return c.String(404, "none") }, 404},
		{"error", func(*echo.Context) error { return echo.ErrUnauthorized }, 401},
		{"nothing", func(*echo.Context) error { return nil }, 200},
	} {
		for _, ofRoute := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/of the route: %t", c.name, ofRoute), func(t *testing.T) {
				var statuses []int
				l := times(5)
				limit := echolimit.New(l, client, refund(&statuses))
				e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
				if ofRoute {
					e.GET("/", c.handler, limit)
				} else {
					e.Use(limit)
					e.GET("/", c.handler)
				}
				w := httptest.NewRecorder()
				e.ServeHTTP(w, httptest.NewRequest("HEAD", "/", nil))
				if w.Code != c.status || fmt.Sprint(statuses) != fmt.Sprintf("[%d]", c.status) || left(t, l) != 5 {
					t.Errorf("status %d, RefundIf got %v, %d left; want %d, the same and 5", w.Code, statuses, left(t, l), c.status)
				}
			})
		}
	}
}

type hangUp struct{}

// served sends one request to a real server, and returns the status when the handlers have
// returned.
func served(t *testing.T, h http.Handler) int {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		h.ServeHTTP(w, r.WithContext(context.WithValue(ctx, hangUp{}, cancel)))
	}))
	defer s.Close()
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // closing earlier would hang up
	resp.Body.Close()
	return resp.StatusCode
}
