package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// TestStore_TwoVersions asks two Stores in turn for one key, as during a rollout: their rules have one name and different
// limits. docs/kubernetes.md has the sums.
func TestStore_TwoVersions(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	bucket, places := core.PerMinute(5), core.InFlight("r", 5)
	for name, test := range map[string]struct {
		old, new core.Rule
		sum      int
	}{
		"fixed window, number":                   {core.FixedWindow("r", core.PerMinute(5)), core.FixedWindow("r", core.PerMinute(10)), 10},
		"fixed window, period":                   {core.FixedWindow("r", core.PerMinute(5)), core.FixedWindow("r", core.PerHour(10)), 15},
		"fixed window from the first event":      {core.FixedWindow("r", core.PerMinute(5)).FromFirst(), core.FixedWindow("r", core.PerMinute(10)).FromFirst(), 10},
		"sliding window, number":                 {core.SlidingWindow("r", core.PerMinute(5)), core.SlidingWindow("r", core.PerMinute(10)), 10},
		"sliding window, period":                 {core.SlidingWindow("r", core.PerMinute(5)), core.SlidingWindow("r", core.PerHour(10)), 15},
		"sliding window, sub-windows":            {core.SlidingWindow("r", core.PerMinute(5)), core.SlidingWindow("r", core.PerMinute(10)).SubWindows(30), 15},
		"sliding log, number":                    {core.SlidingLog("r", core.PerMinute(5)), core.SlidingLog("r", core.PerMinute(10)), 10},
		"sliding log, period":                    {core.SlidingLog("r", core.PerMinute(5)), core.SlidingLog("r", core.PerHour(10)), 15},
		"token bucket, number":                   {core.TokenBucket("r", bucket), core.TokenBucket("r", core.PerMinute(10)), 7},
		"token bucket, number and burst":         {core.TokenBucket("r", bucket.WithBurst(20)), core.TokenBucket("r", core.PerMinute(10).WithBurst(40)), 27},
		"token bucket, rate with the same burst": {core.TokenBucket("r", bucket), core.TokenBucket("r", core.PerMinute(10).WithBurst(5)), 10},
		"token bucket, burst":                    {core.TokenBucket("r", bucket), core.TokenBucket("r", bucket.WithBurst(10)), 15},
		"token bucket, period":                   {core.TokenBucket("r", bucket), core.TokenBucket("r", core.PerHour(10)), 15},
		"leaky bucket, number":                   {core.LeakyBucket("r", bucket), core.LeakyBucket("r", core.PerMinute(10)), 7},
		"leaky bucket, burst":                    {core.LeakyBucket("r", bucket), core.LeakyBucket("r", bucket.WithBurst(10)), 15},
		"leaky bucket, period":                   {core.LeakyBucket("r", bucket), core.LeakyBucket("r", core.PerHour(10)), 15},
		"quota, number":                          {core.Quota("r", core.Monthly(5)), core.Quota("r", core.Monthly(10)), 10},
		"quota, rollover":                        {core.Quota("r", core.Monthly(5)), core.Quota("r", core.Monthly(5)).Rollover(5), 5},
		"quota, period":                          {core.Quota("r", core.Weekly(5)), core.Quota("r", core.Monthly(10)), 15},
		"in flight, number":                      {places, core.InFlight("r", 10), 10},
		"in flight, hold":                        {places, core.InFlight("r", 10).Hold(time.Minute), 15},
		"another algorithm":                      {core.FixedWindow("r", core.PerMinute(5)), core.SlidingLog("r", core.PerMinute(10)), 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clock storetest.Clock
			opts := []redisstore.Option{prefix(), redisstore.Clock(func() string { return strconv.FormatInt(clock.Micros(), 10) })}
			var both []*core.Limiter
			for _, r := range []core.Rule{test.old, test.new} {
				both = append(both, testkit.Limiter(t, newStore(rdb, opts...), r))
			}
			sum := 0
			for i, denied := 0, 0; denied < len(both); i++ {
				r := testkit.Reserve(t, both[i%len(both)], "k", 1)
				defer func() { testkit.Must(t, r.Release(t.Context())) }()
				if r.Decision().Allowed {
					sum, denied = sum+1, 0
				} else {
					denied++
				}
			}
			if sum != test.sum {
				t.Errorf("%v and %v admit %d events, want %d", test.old, test.new, sum, test.sum)
			}
		})
	}
}
