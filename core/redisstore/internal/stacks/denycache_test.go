package stacks_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// newRedis returns a denycache over the Redis of the tests, for one process of those with prefix.
func newRedis(t *testing.T, prefix string) *denycache.Store {
	return denycache.New(redisstore.New(redistest.Shared(t).Client(), "test", redisstore.Prefix(prefix), redisstore.Timeout(20*time.Second)))
}

// 20 000 events of a denied key cost at most one call of Redis a caller and second.
func TestRedis_deniedKey(t *testing.T) {
	const callers, events = 64, 20_000
	s := newRedis(t, redistest.Prefix(t))
	l := testkit.Limiter(t, s, core.TokenBucket("day", core.PerDay(10)), core.SlidingLog("hour", core.PerHour(10)))
	for testkit.Allow(t, l, "k").Allowed {
	}
	before, start := s.Stats().Misses, time.Now()
	admitted := together(callers, func() (allowed bool) {
		for range events / callers {
			allowed = allowed || testkit.Allow(t, l, "k").Allowed
		}
		return allowed
	})
	calls, took := s.Stats().Misses-before, time.Since(start)
	if most := callers * uint64(took/denycache.DefaultMaxAge); admitted > 0 || calls > most {
		t.Errorf("got %d admitted and %d calls in %v, want 0 and %d at most", admitted, calls, took, most)
	}
}

// After RetryAfter of a hit, by the clock of this process, the event is admitted by that of Redis.
func TestRedis_retryAfter(t *testing.T) {
	prefix := redistest.Prefix(t)
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			s := newRedis(t, prefix)
			l := testkit.Limiter(t, s, a.Rule(a.Name, core.Per(3, 60*time.Millisecond)))
			var d core.Decision
			for deadline := time.Now().Add(20 * time.Second); s.Stats().Hits == 0; d = testkit.Allow(t, l, "k") {
				if time.Now().After(deadline) {
					t.Fatal("got no hit in 20 s")
				}
			}
			<-time.After(d.RetryAfter)
			if again := testkit.Allow(t, l, "k"); !again.Allowed {
				t.Errorf("got %v after the RetryAfter of %v", again, d)
			}
		})
	}
}
