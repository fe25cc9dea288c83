package gatetest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// testConcurrency sends many requests at once.
func (s *suite) testConcurrency(t *testing.T) {
	const limit, workers, each = 100, 16, 25
	a := s.start(setup{
		Rules: []core.Rule{core.SlidingLog("r", core.PerDay(limit)), core.TokenBucket("b", core.PerDay(limit*2))},
		And:   constant("all"),
	})
	atOnce(workers, func() {
		for range each {
			a.Get(t)
		}
	})
	a.CheckRan(t, limit)
}

// A sink is a ResponseWriter that does not allocate.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// budget and deniedBudget are the largest numbers of allocations of an allowed and of a denied request,
// with those of the framework. Echo needs the most. The package comment has the numbers, too.
const budget, deniedBudget = 4, 9

func (s *suite) testAllocations(t *testing.T) {
	if testkit.Instrumented() {
		t.Skip("the race detector and counters of coverage change the number of allocations")
	}
	other := core.Must(core.New(memstore.New(), core.TokenBucket("other", core.PerSecond(1_000_000_000).WithBurst(1_000_000_000))))
	routedTo := func(l *core.Limiter) gate.Option {
		return gate.Routes(apptest.PolicyFunc(func(*http.Request) *core.Limiter { return l }))
	}
	for _, c := range []struct {
		name string
		opts []gate.Option
		keys int
		most float64
	}{
		{"with headers", nil, 1, budget},
		{"without headers", []gate.Option{gate.Headers()}, 1, budget - 1},
		{"two keys", nil, 2, budget + 2},
		{"no route", []gate.Option{routedTo(nil)}, 1, budget},
		{"a route", []gate.Option{routedTo(other)}, 1, budget + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			serve := s.allowedRequest(c.keys, c.opts...)
			serve()
			if got := testing.AllocsPerRun(1000, serve); got > c.most {
				t.Errorf("an allowed request costs %v allocations, more than %v", got, c.most)
			}
		})
	}
	for _, c := range []struct {
		name string
		opts []gate.Option
		most float64
	}{
		{"denied", nil, deniedBudget},
		{"denied, with Jitter", []gate.Option{gate.Jitter(time.Hour)}, deniedBudget + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerDay(1))))
			serve := serving(s.build(l, keyfunc.RemoteIP(), c.opts, func(http.ResponseWriter, *http.Request) {}))
			serve()
			if got := testing.AllocsPerRun(1000, serve); got > c.most {
				t.Errorf("a denied request costs %v allocations, more than %v", got, c.most)
			}
		})
	}
}

// allowedRequest returns a function that serves one allowed request, by a gate with the given
// number of keys.
func (s *suite) allowedRequest(keys int, opts ...gate.Option) func() {
	store, plenty := memstore.New(), core.PerSecond(1_000_000_000).WithBurst(1_000_000_000)
	l := core.Must(core.New(store, core.TokenBucket("r", plenty)))
	for i := range keys - 1 {
		name := strconv.Itoa(i)
		opts = append(opts, gate.And(core.Must(core.New(store, core.TokenBucket(name, plenty))), constant(name)))
	}
	return serving(s.build(l, keyfunc.RemoteIP(), opts, func(http.ResponseWriter, *http.Request) {}))
}

func serving(h http.Handler) func() {
	r := httptest.NewRequest("GET", "/v1/orders", nil)
	w := &sink{header: http.Header{}}
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// Benchmark measures one allowed request: without a gate (an application of plain), with the
// default header fields, without header fields, and with two keys.
func Benchmark(b *testing.B, build Build, plain func(h http.HandlerFunc) http.Handler) {
	s := &suite{build: build}
	for _, c := range []struct {
		name  string
		serve func()
	}{
		{"none", serving(plain(func(http.ResponseWriter, *http.Request) {}))},
		{"headers", s.allowedRequest(1)},
		{"off", s.allowedRequest(1, gate.Headers())},
		{"two keys", s.allowedRequest(2)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.serve()
			}
		})
	}
}
