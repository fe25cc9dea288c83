package echolimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
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

// committed reports whether the response of c has begun.
func committed(c *echo.Context) bool {
	res, err := echo.UnwrapResponse(c.Response())
	if err != nil {
		panic(err)
	}
	return res.Committed
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

// The middleware returns an error with the status and the Rejection, and writes nothing.
func TestNew_Error(t *testing.T) {
	e := echo.New()
	noKey := func(context.Context, *http.Request) (string, error) {
		return "", fmt.Errorf("%w: %w", keyfunc.ErrNoKey, echo.ErrForbidden)
	}
	l := times(1)
	if _, err := l.Allow(t.Context(), "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		key    keyfunc.Func
		status int
		text   string
		reason error // of the Rejection
	}{
		{"denied", keyfunc.RemoteIP(), 429, `weir: 429: Policy "times" allows 1 request per 86400 s. Retry in 86400 s.`, gate.ErrDenied},
		{"no key", noKey, 400, "weir: 400: The request does not say who sent it.", echo.ErrForbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			ctx := e.NewContext(httptest.NewRequest("GET", "/path", nil), w)
			err := echolimit.New(l, c.key)(func(*echo.Context) error { t.Error("the handler ran"); return nil })(ctx)
			if err == nil || err.Error() != c.text || echo.StatusCode(err) != c.status {
				t.Fatalf("the error is %v with the status %d, want %s", err, echo.StatusCode(err), c.text)
			}
			var rejection *gate.Rejection
			if !errors.As(err, &rejection) || !errors.Is(rejection, c.reason) || rejection.Problem.Status != c.status || rejection.Problem.Instance != "/path" {
				t.Errorf("the rejection is %#v", rejection)
			}
			if errors.Is(err, c.reason) {
				t.Errorf("the error contains %v", c.reason)
			}
			if committed(ctx) || w.Body.Len() > 0 || w.Header().Get("Content-Type") != "" {
				t.Errorf("the response is committed: %v, %q, %v", committed(ctx), w.Body, w.Header())
			}
			if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("the fields are %v", w.Header())
			}
			if _, decided := gate.FromContext(ctx.Request().Context()); decided != (c.status == 429) {
				t.Errorf("a decision: %v", decided)
			}
		})
	}
}

// Problem documents of denied requests to /: all members, and those of echo.ProblemError.
const (
	members = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
		`"detail":"Policy \"times\" allows 1 request per 86400 s. Retry in 86400 s.","instance":"/"`
	document      = members + `,"violated-policies":["times"]}`
	echosDocument = members + `}`
)

// A denied request with every kind of error handler.
func TestNew_ErrorHandlers(t *testing.T) {
	const asJSON = echo.MIMEApplicationJSON
	byDefault := echo.DefaultHTTPErrorHandler(false)
	for _, c := range []struct {
		name    string
		handler echo.HTTPErrorHandler
		media   string
		body    string // as compact JSON
		status  int
	}{
		{"default", byDefault, asJSON, document, 429},
		{"default, exposing", echo.DefaultHTTPErrorHandler(true), asJSON, document, 429},
		{"problem details", echo.ProblemDetailsHTTPErrorHandler(false), gate.ProblemMediaType, echosDocument, 429},
		{"problem details, exposing", echo.ProblemDetailsHTTPErrorHandler(true), gate.ProblemMediaType, echosDocument, 429},
		{
			"chooses a media type",
			func(c *echo.Context, err error) {
				c.Response().Header().Set("Content-Type", gate.ProblemMediaType)
				byDefault(c, err)
			},
			gate.ProblemMediaType, document, 429,
		},
		{
			"wraps the error",
			func(c *echo.Context, err error) { byDefault(c, fmt.Errorf("wrapped: %w", err)) },
			asJSON, document, 429,
		},
		{
			"nests the problem document",
			func(c *echo.Context, err error) {
				_ = c.JSON(echo.StatusCode(err), map[string]any{"error": err})
			},
			asJSON, `{"error":` + document + `}`, 429,
		},
		{
			"reads the problem",
			func(c *echo.Context, err error) {
				var rejection *gate.Rejection
				errors.As(err, &rejection)
				_ = c.JSON(http.StatusTeapot, rejection.Problem.Violated)
			},
			asJSON, `["times"]`, 418,
		},
		{
			"ignores the problem",
			func(c *echo.Context, _ error) { _ = c.Blob(http.StatusBadGateway, "text/x-own", []byte(`"own"`)) },
			"text/x-own", `"own"`, 502,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := server(ok, echolimit.New(times(1), keyfunc.RemoteIP()))
			e.HTTPErrorHandler = c.handler
			get(e, "/")
			got := get(e, "/")
			var body bytes.Buffer
			if err := json.Compact(&body, got.Body.Bytes()); err != nil || body.String() != c.body {
				t.Errorf("the body is %s, %v\n\twant %s", got.Body, err, c.body)
			}
			if media := got.Header().Get("Content-Type"); got.Code != c.status || media != c.media {
				t.Errorf("got %d as %s, want %d as %s", got.Code, media, c.status, c.media)
			}
			if got.Header().Get("Retry-After") != "86400" {
				t.Errorf("the fields are %v", got.Header())
			}
		})
	}
}

// An error of Echo in the error of a key function does not change the response.
func TestNew_ErrorOfKeyFunction(t *testing.T) {
	const want = `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request does not say who sent it.","instance":"/"}` + "\n"
	for handler, handle := range map[string]echo.HTTPErrorHandler{
		"default": echo.DefaultHTTPErrorHandler(true), "problem details": echo.ProblemDetailsHTTPErrorHandler(true),
	} {
		for name, inner := range map[string]error{
			"HTTPError":    echo.NewHTTPError(http.StatusTeapot, "internal"),
			"ProblemError": &echo.ProblemError{Status: http.StatusTeapot, Detail: "internal"},
		} {
			t.Run(handler+"/"+name, func(t *testing.T) {
				e := server(ok, echolimit.New(times(1), func(context.Context, *http.Request) (string, error) {
					return "", fmt.Errorf("%w: %w", keyfunc.ErrNoKey, inner)
				}))
				e.HTTPErrorHandler = handle
				if got := get(e, "/"); got.Code != 400 || got.Body.String() != want {
					t.Errorf("got %d %s\n\twant 400 %s", got.Code, got.Body, want)
				}
			})
		}
	}
}

// The middleware returns the error of OnDenied.
func TestOnDenied_Error(t *testing.T) {
	forbidden := echolimit.OnDenied(func(*echo.Context, core.Decision) error { return echo.ErrForbidden })
	e := server(ok, echolimit.New(times(1), keyfunc.RemoteIP(), forbidden))
	get(e, "/")
	if got := get(e, "/"); got.Code != 403 {
		t.Errorf("the status is %d, want 403 of OnDenied", got.Code)
	}
}

// The results of OnRejected, also inside a middleware that buffers the status.
func TestOnRejected(t *testing.T) {
	noKey := func(context.Context, *http.Request) (string, error) { return "", keyfunc.ErrNoKey }
	for _, c := range []struct {
		name   string
		f      func(c *echo.Context, rejection *gate.Rejection) error
		status int
		body   string // the beginning
	}{
		{"the rejection", func(_ *echo.Context, rejection *gate.Rejection) error { return rejection }, 400, `{"type":"about:blank",`},
		{"an error", func(*echo.Context, *gate.Rejection) error { return echo.ErrForbidden }, 403, `{"message":"Forbidden"}`},
		{"a redirect", func(c *echo.Context, _ *gate.Rejection) error { return c.Redirect(303, "/login") }, 303, ""},
		{"a body", func(c *echo.Context, _ *gate.Rejection) error { return c.String(418, "own") }, 418, "own"},
		{"nothing", func(*echo.Context, *gate.Rejection) error { return nil }, 400, ""},
	} {
		for outer, middlewares := range map[string][]echo.MiddlewareFunc{
			"outermost": nil, "inside Gzip": {middleware.Gzip()}, "inside Gzip of long bodies": {middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000})},
		} {
			t.Run(c.name+"/"+outer, func(t *testing.T) {
				e := server(ok, append(middlewares, echolimit.New(times(1), noKey, echolimit.OnRejected(c.f)))...)
				s := httptest.NewServer(e)
				defer s.Close()
				client := s.Client()
				client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				resp, err := client.Get(s.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var body bytes.Buffer
				if _, err := body.ReadFrom(resp.Body); err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != c.status || !strings.HasPrefix(body.String(), c.body) || (body.Len() > 0) != (c.body != "") {
					t.Errorf("got %d %q, want %d %q", resp.StatusCode, body.String(), c.status, c.body)
				}
			})
		}
	}
}

// The Store gets the context of the request. The context of key functions, Skip and Cost has its
// values and those of c.Set.
func TestNew_Contexts(t *testing.T) {
	type own struct{}
	var got context.Context
	store := new(storetest.Fake).Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		got = ctx
		return next(ctx, charges)
	})
	l := core.Must(core.New(store, core.SlidingLog("r", core.PerDay(9))))
	signIn := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set("user", "ann")
			return next(c)
		}
	}
	user := keyfunc.ContextSubject("user")
	ctx, cancel := context.WithDeadline(context.WithValue(t.Context(), own{}, "value"), time.Now().Add(time.Hour))
	defer cancel()
	//lint:ignore SA1029 the test is about keys that are strings
	ctx = context.WithValue(ctx, "plain", "text")
	key := func(view context.Context, r *http.Request) (string, error) {
		if view.Value("user") != "ann" || view.Value(own{}) != "value" || view.Value("plain") != "text" || view.Value("none") != nil {
			t.Errorf("the values are %v, %v, %v, %v", view.Value("user"), view.Value(own{}), view.Value("plain"), view.Value("none"))
		}
		end, timed := view.Deadline()
		want, _ := ctx.Deadline()
		if !timed || !end.Equal(want) || view.Done() != ctx.Done() || view.Err() != nil {
			t.Errorf("the deadline is %v, the error %v", end, view.Err())
		}
		return user(view, r)
	}
	var seen []any
	see := func(ctx context.Context) { seen = append(seen, ctx.Value("user")) }
	skip := gate.Skip(func(ctx context.Context, _ *http.Request) bool { see(ctx); return false })
	cost := gate.Cost(func(ctx context.Context, _ *http.Request) int { see(ctx); return 1 })
	e := server(ok, signIn, echolimit.New(l, key, skip, cost))
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if w.Code != 200 || got != ctx {
		t.Errorf("status %d: the Store got %v, want the context of the request", w.Code, got)
	}
	if want := []any{"ann", "ann"}; !slices.Equal(seen, want) {
		t.Errorf("Skip and Cost see the users %v, want %v", seen, want)
	}
}

// patterns is a Policy that remembers the patterns of requests.
type patterns []string

func (p *patterns) ForRequest(r *http.Request) *core.Limiter { *p = append(*p, r.Pattern); return nil }

// An ownRouter is a Router that does not set the pattern of the request.
type ownRouter struct{ echo.Router }

func (r ownRouter) Route(c *echo.Context) echo.HandlerFunc {
	h := r.Router.Route(c)
	c.Request().Pattern = ""
	return h
}

func TestNew_PatternOfOwnRouter(t *testing.T) {
	var got patterns
	e := echo.NewWithConfig(echo.Config{Router: ownRouter{echo.NewRouter(echo.RouterConfig{})}})
	e.Use(echolimit.New(times(9), keyfunc.RemoteIP(), gate.Routes(&got)))
	e.GET("/users/:id", ok)
	if get(e, "/users/1"); !slices.Equal(got, patterns{"/users/:id"}) {
		t.Errorf("got %q, want the path of the route", got)
	}
}

// In Pre and without a route, the pattern is that of the router around Echo.
func TestNew_Pattern(t *testing.T) {
	var got, before patterns
	e := echo.New()
	e.Pre(echolimit.New(times(9), keyfunc.RemoteIP(), gate.Routes(&before)))
	e.Use(echolimit.New(times(9), keyfunc.RemoteIP(), gate.Routes(&got)))
	e.GET("/users/:id", ok)
	e.GET("", ok)
	e.GET("/assets*", ok)
	e.Group("/files", func(next echo.HandlerFunc) echo.HandlerFunc { return next }).GET("/:name", ok)
	mux := http.NewServeMux()
	mux.Handle("/", e)
	targets := []string{"GET /users/1", "GET /", "GET /assets/a", "GET /files/a", "GET /files/a/b", "GET /none", "POST /users/1"}
	for _, target := range targets {
		method, path, _ := strings.Cut(target, " ")
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	if want := []string{"/users/:id", "/", "/assets*", "/files/:name", "/files/:name", "/", "/users/:id"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := slices.Repeat([]string{"/"}, len(targets)); !slices.Equal(before, want) {
		t.Errorf("before the router: got %q, want %q", before, want)
	}
}
