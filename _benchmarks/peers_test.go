package benchmarks

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	echo5 "github.com/labstack/echo/v5"
	middleware5 "github.com/labstack/echo/v5/middleware"
	"github.com/sethvargo/go-limiter/httplimit"
	sethvargo "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// A behaviour is that of a middleware with a limit by address, as docs/comparison.md describes it.
type behaviour struct {
	make       func(t *testing.T, events int) http.Handler // events a second
	window     bool                                        // admits at most events in any second
	restarts   bool                                        // admits nearly twice as many at the end of a window
	forwarded  bool                                        // believes X-Forwarded-For of any client
	retryAfter string                                      // of a denial, for a limit a second; "date" for a date
}

var behaviours = map[string]behaviour{
	"weir, sliding window": {make: weirOf(core.SlidingWindow), window: true, retryAfter: "2"},
	"weir, token bucket":   {make: weirOf(core.TokenBucket), retryAfter: "1"},
	"weir, fixed window":   {make: weirOf(core.FixedWindow), restarts: true, retryAfter: "1"},
	"ulule": {restarts: true, make: func(_ *testing.T, events int) http.Handler {
		l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Second, Limit: int64(events)})
		return ululehttp.NewMiddleware(l).Handler(answering)
	}},
	"sethvargo": {restarts: true, retryAfter: "date", make: func(t *testing.T, events int) http.Handler {
		s, err := sethvargo.New(&sethvargo.Config{Tokens: uint64(events), Interval: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(t.Context()) })
		m, err := httplimit.NewMiddleware(s, httplimit.IPKeyFunc())
		if err != nil {
			t.Fatal(err)
		}
		return m.Handle(answering)
	}},
	"throttled": {retryAfter: "1", make: func(t *testing.T, events int) http.Handler {
		s, err := throttledmem.NewCtx(1000)
		if err != nil {
			t.Fatal(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerSec(events), MaxBurst: events - 1})
		if err != nil {
			t.Fatal(err)
		}
		return (&throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttled.VaryBy{RemoteAddr: true}}).RateLimit(answering)
	}},
	"httprate": {retryAfter: "1", make: func(_ *testing.T, events int) http.Handler {
		return httprate.LimitBy(events, time.Second, byAddress)(answering)
	}},
	"tollbooth": {forwarded: true, make: func(_ *testing.T, events int) http.Handler {
		return tollbooth.LimitHandler(tollbooth.NewLimiter(float64(events), nil), answering)
	}},
	"Echo v4.16.0": {forwarded: true, make: func(_ *testing.T, events int) http.Handler {
		e := echo.New()
		e.Use(middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(
			middleware.RateLimiterMemoryStoreConfig{Rate: rate.Limit(events), Burst: events})))
		e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
		return e
	}},
	"Echo v5.4.4": {retryAfter: "1", make: func(_ *testing.T, events int) http.Handler {
		e := echo5.New()
		e.Use(middleware5.RateLimiter(middleware5.NewRateLimiterMemoryStore(float64(events))))
		e.GET("/", func(c *echo5.Context) error { return c.NoContent(http.StatusOK) })
		return e
	}},
}

var answering = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func weirOf(rule func(string, core.Limit) core.Rule) func(*testing.T, int) http.Handler {
	return func(_ *testing.T, events int) http.Handler {
		return nethttplimit.Limit(memstore.New(), rule("r", core.PerSecond(events)), keyfunc.RemoteIP())(answering)
	}
}

func byAddress(r *http.Request) (string, error) { return r.RemoteAddr, nil } // a test has one port

func ask(h http.Handler, forwarded string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if forwarded != "" {
		r.Header.Set("X-Forwarded-For", forwarded)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// The header X-Forwarded-For of a client, and Retry-After.
func TestPeers_Header(t *testing.T) {
	for name, peer := range behaviours {
		h, admitted := peer.make(t, 3), 0
		for i := range 30 {
			if ask(h, fmt.Sprint("198.51.100.", i)).StatusCode == http.StatusOK {
				admitted++
			}
		}
		if (admitted == 30) != peer.forwarded {
			t.Errorf("%s: admitted %d of 30 requests with another X-Forwarded-For each, want all: %v", name, admitted, peer.forwarded)
		}
		var got string
		for second := int64(-1); second != time.Now().Unix(); { // both requests in one window, which begins with a second
			second = time.Now().Unix()
			h = peer.make(t, 1)
			_ = ask(h, "")
			got = ask(h, "").Header.Get("Retry-After")
		}
		if _, err := time.Parse(time.RFC1123, got); err == nil {
			got = "date"
		}
		if got != peer.retryAfter {
			t.Errorf("%s: Retry-After of a denial is %q, want %q", name, got, peer.retryAfter)
		}
	}
}

// The admitted requests of 0.3 s and of nearly a second, from the end of a window on. The test takes real
// time, because two peers read the clock of the runtime, which testing/synctest does not control.
func TestPeers_Window(t *testing.T) {
	const events = 100
	for name, peer := range behaviours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atEnd, inSecond := 0, 0
			for range 5 { // a busy machine can miss the end of the window
				if atEnd > 3*events/2 || inSecond > 0 && !peer.restarts {
					break
				}
				begin := time.Now().Truncate(time.Second).Add(time.Second) // the window of weir begins with the second
				time.Sleep(time.Until(begin))
				h := peer.make(t, events)
				_ = ask(h, "") // begins the window of the others
				time.Sleep(time.Until(begin.Add(900 * time.Millisecond)))
				first := time.Now()
				n, soon, lasted := 0, 0, time.Duration(0)
				for ; lasted < 980*time.Millisecond; lasted = time.Since(first) {
					if ask(h, "").StatusCode == http.StatusOK {
						n++
					} else {
						time.Sleep(time.Millisecond) // a token comes every 10 ms
					}
					if lasted < 300*time.Millisecond {
						soon = n
					}
				}
				if lasted < time.Second {
					atEnd, inSecond = max(atEnd, soon), max(inSecond, n)
				}
			}
			t.Logf("admitted %d in 0.3 s and %d in a second, of a limit of %d a second", atEnd, inSecond, events)
			if inSecond < events || peer.window && inSecond > events {
				t.Errorf("admitted %d within a second, want at least %d, and no more: %v", inSecond, events, peer.window)
			}
			if peer.restarts != (atEnd > 3*events/2) {
				t.Errorf("admitted %d in 0.3 s, want more than %d: %v", atEnd, 3*events/2, peer.restarts)
			}
		})
	}
}

// A counter of httprate that fails.
type failing struct{}

var errDown = errors.New("down")

func (failing) Config(int, time.Duration)                          {}
func (failing) Increment(string, time.Time) error                  { return errDown }
func (failing) IncrementBy(string, time.Time, int) error           { return errDown }
func (failing) Get(string, time.Time, time.Time) (int, int, error) { return 0, 0, errDown }

// The default responses of peers when their store fails.
func TestPeers_Failure(t *testing.T) {
	h := httprate.LimitBy(1, time.Second, byAddress, httprate.WithLimitCounter(failing{}))(answering)
	if got := ask(h, "").StatusCode; got != http.StatusPreconditionRequired {
		t.Errorf("httprate: the status is %d, want 428", got)
	}
	w := httptest.NewRecorder()
	throttled.DefaultError(w, nil, errDown)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("throttled: the status is %d, want 500", w.Code)
	}
	defer func() {
		if recover() == nil {
			t.Error("ulule: no panic")
		}
	}()
	ululehttp.DefaultErrorHandler(w, nil, errDown)
}
