package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// century is a period that does not end during a test, not even one of windows that
// are counted from 1970 on.
const century = 100 * 365 * 24 * time.Hour

// Four processes at full speed on one key of 50 000: never more, nearly all of it, and
// hardly a call.
func TestFourProcessesOnRedis(t *testing.T) {
	const limit, processes, goroutines = 50_000, 4, 16
	for _, rule := range []core.Rule{
		core.TokenBucket("b", core.PerHour(limit)),
		core.FixedWindow("w", core.Per(limit, century)),
	} {
		t.Run(rule.Algorithm().String(), func(t *testing.T) {
			rdb := redistest.NewServer(t).Client()
			const prefix = "four:"
			var stores []*lease.Store
			var admitted, decisions atomic.Int64
			var wg sync.WaitGroup
			began := time.Now()
			for range processes {
				s := lease.New(redisstore.New(rdb, redisstore.Prefix(prefix), redisstore.Timeout(20*time.Second)), lease.Timeout(20*time.Second))
				stores = append(stores, s)
				l := core.Must(core.New(s, rule))
				for range goroutines {
					wg.Go(func() {
						for denied := 0; denied < 200; {
							d, err := l.Allow(context.Background(), "one")
							if err != nil {
								t.Error(err)
								return
							}
							decisions.Add(1)
							if d.Allowed {
								admitted.Add(1)
							} else {
								denied++
							}
						}
					})
				}
			}
			wg.Wait()
			took := time.Since(began)
			var calls int64
			for _, s := range stores {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				calls += int64(s.Stats().Calls)
				t.Logf("%+v", s.Stats())
			}
			most := int64(limit)
			if rule.Algorithm() == driver.TokenBucket {
				most += int64(took*limit/time.Hour) + 1
			}
			t.Logf("%d of %d admitted, %d decisions, %d calls, %v", admitted.Load(), most, decisions.Load(), calls, took)
			if n := admitted.Load(); n > most || n < limit*95/100 {
				t.Errorf("%d were admitted of %d", n, most)
			}
			if calls*100 > admitted.Load() {
				t.Errorf("%d calls for %d admitted", calls, admitted.Load())
			}
		})
	}
}

// A Redis that dies and comes back empty, and one that hangs: whoever waits has an
// error within the deadline, what is held is spent meanwhile, and then it goes on.
func TestRedisDies(t *testing.T) {
	for name, away := range map[string][2]func(*redistest.Server) error{
		"killed": {(*redistest.Server).Stop, (*redistest.Server).Start},
		"frozen": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.NewServer(t)
			const deadline = 200 * time.Millisecond
			s := lease.New(redisstore.New(server.Client(), redisstore.Timeout(deadline)))
			bucket := core.TokenBucket("b", core.PerSecond(20_000))
			l := core.Must(core.New(s, bucket))
			both := core.Must(core.New(s, bucket, core.SlidingLog("log", core.PerSecond(1000))))
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var admitted, failed, slow atomic.Int64
			var wg sync.WaitGroup
			for i := range 32 {
				l := l
				if i%4 == 0 {
					l = both
				}
				wg.Go(func() {
					for ctx.Err() == nil {
						begun := time.Now()
						d, err := l.Allow(context.Background(), "one")
						if time.Since(begun) > 10*deadline {
							slow.Add(1)
						}
						switch {
						case err != nil:
							failed.Add(1)
						case d.Allowed:
							admitted.Add(1)
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			grow := func(what string, n *atomic.Int64) {
				t.Helper()
				from := n.Load()
				for begun := time.Now(); n.Load() < from+100; time.Sleep(time.Millisecond) {
					if time.Since(begun) > 20*time.Second {
						t.Fatalf("%s: no more than %d", what, n.Load()-from)
					}
				}
			}
			grow("admitted before", &admitted)
			if err := away[0](server); err != nil {
				t.Fatal(err)
			}
			grow("failed meanwhile", &failed)
			if err := away[1](server); err != nil {
				t.Fatal(err)
			}
			grow("admitted after", &admitted)
			stop()
			wg.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if n := slow.Load(); n > 0 {
				t.Errorf("%d decisions took longer than ten deadlines", n)
			}
			t.Logf("%d admitted, %d failed, %+v", admitted.Load(), failed.Load(), s.Stats())
		})
	}
}

// Each token is spent, held or left in Redis, and in a Cluster, as it is in memory.
func TestStore_TokensInRedis(t *testing.T) {
	for name, rdb := range map[string]redis.UniversalClient{
		"single": redistest.Shared(t).Client(), "cluster": redistest.SharedCluster(t).Client(),
	} {
		for _, rule := range []core.Rule{
			core.TokenBucket("b", core.PerHour(50_000)), core.FixedWindow("w", core.Per(50_000, century)),
			core.TokenBucket("third", core.Per(100_000, 3*time.Hour)),
		} {
			t.Run(name+" "+rule.Name(), func(t *testing.T) {
				behind := redisstore.New(rdb, redisstore.Timeout(20*time.Second))
				s := lease.New(behind, lease.Timeout(20*time.Second))
				key := redistest.Prefix(t)
				l, below := core.Must(core.New(s, rule)), core.Must(core.New(behind, rule))
				const n = 1000
				begun := time.Now()
				for range n {
					if d, err := l.Allow(t.Context(), key); err != nil || !d.Allowed {
						t.Fatal(d, err)
					}
				}
				if err := s.Close(); err != nil { // waits for a block that is under way
					t.Fatal(err)
				}
				leased := int(s.Stats().Leased)
				d, err := below.Peek(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				refilled := 0
				if rule.Algorithm() == driver.TokenBucket {
					refilled = int(time.Since(begun)/(72*time.Millisecond)) + 1
				}
				left := d.State(0).Remaining
				if left > rule.Capacity()-n+refilled || left < rule.Capacity()-n-n/2 || leased < n*8/10 {
					t.Errorf("%d were spent of %d, %d leased, and %d are left", n, rule.Capacity(), leased, left)
				}
			})
		}
	}
}
