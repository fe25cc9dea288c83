package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/redistest"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/redisstore"
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
			rdb := redistest.Single(t).Client()
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
			if rule.Algorithm() == core.AlgorithmTokenBucket {
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
