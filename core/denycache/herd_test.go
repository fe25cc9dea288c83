package denycache_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/reference"
)

// trip is how long it takes to the Store, and back.
const trip = 500 * time.Microsecond

// far is a reference that is a trip away, by the clock of the bubble. Adjust takes
// no time.
func far() (*reference.Store, core.Store) {
	r := reference.New(func() int64 { return time.Now().UnixMicro() })
	return r, hook(r, func(ctx context.Context, charges []driver.Charge) error {
		time.Sleep(trip)
		defer time.Sleep(trip)
		return r.Take(ctx, charges)
	})
}

// Many who ask for one key without a pause take every token of it, and cost a few
// calls for each.
func TestHerd(t *testing.T) {
	const callers, rate, seconds = 64, 10, 5
	synctest.Test(t, func(t *testing.T) {
		behind, store := far()
		s := denycache.New(store)
		l := limiter(t, s, core.TokenBucket("r", core.PerSecond(rate)))
		var admitted, denied atomic.Int64
		end := time.Now().Add(seconds * time.Second)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for time.Sleep(time.Duration(i) * 17 * time.Microsecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if ask(t, l, "hot", 1).Allowed {
						admitted.Add(1)
					} else {
						denied.Add(1)
					}
				}
			})
		}
		wg.Wait()
		// The tokens of the last trip are on their way.
		if n := admitted.Load(); n < rate+rate*seconds-1 || n > rate+rate*seconds {
			t.Errorf("%d were admitted, want %d", n, rate+rate*seconds)
		}
		// All come at once when nothing is known yet.
		if calls := behind.Calls(); calls > callers+3*rate*seconds/2 {
			t.Errorf("%d denials and %d tokens cost %d calls", denied.Load(), admitted.Load(), calls)
		}
		if s.Probes() != 0 {
			t.Errorf("%d keys are still waited for", s.Probes())
		}
		t.Logf("%d denials and %d tokens cost %d calls, %+v", denied.Load(), admitted.Load(), behind.Calls(), s.Stats())
	})
}

// Where there is room for many when the time is over, they are all soon through.
func TestHerdFindsRoom(t *testing.T) {
	const callers = 500
	synctest.Test(t, func(t *testing.T) {
		_, store := far()
		s := denycache.New(store)
		l := limiter(t, s, core.FixedWindow("r", core.PerMinute(callers)))
		ask(t, l, "k", callers)
		time.Sleep(ask(t, l, "k", 1).RetryAfter - 300*time.Millisecond)
		time.Sleep(ask(t, l, "k", 1).RetryAfter)
		start := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if !ask(t, l, "k", 1).Allowed {
					t.Error("denied, though there is room for all")
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 9*2*trip { // 1 and 2 and 4 ... and 256
			t.Errorf("it took %v, and a call takes %v", took, 2*trip)
		}
		if n := s.Stats().Waits; n != callers-1 || s.Probes() != 0 {
			t.Errorf("%d waited, and %d keys are still waited for", n, s.Probes())
		}
	})
}

// When a denial has been over for a while, there is no herd to hold back.
func TestNobodyWaitsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := far()
		s := denycache.New(store)
		l := limiter(t, s, core.TokenBucket("r", core.PerSecond(10)))
		ask(t, l, "k", 10)
		time.Sleep(ask(t, l, "k", 1).RetryAfter + 2*time.Second)
		start := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if !ask(t, l, "k", 1).Allowed {
					t.Error("denied")
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 2*trip || s.Stats().Waits > 0 {
			t.Errorf("it took %v, %+v", took, s.Stats())
		}
	})
}

// When tokens come faster than answers, nobody waits for another's.
func TestHerdOfAFastBucket(t *testing.T) {
	const callers, rate = 64, 10_000
	synctest.Test(t, func(t *testing.T) {
		count := func(s core.Store) (admitted int64) {
			l := limiter(t, s, core.TokenBucket("r", core.PerSecond(rate).WithBurst(10)))
			var n atomic.Int64
			end := time.Now().Add(time.Second)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for time.Sleep(time.Duration(i) * 3 * time.Microsecond); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
						if ask(t, l, "hot", 1).Allowed {
							n.Add(1)
						}
					}
				})
			}
			wg.Wait()
			return n.Load()
		}
		_, bare := far()
		_, store := far()
		if want, got := count(bare), count(denycache.New(store)); got < want*99/100 {
			t.Errorf("%d were admitted, without a denycache %d", got, want)
		}
	})
}
