package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// The most events of a key in any minute, for the limits of the table in docs/algorithms.md.
func TestMostInAnyMinute(t *testing.T) {
	limit := core.PerMinute(100)
	for rule, want := range map[core.Rule]int{
		core.SlidingWindow("window", limit):            100,
		core.SlidingLog("log", limit):                  100,
		core.TokenBucket("bucket", limit):              199,
		core.TokenBucket("small", limit.WithBurst(20)): 119,
		core.LeakyBucket("queue", limit):               100,
		core.FixedWindow("fixed", limit):               200,
		core.SlidingWindow("soft", limit).Soft(10):     110,
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter := core.Must(core.New(memstore.New(), rule))
			time.Sleep(59900 * time.Millisecond) // begin shortly before a new minute
			most := 0
			var departures []time.Time
			for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
				d, err := limiter.Allow(t.Context(), "ann")
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed {
					time.Sleep(d.RetryAfter)
					continue
				}
				departures = append(departures, time.Now().Add(d.Delay))
				for departures[len(departures)-1].Sub(departures[0]) >= time.Minute {
					departures = departures[1:]
				}
				most = max(most, len(departures))
			}
			if most != want {
				t.Errorf("%v: got %d, want %d", rule, most, want)
			}
		})
	}
}
