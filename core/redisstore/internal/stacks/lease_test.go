package stacks_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// Four processes at full speed on one key of 20 000 admit never more, nearly all of it, and
// make a call for less than one event in 25. With plans, half of the callers have a larger limit.
func TestStore_Take_FourProcessesOnRedis(t *testing.T) {
	t.Parallel()
	const limit, processes, goroutines = 20_000, 4, 8
	// A century does not end during a test, not even one of windows counted from 1970 on.
	const century = 100 * 365 * 24 * time.Hour
	bucket, window := core.TokenBucket("bucket", core.PerHour(limit)), core.FixedWindow("window", core.Per(limit, century))
	for _, tt := range []struct {
		name string
		rdb  redis.UniversalClient
		rule core.Rule
	}{
		{"single", redistest.Shared(t).Client(), bucket}, {"single", redistest.Shared(t).Client(), window},
		{"single, plans", redistest.Shared(t).Client(), bucket.Plan("pro", core.PerHour(2*limit))},
		{"single, plans", redistest.Shared(t).Client(), window.Plan("pro", core.Per(2*limit, century))},
		{"cluster", redistest.SharedCluster(t).Client(), bucket},
	} {
		t.Run(tt.name+" "+tt.rule.Name(), func(t *testing.T) {
			key := redistest.Prefix(t)
			var stores []*lease.Store
			var caches []*denycache.Store
			for range processes {
				cache := denycache.New(redisstore.New(tt.rdb, "test", redisstore.Timeout(20*time.Second)))
				caches = append(caches, cache)
				stores = append(stores, lease.New(cache, lease.Timeout(20*time.Second)))
			}
			largest := limit
			if len(tt.rule.Spec().Plans) > 0 {
				largest *= 2
			}
			var events, admitted atomic.Int64 // admitted is in events of the largest limit
			begun := time.Now()
			testkit.Concurrently(processes*goroutines, func(i int) {
				l, cost := testkit.Limiter(t, stores[i%processes], tt.rule), int64(1)
				if i < processes*goroutines/2 {
					l = l.Plan("pro")
				} else if tt.rule.Algorithm() == driver.TokenBucket {
					cost = int64(largest / limit)
				}
				for denied := 0; denied < 200; {
					if testkit.Allow(t, l, key).Allowed {
						events.Add(1)
						admitted.Add(cost)
					} else {
						denied++
					}
				}
			})
			most := largest
			if tt.rule.Algorithm() == driver.TokenBucket {
				most += int(time.Since(begun)*time.Duration(largest)/time.Hour) + largest/limit
			}
			calls := 0
			for i, s := range stores {
				testkit.Must(t, s.Close())
				calls += int(caches[i].Stats().Misses)
			}
			if n := int(admitted.Load()); n > most || n < largest*95/100 || calls*25 > int(events.Load()) {
				t.Errorf("expected %d to %d events, and a call for less than one in 25, got %d events and %d calls", largest*95/100, most, n, calls)
			}
		})
	}
}

// While Redis is down or hangs, callers get an error within the deadline. They are admitted when
// it has returned, also without its data.
func TestStore_Take_RedisDies(t *testing.T) {
	t.Parallel()
	for name, away := range map[string][2]func(*redistest.Server) error{
		"killed": {(*redistest.Server).Stop, (*redistest.Server).Start},
		"frozen": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const deadline = 200 * time.Millisecond
			server := redistest.NewServer(t)
			s := lease.New(redisstore.New(server.Client(), "test", redisstore.Timeout(deadline)))
			bucket := core.TokenBucket("b", core.PerSecond(20_000))
			one := testkit.Limiter(t, s, bucket)
			two := testkit.Limiter(t, s, bucket, core.SlidingLog("log", core.PerSecond(1000)))
			var done atomic.Bool
			var admitted, failed, slow atomic.Int64
			var wg sync.WaitGroup
			for i := range 32 {
				l := one
				if i%4 == 0 {
					l = two
				}
				wg.Go(func() {
					for ; !done.Load(); time.Sleep(time.Millisecond) {
						begun := time.Now()
						d, err := l.Allow(context.Background(), "one")
						if time.Since(begun) > 10*deadline {
							slow.Add(1)
						}
						if err != nil {
							failed.Add(1)
						} else if d.Allowed {
							admitted.Add(1)
						}
					}
				})
			}
			defer wg.Wait()
			defer done.Store(true)
			grow := func(condition string, n *atomic.Int64) {
				t.Helper()
				from := n.Load()
				for begun := time.Now(); n.Load() < from+100; time.Sleep(time.Millisecond) {
					if time.Since(begun) > 20*time.Second {
						t.Fatalf("expected 100 decisions more that %s, got %d", condition, n.Load()-from)
					}
				}
			}
			grow("are admitted before", &admitted)
			testkit.Must(t, away[0](server))
			grow("fail meanwhile", &failed)
			testkit.Must(t, away[1](server))
			grow("are admitted after", &admitted)
			done.Store(true)
			wg.Wait()
			testkit.Must(t, s.Close())
			if n := slow.Load(); n > 0 {
				t.Errorf("expected decisions within %v, got %d that took longer", 10*deadline, n)
			}
		})
	}
}
