package echolimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/echolimit"
	"github.com/weir-go/weir/keyfunc"
)

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

// keyfunc.PathValue finds the parameters of Echo.
func TestNew_PathValue(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("tenant", core.PerHour(1))))
	e := echo.New()
	e.GET("/tenants/:tenant", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }, echolimit.New(l, keyfunc.PathValue("tenant")))
	for i, c := range []struct {
		path   string
		status int
	}{{"/tenants/a", 204}, {"/tenants/b", 204}, {"/tenants/a", 429}} {
		w := httptest.NewRecorder()
		if e.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil)); w.Code != c.status {
			t.Errorf("request %d: the status is %d, want %d", i, w.Code, c.status)
		}
	}
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
