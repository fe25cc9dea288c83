package benchmarks

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/httprate"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
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
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func limiter() *core.Limiter {
	return core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerHour(hotKey).WithBurst(hotBurst))))
}

// A discard is a ResponseWriter without a client.
type discard struct{ h http.Header }

func (w *discard) Header() http.Header         { return w.h }
func (w *discard) Write(b []byte) (int, error) { return len(b), nil }
func (w *discard) WriteHeader(int)             {}

// serve measures sequential allowed requests, on one core. It makes the request and
// the empty header that a server would make.
func serve(b *testing.B, h http.Handler) {
	b.Helper()
	r, err := http.NewRequest(http.MethodGet, "/orders", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:1234"
	w := &discard{make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		h.ServeHTTP(w, r)
	}
}

func BenchmarkNetHTTP(b *testing.B) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	b.Run("none", func(b *testing.B) { serve(b, ok) })
	b.Run("weir", func(b *testing.B) { serve(b, nethttplimit.New(limiter(), keyfunc.RemoteIP())(ok)) })
	b.Run("weir-no-fields", func(b *testing.B) {
		serve(b, nethttplimit.New(limiter(), keyfunc.RemoteIP(), gate.Headers())(ok))
	})
	b.Run("sethvargo", func(b *testing.B) {
		s, err := sethvargo.New(&sethvargo.Config{Tokens: hotBurst, Interval: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		m, err := httplimit.NewMiddleware(s, httplimit.IPKeyFunc())
		if err != nil {
			b.Fatal(err)
		}
		serve(b, m.Handle(ok))
	})
	b.Run("httprate", func(b *testing.B) {
		serve(b, httprate.LimitBy(hotBurst, time.Hour, func(r *http.Request) (string, error) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			return host, err
		})(ok))
	})
	b.Run("ulule", func(b *testing.B) {
		l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Hour, Limit: hotBurst})
		serve(b, ululehttp.NewMiddleware(l).Handler(ok))
	})
	b.Run("tollbooth", func(b *testing.B) {
		l := tollbooth.NewLimiter(float64(hotKey)/3600, nil).SetBurst(hotBurst)
		serve(b, tollbooth.LimitHandler(l, ok))
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
	b.Run("none", func(b *testing.B) { serve(b, router()) })
	b.Run("weir", func(b *testing.B) { serve(b, router(ginlimit.New(limiter(), keyfunc.RemoteIP()))) })
	b.Run("weir-no-fields", func(b *testing.B) {
		serve(b, router(ginlimit.New(limiter(), keyfunc.RemoteIP(), gate.Headers())))
	})
	b.Run("ulule", func(b *testing.B) {
		l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Hour, Limit: hotBurst})
		serve(b, router(ululegin.NewMiddleware(l)))
	})
}

func BenchmarkEcho(b *testing.B) {
	router := func(m ...echo.MiddlewareFunc) http.Handler {
		e := echo.New()
		e.Use(m...)
		e.GET("/orders", func(echo.Context) error { return nil })
		return e
	}
	b.Run("none", func(b *testing.B) { serve(b, router()) })
	b.Run("weir", func(b *testing.B) { serve(b, router(echolimit.New(limiter(), keyfunc.RemoteIP()))) })
	b.Run("weir-no-fields", func(b *testing.B) {
		serve(b, router(echolimit.New(limiter(), keyfunc.RemoteIP(), gate.Headers())))
	})
	b.Run("own", func(b *testing.B) {
		s := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: rate.Limit(hotKey) / 3600, Burst: hotBurst, ExpiresIn: time.Hour,
		})
		serve(b, router(middleware.RateLimiter(s)))
	})
}
