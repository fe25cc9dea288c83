package ginlimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

func build(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
	return nest([]gatetest.Gate{{Limiter: l, Key: key, Opts: opts}}, h)
}

func nest(gates []gatetest.Gate, h http.HandlerFunc) http.Handler {
	e := gin.New()
	for _, g := range gates {
		e.Use(ginlimit.New(g.Limiter, g.Key, g.Opts...))
	}
	e.Any("/*path", gin.WrapF(h))
	return e
}

func buildTrusting(trust bool, key keyfunc.Func, h http.HandlerFunc) http.Handler {
	e := build(times(1), key, nil, h).(*gin.Engine)
	var proxies []string
	if trust {
		proxies = []string{"192.0.2.0/24"}
	}
	if err := e.SetTrustedProxies(proxies); err != nil {
		panic(err)
	}
	return e
}

// buildFailing has handlers that add their errors to c.Errors, and an error middleware.
func buildFailing(l *core.Limiter, key keyfunc.Func, opts []gate.Option,
	h func(w http.ResponseWriter, r *http.Request) error, answer http.HandlerFunc,
) http.Handler {
	e := gin.New()
	e.Use(func(c *gin.Context) {
		c.Next()
		if len(c.Errors) > 0 && !c.Writer.Written() && answer != nil {
			answer(c.Writer, c.Request)
		}
	}, ginlimit.New(l, key, opts...))
	e.Any("/*path", func(c *gin.Context) {
		if err := h(c.Writer, c.Request); err != nil {
			_ = c.Error(err)
		}
	})
	return e
}

func onDenied(f func(http.ResponseWriter, *http.Request, core.Decision)) gate.Option {
	return ginlimit.OnDenied(func(c *gin.Context, d core.Decision) {
		if !c.IsAborted() || len(c.Errors) != 1 {
			panic(fmt.Sprintf("aborted %v, errors %v", c.IsAborted(), c.Errors))
		}
		f(c.Writer, c.Request, d)
	})
}

func onRejected(f func(http.ResponseWriter, *http.Request, *gate.Rejection)) gate.Option {
	return ginlimit.OnRejected(func(c *gin.Context, rejection *gate.Rejection) {
		if !c.IsAborted() || len(c.Errors) != 1 {
			panic(fmt.Sprintf("aborted %v, errors %v", c.IsAborted(), c.Errors))
		}
		f(c.Writer, c.Request, rejection)
	})
}

// buildCalls has handlers that call Check and Deny. A later handler must not run after these.
func buildCalls(gates []gatetest.Gate, h func(w http.ResponseWriter, c gatetest.Call) error) http.Handler {
	e := gin.New()
	for _, g := range gates {
		e.Use(ginlimit.New(g.Limiter, g.Key, g.Opts...))
	}
	e.Any("/*path", func(c *gin.Context) {
		if err := h(c.Writer, gatetest.Call{
			Context: func() context.Context { return c },
			Request: func() *http.Request { return c.Request },
			Replace: func(r *http.Request) { c.Request = r },
			Check: func(l *core.Limiter, key string, opts ...gate.Option) error {
				if !ginlimit.Check(c, l, key, opts...) {
					return c.Errors.Last()
				}
				return nil
			},
			Deny: func(d core.Decision) error { ginlimit.Deny(c, d); return c.Errors.Last() },
		}); (err != nil) != c.IsAborted() {
			panic(fmt.Sprintf("aborted %v, error %v", c.IsAborted(), err))
		}
	}, func(c *gin.Context) {
		if len(c.Errors) > 0 {
			c.String(http.StatusOK, "a handler after Check or Deny")
		}
	})
	return e
}

// buildRoutes cleans paths.
func buildRoutes(g gatetest.Gate, h gatetest.Handlers) http.Handler {
	e := gin.New()
	e.RemoveExtraSlash = true
	e.Use(ginlimit.New(g.Limiter, g.Key, g.Opts...))
	e.POST("/login", gin.WrapF(h.Login))
	e.GET("/login", gin.WrapF(h.Login))
	e.GET("/users/:name", gin.WrapF(h.User))
	e.GET("/files/*path", gin.WrapF(h.Files))
	return e
}

func TestContract(t *testing.T) {
	testkit.WithoutRace(t, "allocations")
	gatetest.Run(t, build, gatetest.OnDenied(onDenied), gatetest.OnRejected(onRejected), gatetest.Calls(buildCalls), gatetest.Errors(buildFailing), gatetest.Routes(buildRoutes),
		gatetest.Nest(nest), gatetest.ClientAddress(ginlimit.ClientIP, buildTrusting))
}

func BenchmarkRequest(b *testing.B) {
	gatetest.Benchmark(b, build, func(h http.HandlerFunc) http.Handler {
		e := gin.New()
		e.Any("/*path", gin.WrapF(h))
		return e
	})
}

func TestNew_Abort(t *testing.T) {
	var errs []*gin.Error
	var aborted bool
	outer := func(c *gin.Context) {
		c.Next()
		errs, aborted = c.Errors, c.IsAborted()
	}
	ran := 0
	e := engine(func(c *gin.Context) { ran++; ok(c) }, outer, ginlimit.New(times(1), keyfunc.RemoteIP()))
	if get(e); aborted || len(errs) > 0 {
		t.Fatalf("an allowed request is aborted: %v, with errors %v", aborted, errs)
	}
	got := get(e)
	if got.Code != 429 || ran != 1 || !aborted || len(errs) != 1 {
		t.Fatalf("status %d, the handler ran %d times, aborted %v, errors %v", got.Code, ran, aborted, errs)
	}
	var rejection *gate.Rejection
	if !errors.Is(errs[0], gate.ErrDenied) || !errors.As(errs[0], &rejection) || !errs[0].IsType(gin.ErrorTypePublic) {
		t.Errorf("the error is %#v", errs[0])
	}
	if rejection.Problem.Violated[0] != "times" || rejection.Decision.Len() != 1 {
		t.Errorf("the rejection is %+v", rejection)
	}
	const text = `weir: 429: Policy "times" allows 1 request per 86400 s. Retry in 86400 s.`
	if errs[0].Error() != text {
		t.Errorf("the text is %q, want %q", errs[0], text)
	}
}

// A *gin.Error of a key function does not replace the Rejection in c.Errors, and its text is not
// public.
func TestNew_KeyFunctionError(t *testing.T) {
	inner := &gin.Error{Err: errors.New("secret"), Type: gin.ErrorTypePrivate}
	key := func(context.Context, *http.Request) (string, error) {
		return "", fmt.Errorf("%w: %w", keyfunc.ErrNoToken, inner)
	}
	var errs []*gin.Error
	e := engine(ok, func(c *gin.Context) { c.Next(); errs = c.Errors }, ginlimit.New(times(1), key))
	got := get(e)
	if got.Code != 401 || len(errs) != 1 || errs[0] == inner || errs[0].Error() != "weir: 401: Sign-in is required." {
		t.Errorf("status %d, errors %v", got.Code, errs)
	}
	if !errors.Is(errs[0], keyfunc.ErrNoToken) || errors.Is(errs[0], gate.ErrDenied) {
		t.Errorf("the error is %v", errs[0])
	}
}

// Middlewares around the gate that write c.Errors even if there is an answer, like Gin's
// ErrorLogger.
func TestNew_ErrorMiddleware(t *testing.T) {
	fails := func(err error) keyfunc.Func {
		return func(context.Context, *http.Request) (string, error) { return "", err }
	}
	spent := times(1)
	if _, err := spent.Allow(t.Context(), "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	down := core.Must(core.New(new(storetest.Fake).Set(storetest.Fail(core.ErrUnavailable)), core.SlidingLog("times", core.PerDay(1))))
	quiet := gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
	all := func(int) bool { return true }
	answers := []struct {
		name   string
		gate   gin.HandlerFunc
		status int
		media  string
	}{
		{"denied", ginlimit.New(spent, keyfunc.RemoteIP()), 429, gate.ProblemMediaType},
		{"denied, with a refund", ginlimit.New(spent, keyfunc.RemoteIP(), gate.RefundIf(all)), 429, gate.ProblemMediaType},
		{"denied, OnDenied", ginlimit.New(spent, keyfunc.RemoteIP(), ginlimit.OnDenied(func(c *gin.Context, _ core.Decision) {
			c.JSON(http.StatusTooManyRequests, "own")
		})), 429, "application/json; charset=utf-8"},
		{"no key", ginlimit.New(spent, fails(keyfunc.ErrNoKey)), 400, gate.ProblemMediaType},
		{"no token", ginlimit.New(spent, fails(keyfunc.ErrNoToken)), 401, gate.ProblemMediaType},
		{"undecided", ginlimit.New(down, keyfunc.RemoteIP(), gate.FailClosed(), quiet), 503, gate.ProblemMediaType},
		{"fault", ginlimit.New(spent, fails(errors.New("secret")), quiet), 500, gate.ProblemMediaType},
	}
	around := map[string]gin.HandlerFunc{
		"ErrorLogger":           gin.ErrorLogger(),
		"ErrorLogger of public": gin.ErrorLoggerT(gin.ErrorTypePublic),
		"JSON with a status": func(c *gin.Context) {
			c.Next()
			if len(c.Errors) > 0 {
				c.JSON(http.StatusTeapot, gin.H{"error": c.Errors.Last().Error()})
			}
		},
		"text": func(c *gin.Context) {
			c.Next()
			_, _ = c.Writer.WriteString(c.Errors.String())
		},
		"a gate with a refund": ginlimit.New(times(9), keyfunc.RemoteIP(), gate.RefundIf(all)),
		"ErrorLogger around a gate with a refund": func(c *gin.Context) {
			ginlimit.New(times(9), keyfunc.RemoteIP(), gate.RefundIf(all))(c)
			gin.ErrorLogger()(c)
		},
		"ErrorLogger around a buffer": func(c *gin.Context) {
			b := &buffer{ResponseWriter: c.Writer}
			c.Writer = b
			gin.ErrorLogger()(c)
			b.send()
		},
	}
	for name, outer := range around {
		for _, c := range answers {
			for _, method := range []string{"GET", "HEAD"} {
				t.Run(name+"/"+c.name+"/"+method, func(t *testing.T) {
					var errs []*gin.Error
					e := gin.New()
					e.Use(func(c *gin.Context) { c.Next(); errs = c.Errors }, outer, c.gate)
					e.Handle(method, "/", ok)
					w := httptest.NewRecorder()
					e.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
					got := w.Result()
					if got.StatusCode != c.status || got.Header.Get("Content-Type") != c.media {
						t.Errorf("got %d as %s, want %d as %s", got.StatusCode, got.Header.Get("Content-Type"), c.status, c.media)
					}
					if len(errs) != 1 {
						t.Errorf("c.Errors is %v, want one entry", errs)
					}
					if method == "HEAD" && c.media == gate.ProblemMediaType {
						if w.Body.Len() > 0 {
							t.Errorf("HEAD has the body %s", w.Body)
						}
						return
					}
					var doc any
					if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
						t.Errorf("the body is not one document: %v\n%s", err, w.Body)
					}
				})
			}
		}
	}
}

// A buffer keeps the answer until it is sent.
type buffer struct {
	gin.ResponseWriter
	status int
	body   bytes.Buffer
}

func (b *buffer) Written() bool                     { return b.body.Len() > 0 }
func (b *buffer) WriteHeader(status int)            { b.status = max(b.status, status) }
func (b *buffer) Write(p []byte) (int, error)       { return b.body.Write(p) }
func (b *buffer) WriteString(s string) (int, error) { return b.body.WriteString(s) }
func (b *buffer) send() {
	b.ResponseWriter.WriteHeader(b.status)
	_, _ = b.ResponseWriter.Write(b.body.Bytes())
}

// If OnDenied writes no body, a middleware around the gate may.
func TestOnDenied_NothingWritten(t *testing.T) {
	e := engine(ok, gin.ErrorLogger(), ginlimit.New(times(1), keyfunc.RemoteIP(), ginlimit.OnDenied(func(c *gin.Context, _ core.Decision) {
		c.Status(http.StatusTooManyRequests)
	})))
	get(e)
	const want = `{"error":"weir: 429: Policy \"times\" allows 1 request per 86400 s. Retry in 86400 s."}`
	if got := get(e); got.Code != 429 || got.Body.String() != want {
		t.Errorf("got %d %s, want 429 %s", got.Code, got.Body, want)
	}
}

// A request without a route passes the gate of all requests and the gate of NoRoute.
func TestNew_NoRoute(t *testing.T) {
	l := times(5)
	var statuses []int
	e := gin.New()
	e.Use(ginlimit.New(l, keyfunc.RemoteIP(), refund(&statuses)))
	e.NoRoute(ginlimit.New(times(1), keyfunc.RemoteIP()))
	for i, want := range []int{404, 429} {
		if got := get(e); got.Code != want {
			t.Errorf("request %d has status %d, want %d", i, got.Code, want)
		}
	}
	if fmt.Sprint(statuses) != "[404 429]" || left(t, l) != 5 {
		t.Errorf("RefundIf got %v, %d left; want [404 429] and 5", statuses, left(t, l))
	}
}

// FromContext finds the decision in every context that a handler may pass on, with and without
// Engine.ContextWithFallback.
func TestNew_FromContext(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		e := engine(func(c *gin.Context) {
			type own struct{}
			for name, ctx := range map[string]context.Context{
				"gin.Context": c, "request": c.Request.Context(), "copy": c.Copy(),
				"derived": context.WithValue(c, own{}, 1),
			} {
				if d, found := gate.FromContext(ctx); !found || d.State(0).Rule.Name() != "times" {
					t.Errorf("fallback %v: %s has %+v, %v", fallback, name, d, found)
				}
			}
		}, ginlimit.New(times(1), keyfunc.RemoteIP()))
		e.ContextWithFallback = fallback
		if got := get(e); got.Code != 200 {
			t.Errorf("status %d", got.Code)
		}
	}
	plain := engine(func(c *gin.Context) {
		if _, found := gate.FromContext(c); found {
			t.Error("a decision without a gate")
		}
	})
	get(plain)
}

// Key functions, Skip and Cost get the *gin.Context, and the Store gets the context of the request, because Gin
// reuses the *gin.Context.
func TestNew_Contexts(t *testing.T) {
	var got context.Context
	store := new(storetest.Fake).Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		got = ctx
		return next(ctx, charges)
	})
	l := core.Must(core.New(store, core.SlidingLog("r", core.PerDay(9))))
	signIn := func(c *gin.Context) { c.Set("user", "ann") }
	user := keyfunc.ContextSubject("user")
	var ctx context.Context
	key := func(c context.Context, r *http.Request) (string, error) {
		ctx = c
		return user(c, r)
	}
	var seen []any
	see := func(ctx context.Context) { seen = append(seen, ctx.Value("user")) }
	skip := gate.Skip(func(ctx context.Context, _ *http.Request) bool { see(ctx); return false })
	cost := gate.Cost(func(ctx context.Context, _ *http.Request) int { see(ctx); return 1 })
	e := engine(ok, signIn, ginlimit.New(l, key, skip, cost))
	r := httptest.NewRequest("GET", "/", nil)
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	if w.Code != 200 || got != r.Context() {
		t.Errorf("status %d: the Store got %v, want the context of the request", w.Code, got)
	}
	if want := []any{"ann", "ann"}; !slices.Equal(seen, want) {
		t.Errorf("Skip and Cost see the users %v, want %v", seen, want)
	}
	if _, isGin := ctx.(*gin.Context); !isGin {
		t.Errorf("the key function got a %T", ctx)
	}
}

// patterns is a Policy that remembers the patterns of requests.
type patterns []string

func (p *patterns) ForRequest(r *http.Request) *core.Limiter { *p = append(*p, r.Pattern); return nil }

// Without a route, the pattern is that of the router around Gin.
func TestNew_Pattern(t *testing.T) {
	var got patterns
	limit := ginlimit.New(times(9), keyfunc.RemoteIP(), gate.Routes(&got))
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.Use(limit)
	e.GET("/users/:id", ok)
	e.GET(`/users/:id/a\:b`, ok)
	e.Group("/files").GET("/*path", ok)
	mux := http.NewServeMux()
	mux.Handle("/", e)
	targets := map[string]string{"GET /users/1": "/users/:id", "GET /files/a": "/files/*path", "GET /none": "/", "POST /users/1": "/"}
	if gin.Version >= "v1.12" { // earlier ones do not find a route with "\:" in ServeHTTP
		targets["GET /users/1/a:b"] = "/users/:id/a:b"
	}
	for target, want := range targets {
		got = nil
		method, path, _ := strings.Cut(target, " ")
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
		if !slices.Equal(got, patterns{want}) {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}

// A middleware has read the body, and Gin has kept its bytes.
func TestCostOfBody_KeptByGin(t *testing.T) {
	for limit, want := range map[int64]int{7: http.StatusNoContent, 6: http.StatusBadRequest} {
		length := func(_ context.Context, _ *http.Request, body []byte) (int, error) { return len(body), nil }
		e := gin.New()
		e.Use(func(c *gin.Context) {
			if err := c.ShouldBindBodyWithJSON(new(map[string]int)); err != nil {
				t.Error(err)
			}
		}, ginlimit.New(times(9), keyfunc.Constant("k"), gate.CostOfBody(limit, length)))
		e.POST("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(`{"a":1}`)))
		if w.Code != want {
			t.Errorf("with a limit of %d bytes, the status is %d, want %d", limit, w.Code, want)
		}
	}
}

// The parameters of a route of Gin are those of its context, which ginlimit passes on.
func TestPathValue_Gin(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	l := core.Must(core.New(memstore.New(), core.FixedWindow("tenant", core.PerMinute(1))))
	router := gin.New()
	router.GET("/:tenant", ginlimit.New(l, keyfunc.PathValue("tenant")), func(c *gin.Context) { c.Status(http.StatusOK) })
	router.GET("/:tenant/users", ginlimit.New(l, keyfunc.PathValue("tenants")), func(c *gin.Context) { c.Status(http.StatusOK) })
	for _, c := range []struct {
		path   string
		status int
	}{{"/acme", 200}, {"/acme", 429}, {"/other", 200}, {"/acme/users", 400}} {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		if w.Code != c.status {
			t.Errorf("GET %s: status %d, want %d", c.path, w.Code, c.status)
		}
	}
}
