package denycache_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// process is a redisstore as another process has it, and how often it was asked.
func process(t *testing.T, opts ...redisstore.Option) (core.Store, *atomic.Int64) {
	t.Helper()
	opts = append(opts, redisstore.Timeout(20*time.Second))
	redis := redisstore.New(redistest.Shared(t).Client(), opts...)
	calls := new(atomic.Int64)
	return hook(redis, func(ctx context.Context, charges []driver.Charge) error {
		calls.Add(1)
		return redis.Take(ctx, charges)
	}), calls
}

// 20 000 calls of a denied key in Redis cost a few calls of it.
func TestRedisIsNotAsked(t *testing.T) {
	prefix := redisstore.Prefix(redistest.Prefix(t))
	behind, calls := process(t, prefix)
	l := limiter(t, denycache.New(behind), core.TokenBucket("second", core.PerSecond(10)), core.SlidingLog("hour", core.PerHour(10)))
	for ask(t, l, "k", 1).Allowed {
	}
	before := calls.Load()
	start := time.Now()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 20_000 / 64 {
				if ask(t, l, "k", 1).Allowed {
					t.Error("admitted")
				}
			}
		})
	}
	wg.Wait()
	if n := calls.Load() - before; n >= 40+64*int64(time.Since(start)/denycache.DefaultMaxAge) {
		t.Errorf("%d calls", n)
	}
	t.Logf("%d calls of Redis in %v", calls.Load()-before, time.Since(start))
}

// Two processes with a denycache each admit what one bucket admits, and no less
// than without.
func TestRedisTogether(t *testing.T) {
	const burst, per = 20, 100 * time.Millisecond // 200 a second
	prefix := redisstore.Prefix(redistest.Prefix(t))
	rule := core.TokenBucket("r", core.Per(burst, per))
	var admitted, denied atomic.Int64
	start := time.Now()
	end := start.Add(time.Second)
	var wg sync.WaitGroup
	for range 2 {
		behind, _ := process(t, prefix)
		l := limiter(t, denycache.New(behind), rule)
		for range 8 {
			wg.Go(func() {
				for time.Now().Before(end) {
					if ask(t, l, "hot", 1).Allowed {
						admitted.Add(1)
					} else {
						denied.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	took := time.Since(start)
	most := burst + int64(took*burst/per) + 1
	if n := admitted.Load(); n > most || n < most/2 { // the machine may be busy with something else
		t.Errorf("%d were admitted in %v, at most %d", n, took, most)
	}
	t.Logf("%d of %d admitted, %d denied", admitted.Load(), most, denied.Load())
}

// What another process resets gets through within MaxAge.
func TestRedisReset(t *testing.T) {
	prefix := redisstore.Prefix(redistest.Prefix(t))
	rule := core.TokenBucket("r", core.PerHour(5))
	mine, _ := process(t, prefix)
	other, _ := process(t, prefix)
	s := denycache.New(mine, denycache.MaxAge(100*time.Millisecond))
	l := limiter(t, s, rule)
	ask(t, l, "k", 5)
	for s.Stats().Hits == 0 {
		if ask(t, l, "k", 1).Allowed {
			t.Fatal("admitted")
		}
	}
	if _, err := limiter(t, other, rule).Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); !ask(t, l, "k", 1).Allowed; {
		if time.Now().After(deadline) {
			t.Fatal("still denied")
		}
	}
}

// Who waits as long as told is admitted, by the clock of a real server.
func TestRedisRetryAfter(t *testing.T) {
	prefix := redisstore.Prefix(redistest.Prefix(t))
	for i, make := range algorithms {
		mine, _ := process(t, prefix)
		s := denycache.New(mine)
		l := limiter(t, s, make(string(rune('a'+i)), core.Per(3, 60*time.Millisecond)))
		for range 3 {
			ask(t, l, "k", 1)
		}
		var d core.Decision
		for hits := s.Stats().Hits; ; {
			if d = ask(t, l, "k", 1); d.Allowed {
				continue // the machine was busy for as long
			}
			if s.Stats().Hits > hits {
				break
			}
		}
		timer := time.NewTimer(d.RetryAfter)
		<-timer.C
		if d := ask(t, l, "k", 1); !d.Allowed {
			t.Errorf("%v: told to wait, and then for %v more", l.Rules()[0], d.RetryAfter)
		}
	}
}
