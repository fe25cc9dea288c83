package benchmarks

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/httprate"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	echo5 "github.com/labstack/echo/v5"
	middleware5 "github.com/labstack/echo/v5/middleware"
	"github.com/sethvargo/go-limiter/httplimit"
	sethvargo "github.com/sethvargo/go-limiter/memorystore"
	ulule "github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/echolimit"
	echolimit5 "github.com/weir-go/weir/echolimit/v5"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// requests are the requests of the middleware benchmarks. The limiters of denied requests admit only
// the first request.
var requests = []struct {
	name                   string
	events, burst, expects int // events an hour; the status of the response
}{
	{"allowed", hotKey, hotBurst, http.StatusOK},
	{"denied", 1, 1, http.StatusTooManyRequests},
}

// A client is a ResponseWriter that keeps only the status.
type client struct {
	h      http.Header
	status int
}

func (c *client) Header() http.Header         { return c.h }
func (c *client) Write(b []byte) (int, error) { return len(b), nil }
func (c *client) WriteHeader(status int)      { c.status = status }

// serving returns a function that measures sequential requests. It makes the request and the empty
// header that a server would make. The last response must have the status expects.
func serving(b *testing.B, h http.Handler, expects int) func() sample {
	r, err := http.NewRequest(http.MethodGet, "/orders", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:1234"
	c := &client{h: make(http.Header)}
	h.ServeHTTP(c, r)
	serve := func() {
		clear(c.h)
		c.status = http.StatusOK
		h.ServeHTTP(c, r)
	}
	return func() sample {
		n, over, start := 0, elapse(), time.Now()
		for ; n == 0 || !over(); n++ {
			serve()
		}
		s := sample{time: float64(time.Since(start)) / float64(n), allocs: testing.AllocsPerRun(100, serve)}
		if c.status != expects {
			b.Fatalf("the status is %d, want %d", c.status, expects)
		}
		return s
	}
}

// A maker returns the application of a framework, with a limiter that has the given events an hour
// and burst.
type maker struct {
	name string
	make func(b *testing.B, events, burst int) http.Handler
}

// compare measures a framework without a limiter, and each of makers with allowed and with denied
// requests, on one processor. It records the figures in a column of each table.
func compare(b *testing.B, framework string, none http.Handler, makers []maker) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	candidates := []candidate{{"no limiter", serving(b, none, http.StatusOK)}}
	for _, c := range requests {
		for _, m := range makers {
			candidates = append(candidates, candidate{c.name + m.name, serving(b, m.make(b, c.events, c.burst), c.expects)})
		}
	}
	candidates = append(candidates, candidate{again, serving(b, makers[0].make(b, hotKey, hotBurst), http.StatusOK)})
	found := interleave(rounds, candidates)[0]
	control("One request, allowed", again, framework, found["allowedweir"], found[again], timeOf)
	ns := found["no limiter"].median(timeOf)
	record("One request, allowed", "no limiter", framework, ns, "%.0f ns", ns)
	for _, c := range requests {
		peer := found[c.name+"sethvargo"]
		for _, m := range makers {
			own := found[c.name+m.name]
			ns, faster, allocs := own.median(timeOf), peer.ratio(own, timeOf), fmt.Sprintf("%.0f allocs", own.median(allocsOf))
			if allocs == "1 allocs" {
				allocs = "1 alloc"
			}
			record("One request, "+c.name, m.name, framework, ns, "%.0f ns, %.2f x, %s", ns, faster, allocs)
		}
	}
}

func limiter(events, burst int) *core.Limiter {
	return core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerHour(events).WithBurst(burst))))
}

func sethvargoOf(b *testing.B, burst int) *httplimit.Middleware {
	s, err := sethvargo.New(&sethvargo.Config{Tokens: uint64(burst), Interval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(ctx) })
	m, err := httplimit.NewMiddleware(s, httplimit.IPKeyFunc())
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func BenchmarkNetHTTP(b *testing.B) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	compare(b, "net/http", ok, []maker{
		{"weir", func(_ *testing.B, events, burst int) http.Handler {
			return nethttplimit.New(limiter(events, burst), keyfunc.RemoteIP())(ok)
		}},
		{"weir, no header fields", func(_ *testing.B, events, burst int) http.Handler {
			return nethttplimit.New(limiter(events, burst), keyfunc.RemoteIP(), gate.Headers())(ok)
		}},
		{"sethvargo", func(b *testing.B, _, burst int) http.Handler { return sethvargoOf(b, burst).Handle(ok) }},
		{"httprate", func(_ *testing.B, _, burst int) http.Handler {
			return httprate.LimitBy(burst, time.Hour, func(r *http.Request) (string, error) {
				host, _, err := net.SplitHostPort(r.RemoteAddr)
				return host, err
			})(ok)
		}},
		{"ulule", func(_ *testing.B, _, burst int) http.Handler {
			l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Hour, Limit: int64(burst)})
			return ululehttp.NewMiddleware(l).Handler(ok)
		}},
		{"tollbooth", func(_ *testing.B, events, burst int) http.Handler {
			return tollbooth.LimitHandler(tollbooth.NewLimiter(float64(events)/3600, nil).SetBurst(burst), ok)
		}},
	})
}

func BenchmarkGin(b *testing.B) {
	gin.SetMode(gin.ReleaseMode)
	router := func(m ...gin.HandlerFunc) http.Handler {
		r := gin.New()
		r.Use(m...)
		r.GET("/orders", func(*gin.Context) {})
		return r
	}
	compare(b, "gin", router(), []maker{
		{"weir", func(_ *testing.B, events, burst int) http.Handler {
			return router(ginlimit.New(limiter(events, burst), keyfunc.RemoteIP()))
		}},
		{"weir, no header fields", func(_ *testing.B, events, burst int) http.Handler {
			return router(ginlimit.New(limiter(events, burst), keyfunc.RemoteIP(), gate.Headers()))
		}},
		{"sethvargo", func(b *testing.B, _, burst int) http.Handler {
			m := sethvargoOf(b, burst)
			return router(func(c *gin.Context) {
				allowed := false
				m.Handle(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { allowed = true })).ServeHTTP(c.Writer, c.Request)
				if !allowed {
					c.Abort()
				}
			})
		}},
		{"ulule", func(_ *testing.B, _, burst int) http.Handler {
			l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Hour, Limit: int64(burst)})
			return router(ululegin.NewMiddleware(l))
		}},
	})
}

func BenchmarkEcho(b *testing.B) {
	router := func(m ...echo.MiddlewareFunc) http.Handler {
		e := echo.New()
		e.Use(m...)
		e.GET("/orders", func(echo.Context) error { return nil })
		return e
	}
	compare(b, "echo", router(), []maker{
		{"weir", func(_ *testing.B, events, burst int) http.Handler {
			return router(echolimit.New(limiter(events, burst), keyfunc.RemoteIP()))
		}},
		{"weir, no header fields", func(_ *testing.B, events, burst int) http.Handler {
			return router(echolimit.New(limiter(events, burst), keyfunc.RemoteIP(), gate.Headers()))
		}},
		{"sethvargo", func(b *testing.B, _, burst int) http.Handler {
			return router(echo.WrapMiddleware(sethvargoOf(b, burst).Handle))
		}},
		{"Echo's own limiter", func(_ *testing.B, events, burst int) http.Handler {
			s := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
				Rate: rate.Limit(events) / 3600, Burst: burst, ExpiresIn: time.Hour,
			})
			return router(middleware.RateLimiter(s))
		}},
	})
}

func BenchmarkEcho5(b *testing.B) {
	router := func(m ...echo5.MiddlewareFunc) http.Handler {
		e := echo5.New()
		e.Use(m...)
		e.GET("/orders", func(*echo5.Context) error { return nil })
		return e
	}
	compare(b, "echo5", router(), []maker{
		{"weir", func(_ *testing.B, events, burst int) http.Handler {
			return router(echolimit5.New(limiter(events, burst), keyfunc.RemoteIP()))
		}},
		{"weir, no header fields", func(_ *testing.B, events, burst int) http.Handler {
			return router(echolimit5.New(limiter(events, burst), keyfunc.RemoteIP(), gate.Headers()))
		}},
		{"sethvargo", func(b *testing.B, _, burst int) http.Handler {
			return router(echo5.WrapMiddleware(sethvargoOf(b, burst).Handle))
		}},
		{"Echo's own limiter", func(_ *testing.B, events, burst int) http.Handler {
			s := middleware5.NewRateLimiterMemoryStoreWithConfig(middleware5.RateLimiterMemoryStoreConfig{
				Rate: float64(events) / 3600, Burst: burst, ExpiresIn: time.Hour,
			})
			return router(middleware5.RateLimiter(s))
		}},
	})
}
