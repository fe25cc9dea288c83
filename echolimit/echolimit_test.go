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

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/echolimit"
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

func buildTrusting(trust bool, key keyfunc.Func, h http.HandlerFunc) http.Handler {
	e := build(times(1), key, nil, h).(*echo.Echo)
	e.IPExtractor = echo.ExtractIPDirect()
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
	e.Any("/*", func(c echo.Context) error { return h(c.Response(), c.Request()) })
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		if he := new(echo.HTTPError); errors.As(err, &he) {
			e.DefaultHTTPErrorHandler(err, c)
		} else if !c.Response().Committed && answer != nil {
			answer(c.Response(), c.Request())
		}
	}
	return e
}

func onDenied(f func(http.ResponseWriter, *http.Request, core.Decision)) gate.Option {
	return echolimit.OnDenied(func(c echo.Context, d core.Decision) error { f(c.Response(), c.Request(), d); return nil })
}

func onRejected(f func(http.ResponseWriter, *http.Request, *gate.Rejection)) gate.Option {
	return echolimit.OnRejected(func(c echo.Context, rejection *gate.Rejection) error {
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
	e.Any("/*", func(c echo.Context) error {
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

// unanswered panics unless err is nil or an *echo.HTTPError, and no response is written.
func unanswered(c echo.Context, err error) error {
	if _, bare := err.(*echo.HTTPError); err != nil && !bare || c.Response().Committed {
		panic(fmt.Sprintf("committed %v, error %#v", c.Response().Committed, err))
	}
	return err
}

// buildRoutes accepts slashes at both ends of a path.
// jsonMedia returns the media type of Echo's error handler.
func jsonMedia() string {
	if echo.Version < "4.12" {
		return "application/json; charset=UTF-8"
	}
	return echo.MIMEApplicationJSON
}

func buildRoutes(g gatetest.Gate, h gatetest.Handlers) http.Handler {
	e := echo.New()
	e.Pre(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
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
	gatetest.Run(t, build, gatetest.Routes(buildRoutes), gatetest.ErrorHandler(jsonMedia()), gatetest.OnDenied(onDenied), gatetest.OnRejected(onRejected),
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

func ok(c echo.Context) error { return c.String(http.StatusOK, "ok") }

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

// The middleware returns an *echo.HTTPError that is not wrapped, and writes nothing.
func TestNew_HTTPError(t *testing.T) {
	e := echo.New()
	noKey := func(context.Context, *http.Request) (string, error) {
		return "", fmt.Errorf("%w: %w", keyfunc.ErrNoKey, echo.ErrTeapot)
	}
	l := times(1)
	if _, err := l.Allow(t.Context(), "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key    keyfunc.Func
		status int
		text   string
	}{
		{keyfunc.RemoteIP(), 429, `code=429, message=Policy "times" allows 1 request per 86400 s. Retry in 86400 s.`},
		{noKey, 400, "code=400, message=The request does not say who sent it."},
	} {
		w := httptest.NewRecorder()
		ctx := e.NewContext(httptest.NewRequest("GET", "/path", nil), w)
		err := echolimit.New(l, c.key)(func(echo.Context) error { t.Error("the handler ran"); return nil })(ctx)
		he, bare := err.(*echo.HTTPError) // not errors.As: it must not be wrapped
		if !bare || he.Code != c.status || he.Internal != nil || he.Error() != c.text {
			t.Fatalf("the error is %#v: %v", err, err)
		}
		p, ours := he.Message.(*gate.Problem)
		if !ours || p.Status != c.status || p.Instance != "/path" || p.Title == "" || p.Type == "" {
			t.Errorf("the message is %#v", he.Message)
		}
		if ctx.Response().Committed || w.Body.Len() > 0 || w.Header().Get("Content-Type") != "" {
			t.Errorf("the response is committed: %v, %q, %v", ctx.Response().Committed, w.Body, w.Header())
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("the fields are %v", w.Header())
		}
		_, decided := gate.FromContext(ctx.Request().Context())
		if decided != (c.status == 429) {
			t.Errorf("a decision: %v", decided)
		}
	}
}

// A denied request with every kind of error handler.
func TestNew_ErrorHandlers(t *testing.T) {
	asJSON := jsonMedia()
	const (
		doc = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
			`"detail":"Policy \"times\" allows 1 request per 86400 s. Retry in 86400 s.","instance":"/","violated-policies":["times"]}`
	)
	for _, c := range []struct {
		name    string
		handler func(e *echo.Echo, err *echo.HTTPError, c echo.Context) error // nil: Echo's own
		target  string
		debug   bool
		media   string
		body    string // as compact JSON
		status  int
	}{
		{name: "default", media: asJSON, body: doc, status: 429},
		{name: "default, debug", debug: true, media: asJSON, body: doc, status: 429},
		{name: "default, pretty", target: "/?pretty", media: asJSON, body: doc, status: 429},
		{
			name: "chooses a media type",
			handler: func(e *echo.Echo, err *echo.HTTPError, c echo.Context) error {
				c.Response().Header().Set("Content-Type", gate.ProblemMediaType)
				e.DefaultHTTPErrorHandler(err, c)
				return nil
			},
			media: gate.ProblemMediaType, body: doc, status: 429,
		},
		{
			name: "nests the problem document",
			handler: func(_ *echo.Echo, err *echo.HTTPError, c echo.Context) error {
				return c.JSON(err.Code, echo.Map{"error": err.Message})
			},
			media: asJSON, body: `{"error":` + doc + `}`, status: 429,
		},
		{
			name: "reads the problem",
			handler: func(_ *echo.Echo, err *echo.HTTPError, c echo.Context) error {
				return c.JSON(http.StatusTeapot, err.Message.(*gate.Problem).Violated)
			},
			media: asJSON, body: `["times"]`, status: 418,
		},
		{
			name: "ignores the problem",
			handler: func(_ *echo.Echo, _ *echo.HTTPError, c echo.Context) error {
				return c.Blob(http.StatusBadGateway, "text/x-own", []byte(`"own"`))
			},
			media: "text/x-own", body: `"own"`, status: 502,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := server(ok, echolimit.New(times(1), keyfunc.RemoteIP()))
			e.Debug = c.debug
			if c.handler != nil {
				e.HTTPErrorHandler = func(err error, ctx echo.Context) {
					if err := c.handler(e, err.(*echo.HTTPError), ctx); err != nil {
						t.Error(err)
					}
				}
			}
			if c.target == "" {
				c.target = "/"
			}
			get(e, c.target)
			got := get(e, c.target)
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

// The middleware returns the error of OnDenied.
func TestOnDenied_Error(t *testing.T) {
	teapot := echolimit.OnDenied(func(echo.Context, core.Decision) error { return echo.ErrTeapot })
	e := server(ok, echolimit.New(times(1), keyfunc.RemoteIP(), teapot))
	get(e, "/")
	if got := get(e, "/"); got.Code != 418 {
		t.Errorf("the status is %d, want 418 of OnDenied", got.Code)
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
		return func(c echo.Context) error {
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
