package gatetest

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
)

func (s *suite) testQueues(t *testing.T) {
	t.Run("turns", s.testTurns)
	t.Run("MaxDelay", s.testMaxDelay)
	t.Run("MaxDelay for every ask", func(t *testing.T) {
		for _, gates := range [][]gate.Option{nil, {costs(2)}} {
			store := &script{states: states{"burst": allowed(1, 0, 0)}}
			l := core.Must(core.New(store, burst))
			for _, and := range [][]gate.Option{nil, {gate.And(l, constant("b"))}} {
				opts := slices.Concat(gates, and, []gate.Option{gate.MaxDelay(time.Second)})
				exchange(t, s.build(l, constant("a"), opts, new(probe).ServeHTTP), request("GET", "/"))
			}
			asked := store.charges()
			if len(asked) != 3 {
				t.Fatalf("%d charges, want 3", len(asked))
			}
			for i, c := range asked {
				if c.MaxDelay != time.Second {
					t.Errorf("charge %d has a bound of %v, want 1s: the Store sees to it", i, c.MaxDelay)
				}
			}
		}
	})
	t.Run("leaving", s.testLeaving)
}

// testTurns holds requests until their turns, which are as far apart as the rate
// says.
func (s *suite) testTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.LeakyBucket("q", core.PerSecond(10).WithBurst(4))))
		begin := time.Now()
		var mu sync.Mutex
		var served []time.Duration
		h := s.build(l, constant("k"), nil, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			served = append(served, time.Since(begin))
		})
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { record(t, h, request("GET", "/")) })
		}
		wg.Wait()
		if want := []time.Duration{0, 100e6, 200e6, 300e6}; !slices.Equal(served, want) {
			t.Errorf("served after %v, want %v", served, want)
		}
	})
}

// testMaxDelay denies at once requests that the queue would hold for too long.
func (s *suite) testMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(),
			core.LeakyBucket("q", core.PerMinute(6).WithBurst(100)), // a turn every 10 s
			core.SlidingLog("log", core.PerHour(100)),
		))
		h := s.build(l, constant("k"), []gate.Option{gate.MaxDelay(25 * time.Second)}, new(probe).ServeHTTP)
		begin := time.Now()
		var mu sync.Mutex
		took := map[time.Duration]int{}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				got := record(t, h, request("GET", "/"))
				mu.Lock()
				defer mu.Unlock()
				switch at := time.Since(begin); got.status {
				case http.StatusOK:
					took[at]++
				case http.StatusTooManyRequests:
					if retry, _ := got.retryAfter(t); at != 0 || retry != 5 {
						t.Errorf("denied after %v, to come back in %d s; want at once, and 5: then the wait is 25 s", at, retry)
					}
				default:
					t.Errorf("status %d", got.status)
				}
			})
		}
		wg.Wait()
		if len(took) != 3 || took[0] != 1 || took[10*time.Second] != 1 || took[20*time.Second] != 1 {
			t.Errorf("served %v, want one at once, after 10 s and after 20 s", took)
		}
		d, err := l.Peek(t.Context(), "k")
		if err != nil || d.State(1).Remaining != 97 {
			t.Errorf("the log has %d left, %v; want 97: a denied request takes nothing", d.State(1).Remaining, err)
		}
	})
}

// testLeaving has clients that hang up while they are held.
func (s *suite) testLeaving(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  []gate.Option
		taken int // of 5 that came, 2 of which left
	}{
		{"plain", nil, 5},
		{"refunded", []gate.Option{new(judge).option()}, 3}, // those that were served come back, the others do not
		{"bounded", []gate.Option{gate.MaxDelay(time.Minute)}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { s.testLeave(t, c.opts, c.taken) })
		})
	}
	t.Run("store fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := onUndo(func(context.Context) error { return errSecret })
			l := core.Must(core.New(store, core.LeakyBucket("q", core.PerHour(1).WithBurst(9))))
			h := s.build(l, constant("key-of-a-person"), nil, new(probe).ServeHTTP)
			record(t, h, request("GET", "/"))
			lines := logged(t, func() {
				ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
				defer hangUp()
				if got := record(t, h, request("GET", "/").WithContext(ctx)); got.status != http.StatusServiceUnavailable {
					t.Errorf("status %d, want 503", got.status)
				}
			})
			checkLines(t, lines, 1, "weir: the place of a client that has gone could not be given back")
		})
	})
}

// testLeave has one leave who is not the last, and one who is.
func (s *suite) testLeave(t *testing.T, opts []gate.Option, want int) {
	l := core.Must(core.New(memstore.New(),
		core.LeakyBucket("q", core.PerSecond(10).WithBurst(9)),
		core.SlidingLog("log", core.PerHour(100)),
		core.TokenBucket("bucket", core.PerHour(100)),
	))
	p := new(probe)
	h := s.build(l, constant("k"), opts, p.ServeHTTP)
	if d, err := l.Allow(t.Context(), "k"); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	begin := time.Now()
	// send has one request leave after a time, and says how it was answered, and when.
	send := func(patience time.Duration) (int, time.Duration) {
		ctx, hangUp := context.WithTimeout(t.Context(), patience)
		defer hangUp()
		got := record(t, h, request("GET", "/").WithContext(ctx))
		return got.status, time.Since(begin)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // its turn would be at 100 ms
		if status, at := send(20 * time.Millisecond); status != 503 || at != 20*time.Millisecond {
			t.Errorf("who leaves while another stands behind: %d at %v", status, at)
		}
	})
	synctest.Wait()
	wg.Go(func() {
		if status, at := send(time.Hour); status != 200 || at != 200*time.Millisecond {
			t.Errorf("who stands behind: %d at %v, want 200 at 200ms: it was told its turn", status, at)
		}
	})
	synctest.Wait()
	wg.Go(func() { // its turn would be at 300 ms
		if status, at := send(30 * time.Millisecond); status != 503 || at != 30*time.Millisecond {
			t.Errorf("who leaves the end: %d at %v", status, at)
		}
	})
	time.Sleep(50 * time.Millisecond)
	if status, at := send(time.Hour); status != 200 || at != 300*time.Millisecond {
		t.Errorf("who comes then: %d at %v, want 200 at 300ms: the end of the queue was free", status, at)
	}
	wg.Wait()
	d, err := l.Peek(t.Context(), "k")
	if err != nil || p.ran() != 2 {
		t.Errorf("the handler ran %d times, want 2: %v", p.ran(), err)
	}
	for i := 1; i < d.Len(); i++ {
		if got := 100 - d.State(i).Remaining; got != want {
			t.Errorf("%d are taken of rule %d, want %d: hanging up must not be free", got, i, want)
		}
	}
}
