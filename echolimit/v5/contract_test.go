package echolimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/echolimit/v5"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

func build(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
	return nest([]gatetest.Gate{{Limiter: l, Key: key, Opts: opts}}, h)
}

func nest(gates []gatetest.Gate, h http.HandlerFunc) http.Handler {
	e := echo.New()
	for i, g := range gates {
		use := e.Use
		if i < len(gates)-1 {
			use = e.Pre // before the router
		}
		use(echolimit.New(g.Limiter, g.Key, g.Opts...))
	}
	e.Any("/*", echo.WrapHandler(h))
	return e
}

// buildTrusting has no IPExtractor if trust is false.
func buildTrusting(trust bool, key keyfunc.Func, h http.HandlerFunc) http.Handler {
	e := build(times(1), key, nil, h).(*echo.Echo)
	if trust {
		_, proxies, _ := net.ParseCIDR("192.0.2.0/24")
		e.IPExtractor = echo.ExtractIPFromXFFHeader(echo.TrustIPRange(proxies))
	}
	return e
}

// buildFailing has handlers that return their errors, and an error handler.
func buildFailing(l *core.Limiter, key keyfunc.Func, opts []gate.Option,
	h func(w http.ResponseWriter, r *http.Request) error, answer http.HandlerFunc,
) http.Handler {
	e := echo.New()
	e.Use(echolimit.New(l, key, opts...))
	e.Any("/*", func(c *echo.Context) error { return h(c.Response(), c.Request()) })
	byDefault := e.HTTPErrorHandler
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		if rejection := new(gate.Rejection); errors.As(err, &rejection) {
			byDefault(c, err)
		} else if !committed(c) && answer != nil {
			answer(c.Response(), c.Request())
		}
	}
	return e
}

func onDenied(f func(http.ResponseWriter, *http.Request, core.Decision)) gate.Option {
	return echolimit.OnDenied(func(c *echo.Context, d core.Decision) error { f(c.Response(), c.Request(), d); return nil })
}

func onRejected(f func(http.ResponseWriter, *http.Request, *gate.Rejection)) gate.Option {
	return echolimit.OnRejected(func(c *echo.Context, rejection *gate.Rejection) error {
		f(c.Response(), c.Request(), rejection)
		return nil
	})
}

// buildCalls has handlers that call Check and Deny, and return the errors of these.
func buildCalls(gates []gatetest.Gate, h func(w http.ResponseWriter, c gatetest.Call) error) http.Handler {
	e := echo.New()
	for _, g := range gates {
		e.Use(echolimit.New(g.Limiter, g.Key, g.Opts...))
	}
	e.Any("/*", func(c *echo.Context) error {
		return h(c.Response(), gatetest.Call{
			Context: func() context.Context { return c.Request().Context() },
			Request: c.Request,
			Replace: c.SetRequest,
			Check: func(l *core.Limiter, key string, opts ...gate.Option) error {
				return unanswered(c, echolimit.Check(c, l, key, opts...))
			},
			Deny: func(d core.Decision) error { return unanswered(c, echolimit.Deny(c, d)) },
		})
	})
	return e
}

// unanswered panics unless err is nil or contains a Rejection, and no response is written.
func unanswered(c *echo.Context, err error) error {
	if err != nil && !errors.As(err, new(*gate.Rejection)) || committed(c) {
		panic(fmt.Sprintf("committed %v, error %#v", committed(c), err))
	}
	return err
}

// buildRoutes accepts slashes at both ends of a path.
func buildRoutes(g gatetest.Gate, h gatetest.Handlers) http.Handler {
	e := echo.New()
	e.Pre(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Request().URL.Path = "/" + strings.Trim(c.Request().URL.Path, "/")
			return next(c)
		}
	})
	e.Use(echolimit.New(g.Limiter, g.Key, g.Opts...))
	e.POST("/login", echo.WrapHandler(h.Login))
	e.GET("/login", echo.WrapHandler(h.Login))
	e.GET("/users/:name", echo.WrapHandler(h.User))
	e.GET("/files/*", echo.WrapHandler(h.Files))
	return e
}

func TestContract(t *testing.T) {
	testkit.WithoutRace(t, "allocations")
	gatetest.Run(t, build, gatetest.Routes(buildRoutes), gatetest.ErrorHandler(echo.MIMEApplicationJSON), gatetest.OnDenied(onDenied), gatetest.OnRejected(onRejected),
		gatetest.Calls(buildCalls), gatetest.Errors(buildFailing),
		gatetest.Nest(nest), gatetest.ClientAddress(echolimit.RealIP, buildTrusting))
}

func BenchmarkRequest(b *testing.B) {
	gatetest.Benchmark(b, build, func(h http.HandlerFunc) http.Handler {
		e := echo.New()
		e.Any("/*", echo.WrapHandler(h))
		return e
	})
}
