package echolimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// times admits n requests a day.
func times(n int) *core.Limiter {
	return core.Must(core.New(memstore.New(), core.SlidingLog("times", core.PerDay(n))))
}

func ok(c *echo.Context) error { return c.String(http.StatusOK, "ok") }

// server serves / behind the middlewares.
func server(h echo.HandlerFunc, middlewares ...echo.MiddlewareFunc) *echo.Echo {
	e := echo.New()
	e.Use(middlewares...)
	e.GET("/", h)
	return e
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

// refund returns a RefundIf that refunds every request and appends the statuses.
func refund(statuses *[]int) gate.Option {
	return gate.RefundIf(func(status int) bool { *statuses = append(*statuses, status); return true })
}

// client is a key function with the same key for every request.
func client(context.Context, *http.Request) (string, error) { return "192.0.2.1", nil }

// left returns the remaining events of client.
func left(t *testing.T, l *core.Limiter) int { return testkit.Left(t, l, "192.0.2.1") }

// committed reports whether the response of c has begun.
func committed(c *echo.Context) bool {
	res, err := echo.UnwrapResponse(c.Response())
	if err != nil {
		panic(err)
	}
	return res.Committed
}
