package denycache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// trip is the time to the Store, and the time back.
const trip = 500 * time.Microsecond

// distant returns a Fake that is a trip away.
func distant() *storetest.Fake {
	behind := new(storetest.Fake)
	behind.Set(storetest.Delay(trip, trip))
	return behind
}

// together calls ask in n goroutines, and returns the number of calls that returned true.
func together(n int, ask func() bool) int {
	var yes atomic.Int64
	testkit.Concurrently(n, func(int) {
		if ask() {
			yes.Add(1)
		}
	})
	return int(yes.Load())
}

// When a denial ends, one decision calls the Store, and the others wait. If their event may be
// admitted after that, all of them call the Store.
func TestStore_Take_denialEnds(t *testing.T) {
	const callers = 64
	for _, c := range []struct {
		name            string
		rule            core.Rule
		taken           int // by another process, before the denial ends
		admitted, calls int
	}{
		{"still denied", core.TokenBucket("r", core.PerSecond(1)), 1, 0, 1},
		{"room for one", core.TokenBucket("r", core.PerSecond(1)), 0, 1, 1},
		{"room for one, soft", core.TokenBucket("r", core.PerSecond(1)).Soft(100), 0, 1, callers},
		{"room for some", core.FixedWindow("r", core.PerSecond(10)), 0, 10, callers},
		{"room for all", core.FixedWindow("r", core.PerSecond(callers)), 0, callers, callers},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := distant()
				s := denycache.New(behind)
				l := testkit.Limiter(t, s, c.rule)
				for testkit.Allow(t, l, "k").Allowed {
				}
				time.Sleep(testkit.Allow(t, l, "k").RetryAfter)
				if c.taken > 0 {
					testkit.Admit(t, testkit.Limiter(t, behind, c.rule), "k", c.taken)
				}
				calls, start := behind.Calls(), time.Now()
				admitted := together(callers, func() bool { return testkit.Allow(t, l, "k").Allowed })
				if admitted != c.admitted || behind.Calls()-calls != c.calls {
					t.Errorf("got %d admitted with %d calls, want %d with %d", admitted, behind.Calls()-calls, c.admitted, c.calls)
				}
				if took := time.Since(start); took > 4*trip {
					t.Errorf("the last decision took %v, want two calls of the Store, %v", took, 4*trip)
				}
				if got := s.Stats().Waits; got != callers-1 || s.Flights() != 0 {
					t.Errorf("got %d waits and %d calls under way afterwards, want %d and 0", got, s.Flights(), callers-1)
				}
			})
		})
	}
}

// All of the limit of a hot key is admitted, with one call of each process for an event.
func TestStore_Take_hotKey(t *testing.T) {
	const callers, rate, seconds = 64, 10, 3
	for _, processes := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			behind := distant()
			var limiters []*core.Limiter
			for range processes {
				limiters = append(limiters, testkit.Limiter(t, denycache.New(behind), core.TokenBucket("r", core.PerSecond(rate))))
			}
			admitted := admittedIn(t, callers, seconds*time.Second, 5*time.Millisecond, limiters...)
			// The events of the last trip are under way. All callers call at once when nothing is cached.
			if most := rate + rate*seconds; admitted < most-1 || admitted > most {
				t.Errorf("%d processes: got %d admitted, want %d", processes, admitted, most)
			}
			if calls, most := behind.Calls(), callers+processes*rate*seconds*11/10; calls > most {
				t.Errorf("%d processes: got %d calls of the Store, want %d at most", processes, calls, most)
			}
		})
	}
}

// admittedIn returns how many events are admitted in d. They come from callers that are spread over
// limiters and pause after each event.
func admittedIn(t *testing.T, callers int, d, pause time.Duration, limiters ...*core.Limiter) int {
	var admitted, next atomic.Int64
	end := time.Now().Add(d)
	together(callers, func() bool {
		i := int(next.Add(1))
		for time.Sleep(pause * time.Duration(i) / 100); time.Now().Before(end); time.Sleep(pause) {
			if testkit.Allow(t, limiters[i%len(limiters)], "hot").Allowed {
				admitted.Add(1)
			}
		}
		return true
	})
	return int(admitted.Load())
}

// If an event fits more often than the Store can be asked, no decision waits for another one.
func TestStore_Take_fastBucket(t *testing.T) {
	rule := core.TokenBucket("r", core.PerSecond(10_000).WithBurst(10))
	count := func(over func(driver.Store) driver.Store) (n int) {
		synctest.Test(t, func(t *testing.T) {
			n = admittedIn(t, 64, 200*time.Millisecond, 50*time.Microsecond, testkit.Limiter(t, over(distant()), rule))
		})
		return n
	}
	want := count(func(s driver.Store) driver.Store { return s })
	if got := count(func(s driver.Store) driver.Store { return denycache.New(s) }); got < want*99/100 {
		t.Errorf("got %d admitted, want %d as without a denycache", got, want)
	}
}

// A decision waits until its own context ends, for 10 ms, or until the other call fails.
func TestStore_Take_waitEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		first storetest.Hook // of the call that the others wait for
		wait  time.Duration
	}{
		{"hangs", storetest.Delay(time.Second, 0), 10 * time.Millisecond},
		{"fails", func(context.Context, []driver.Charge, storetest.Call) error { time.Sleep(trip); return broken }, trip},
		{"panics", func(context.Context, []driver.Charge, storetest.Call) error { time.Sleep(trip); panic(broken) }, trip},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := new(storetest.Fake)
				s := denycache.New(behind)
				l := testkit.Limiter(t, s, core.TokenBucket("r", core.PerDay(1)))
				testkit.Admit(t, l, "k", 1)
				time.Sleep(testkit.Allow(t, l, "k").RetryAfter)
				behind.Set(c.first)
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { _ = recover() }()
					_, _ = l.Allow(t.Context(), "k")
				})
				synctest.Wait()
				behind.Set(storetest.Delay(trip, trip))
				start := time.Now()
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), trip/2)
					defer cancel()
					if _, err := l.Allow(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != trip/2 {
						t.Errorf("got the error %v after %v, want %v after %v", err, time.Since(start), context.DeadlineExceeded, trip/2)
					}
				})
				admitted := together(5, func() bool { return testkit.Allow(t, l, "k").Allowed })
				if took, want := time.Since(start), c.wait+2*trip; took != want || admitted != 1 {
					t.Errorf("got %d of the others admitted after %v, want 1 after %v", admitted, took, want)
				}
				wg.Wait()
				if n := s.Flights(); n != 0 {
					t.Errorf("got %d calls under way afterwards, want 0", n)
				}
			})
		})
	}
}

// Hits are denied by the Store as well, however many callers there are.
func TestStore_Take_concurrently(t *testing.T) {
	f := newFixture(t, denycache.MaxAge(age))
	type calledKey struct{}
	f.behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if called, ok := ctx.Value(calledKey{}).(*bool); ok {
			*called = true
		}
		return next(ctx, charges)
	})
	var rules []*driver.Compiled
	for _, a := range testkit.Algorithms {
		rules = append(rules, testkit.Compiled(a.Rule(a.Name, core.PerSecond(200))))
	}
	var hits, misses, next atomic.Int64
	for range 10 {
		together(16, func() bool {
			g := int(next.Add(1))
			for i := range 100 {
				charges := []driver.Charge{{Key: "k", Rule: rules[(g+i)%len(rules)], Cost: 1 + i%3}}
				if i%7 == 0 {
					charges = append(charges, driver.Charge{Key: "k", Rule: rules[(g+i+1)%len(rules)], Cost: 2})
				}
				called := false
				testkit.Must(t, f.cache.Take(context.WithValue(t.Context(), calledKey{}, &called), charges))
				if called {
					misses.Add(1)
					continue
				}
				hits.Add(1)
				for j := range charges {
					charges[j].Op = driver.Peek
				}
				// The clock stands still, so an event that is admitted now was admitted before, too.
				if err := f.behind.Take(t.Context(), charges); err != nil || admitted(charges) {
					t.Errorf("got a hit, and from the Store %+v, %v, want a denial", charges, err)
				}
			}
			return true
		})
		f.advance(777 * time.Millisecond)
	}
	if hits.Load() < 2000 || misses.Load() < 500 {
		t.Errorf("got %d hits and %d misses, want 2000 and 500", hits.Load(), misses.Load())
	}
}
