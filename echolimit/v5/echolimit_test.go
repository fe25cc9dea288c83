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

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/echolimit/v5"
	"github.com/weir-go/weir/keyfunc"
)

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

// keyfunc.PathValue finds the parameters of Echo.
func TestNew_PathValue(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("tenant", core.PerHour(1))))
	e := echo.New()
	e.GET("/tenants/:tenant", func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }, echolimit.New(l, keyfunc.PathValue("tenant")))
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
