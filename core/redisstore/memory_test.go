package redisstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// weight is the memory of a key, all of it measured. The tests below have servers of their
// own: Redis 7.0 builds the arguments of a script's calls in the memory of earlier ones, and
// a string value may keep up to 32 bytes of those.
func weight(t *testing.T, rdb *redis.Client, key string) int64 {
	t.Helper()
	n, err := rdb.MemoryUsage(t.Context(), key, 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMemoryBucket(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	const name = "requests per second" // as long as names are
	for i, limit := range []core.Limit{
		core.PerSecond(10), core.PerHour(500), core.PerSecond(30_000), core.Per(999_983, 365*24*time.Hour),
	} {
		s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
		rule := core.TokenBucket(name, limit)
		if limit.Per == time.Second { // slow enough to be looked at
			limit = limit.WithBurst(limit.Events * 100)
			rule = core.TokenBucket(name, limit)
		}
		l := testkit.Limiter(t, s, rule)
		identity := fmt.Sprint(i)
		for range 3 {
			testkit.Admit(t, l, identity, limit.Events)
			if limit.Burst == 0 {
				break
			}
		}
		n := weight(t, rdb, s.Key(identity, rule))
		t.Logf("token bucket %v: %d bytes", limit, n)
		if n > 120 {
			t.Errorf("a bucket of %v takes %d bytes, want at most 120", limit, n)
		}
	}
}

// A sliding window counter grows with the number of its sub-windows, not with
// its limit.
func TestMemoryWindows(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	for _, c := range []struct {
		rule core.Rule
		most int64
	}{
		{core.FixedWindow("requests per hour", core.PerHour(500)), 120},
		{core.FixedWindow("requests per hour", core.PerHour(1_000_000_000)), 120},
		{core.SlidingWindow("requests per hour", core.PerHour(500)), 600},
		{core.SlidingWindow("requests per hour", core.PerHour(1_000_000)), 600},
		{core.SlidingWindow("requests per hour", core.PerHour(1_000_000_000)), 760},
	} {
		t.Run(c.rule.String(), func(t *testing.T) {
			v := newVictim(t, rdb, c.rule)
			for range 1000 { // several hours
				testkit.Ask(t, v.Limiter, "k", c.rule.Capacity()/250)
				v.advance(15 * time.Second)
			}
			n := weight(t, rdb, v.key)
			t.Logf("%v: %d bytes", &c.rule, n)
			if n > c.most {
				t.Errorf("%d bytes, want at most %d", n, c.most)
			}
		})
	}
}

func TestMemoryLog(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	for _, c := range []struct {
		limit  core.Limit
		events int
		cost   int // of one decision
		most   int64
	}{
		{core.PerHour(500), 500, 1, 5200},
		{core.PerDay(500), 500, 1, 5200},
		{core.PerHour(1000), 1000, 1, 10400},
		{core.PerDay(1000), 1000, 1, 10400},
		{core.PerHour(1500), 1500, 1, 15600},
		{core.PerHour(1000), 1000, 5, 10400},
		{core.Per(1000, 365*24*time.Hour), 1000, 1, 10400},
		{core.PerHour(1_000_000), 1_000_000, 250_000, 520},
	} {
		t.Run(fmt.Sprintf("%d of %v by %d", c.events, c.limit, c.cost), func(t *testing.T) {
			h := harness(rdb)
			s := h.Store.(*redisstore.Store)
			rule := core.SlidingLog("requests per hour", c.limit)
			l := testkit.Limiter(t, s, rule)
			calls := c.events / c.cost
			for range calls {
				testkit.Admit(t, l, "k", c.cost)
				h.Advance((59 * time.Minute / time.Duration(calls)).Truncate(time.Microsecond))
			}
			if got := testkit.Used(t, l, "k")[0]; got != c.events {
				t.Fatalf("%d are remembered, want %d", got, c.events)
			}
			n := weight(t, rdb, s.Key("k", rule))
			t.Logf("sliding log %v, %d events within an hour: %d bytes, %.2f each", c.limit, c.events, n, float64(n)/float64(c.events))
			if n > c.most {
				t.Errorf("%d bytes, want at most %d", n, c.most)
			}
		})
	}
}

// An hour in which more than three times as much is asked for as is admitted.
func TestMemoryOfRequests(t *testing.T) {
	t.Parallel()
	const limit, rounds, callers = 20, 300, 17
	rdb := redistest.NewServer(t).Client()
	h := harness(rdb, redisstore.Pipelined())
	s := h.Store.(*redisstore.Store)
	rule := core.SlidingLog("log", core.PerMinute(limit))
	l := testkit.Limiter(t, s, rule)
	key := s.Key("k", rule)
	admitted := 0
	for range rounds {
		admitted += together(t, l, callers)
		h.Advance(time.Hour / rounds)
	}
	n, err := rdb.ZCard(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d were admitted in an hour; %d members, %d bytes", admitted, rounds*callers, n, weight(t, rdb, key))
	if n > limit || testkit.Used(t, l, "k")[0] > limit {
		t.Errorf("%d members with %d events, the limit is %d", n, testkit.Used(t, l, "k")[0], limit)
	}
	if want := 60 * limit; admitted != want {
		t.Errorf("%d were admitted, want %d", admitted, want)
	}
}

// together makes calls at the same time, and says how many were admitted.
func together(t *testing.T, l *core.Limiter, calls int) (admitted int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range calls {
		wg.Go(func() {
			d, err := l.Allow(t.Context(), "k")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if d.Allowed {
				admitted++
			}
		})
	}
	wg.Wait()
	return admitted
}

// A log that is used for long holds no more than what is in its window: neither
// small events, nor large ones, nor both in turn pile up.
func TestMemoryOverTime(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	for _, costs := range [][]int{{1}, {20}, {1, 20}, {8, 9, 1}} {
		t.Run(strings.Trim(fmt.Sprint(costs), "[]"), func(t *testing.T) {
			h := harness(rdb)
			s := h.Store.(*redisstore.Store)
			rule := core.SlidingLog("log", core.PerMinute(40))
			l := testkit.Limiter(t, s, rule)
			key := s.Key("k", rule)
			for range 300 { // an hour and a quarter
				for _, cost := range costs {
					testkit.Ask(t, l, "k", cost)
				}
				h.Advance(15 * time.Second)
				if n := rdb.ZCard(t.Context(), key).Val(); n > 40 {
					t.Fatalf("%d members for 40 events", n)
				}
				if n := weight(t, rdb, key); n > 1500 {
					t.Fatalf("%d bytes for 40 events", n)
				}
			}
		})
	}
}
