package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// Callers that leave at random use their charges for other keys at once. The race detector finds a round trip that still
// reads them, and no decision is about the wrong key: a key without an event stays without a state.
func TestStore_Take_leaving(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(*testing.T) redis.UniversalClient{
		"server":  func(t *testing.T) redis.UniversalClient { return redistest.NewServer(t).Client() },
		"Cluster": func(t *testing.T) redis.UniversalClient { return redistest.SharedCluster(t).Client() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := client(t)
			store := redisstore.New(rdb, "test", prefix(), redisstore.Timeout(20*time.Millisecond))
			rules := []*driver.Compiled{
				testkit.Compiled(core.TokenBucket("bucket", core.PerSecond(1e6))), testkit.Compiled(core.SlidingLog("log", core.PerSecond(1e6))),
				testkit.Compiled(core.InFlight("places", 1000).Hold(10 * time.Second)), testkit.Compiled(core.LeakyBucket("queue", core.PerSecond(1e6))),
			}
			never := testkit.Compiled(core.FixedWindow("never", core.PerHour(1)))
			var callers sync.WaitGroup
			for i := range 64 {
				callers.Go(func() {
					random := rand.New(rand.NewPCG(uint64(i), 1))
					charges, waiter := make([]driver.Charge, 3), new(driver.Waiter)
					for n := range 50 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Microsecond)
						for j := range charges {
							rule := rules[(n+j)%len(rules)]
							charges[j] = driver.Charge{
								Key: fmt.Sprint("k", i%8+j*random.IntN(2)*8), Rule: rule, Op: driver.Spend, Cost: 1, MaxDelay: time.Second,
							}
							if rule.Kind.Holds {
								*waiter = driver.Waiter{Queue: int64(1000 + i), Age: time.Millisecond}
								charges[j].Waiter = waiter
							}
						}
						err := store.Take(ctx, charges)
						if err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("caller %d: %v", i, err)
						}
						for j := range charges {
							charges[j] = driver.Charge{Key: "other", Rule: never, Op: driver.Debit, Cost: 1000}
						}
						*waiter = driver.Waiter{Queue: -1}
						cancel()
					}
				})
			}
			callers.Wait()
			peek := []driver.Charge{{Key: "other", Rule: never, Op: driver.Peek, Cost: 1}}
			eventually(t, func() error { return store.Take(t.Context(), peek) })
			if !peek[0].Verdict.Allowed || peek[0].Verdict.Remaining != 1 {
				t.Errorf("a key without events has the verdict %+v", peek[0].Verdict)
			}
		})
	}
}
