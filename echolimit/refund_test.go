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

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/echolimit"
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

// A plainWriter is a Writer that another middleware puts in place of that of the Response.
type plainWriter struct{ http.ResponseWriter }

// Every way in which a request of Echo can end.
func TestNew_RefundIf(t *testing.T) {
	problem := errors.New("problem")
	fails := func(err error) echo.HandlerFunc { return func(echo.Context) error { return err } }
	for _, c := range []struct {
		name    string
		outer   echo.MiddlewareFunc // around the gate
		inner   echo.MiddlewareFunc // inside the gate
		handler echo.HandlerFunc
		status  int    // of the answer
		asked   string // the statuses that RefundIf gets; empty if nothing is refunded
	}{
		{name: "HTTPError", handler: fails(echo.ErrUnauthorized), status: 401, asked: "[401]"},
		{name: "wrapped HTTPError", handler: fails(fmt.Errorf("wrapped: %w", echo.ErrUnauthorized)), status: 500, asked: "[500]"},
		{name: "error", handler: fails(problem), status: 500, asked: "[500]"},
		{name: "error of a middleware", inner: func(echo.HandlerFunc) echo.HandlerFunc { return fails(echo.ErrForbidden) }, handler: ok, status: 403, asked: "[403]"},
		{name: "Context.Error", handler: func(c echo.Context) error { c.Error(echo.ErrNotFound); return nil }, status: 404, asked: "[404]"},
		{name: "Context.Error and its error", handler: func(c echo.Context) error { c.Error(echo.ErrNotFound); return echo.ErrNotFound }, status: 404, asked: "[404]"},
		{
			name: "an outer middleware answers", handler: fails(problem),
			outer: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					if err := next(c); err != nil {
						return c.String(409, "x")
					}
					return nil
				}
			},
			status: 409, asked: "[409]",
		},
		{
			name: "an outer middleware restores the writer", handler: fails(echo.ErrUnauthorized),
			outer: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error { // like Gzip if nothing is written
					was := c.Response().Writer
					defer func() { c.Response().Writer = was }()
					c.Response().Writer = &plainWriter{was}
					return next(c)
				}
			},
			status: 401, asked: "[401]",
		},
		{
			name: "an inner middleware replaces the writer", handler: fails(echo.ErrUnauthorized),
			inner: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					c.Response().Writer = &plainWriter{c.Response().Writer}
					return next(c)
				}
			},
			status: 401, asked: "[401]",
		},
		{
			name: "an outer timeout", handler: fails(echo.ErrUnauthorized),
			outer: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error { // ends the context before the answer is written
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
				return func(c echo.Context) error {
					c.Request().Context().Value(hangUp{}).(context.CancelFunc)()
					return next(c)
				}
			},
		},
		{
			name: "a panic", handler: func(c echo.Context) error { _ = c.NoContent(204); panic(problem) },
			outer: func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) (err error) {
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
