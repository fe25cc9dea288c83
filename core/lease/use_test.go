package lease_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/lease"
)

// demand lets some processes ask at random, so often a second altogether, and returns
// how many of how many were admitted, with how many calls.
func (r *rig) demand(rule core.Rule, processes int, rate float64, span time.Duration) (admitted, asked, calls int) {
	const goroutines = 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	var stores []*lease.Store
	until := time.Now().Add(span)
	for p := range processes {
		s := r.lease()
		stores = append(stores, s)
		l := r.limiter(s, rule)
		for g := range goroutines {
			rng := rand.New(rand.NewPCG(uint64(p), uint64(g)))
			wg.Go(func() {
				next := time.Now()
				for {
					next = next.Add(time.Duration(rng.ExpFloat64() * float64(time.Second) * float64(processes*goroutines) / rate))
					time.Sleep(time.Until(next))
					if time.Now().After(until) {
						return
					}
					allowed := r.ask(l, 1).Allowed
					mu.Lock()
					asked++
					if allowed {
						admitted++
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for _, s := range stores {
		calls += int(s.Stats().Calls)
		r.Logf("%+v", s.Stats())
	}
	return admitted, asked, calls
}

// A limit is used up when more is asked for than it has, and nobody is denied when
// clearly less is; with few calls.
func TestBucketIsUsedUp(t *testing.T) {
	const span = 10 * time.Second
	for _, limit := range []core.Limit{core.PerSecond(2000), core.PerSecond(2000).WithBurst(500), core.PerSecond(20_000)} {
		rule, rate := core.TokenBucket("b", limit), float64(limit.Events)
		bubble(t, func(r *rig) {
			admitted, asked, calls := r.demand(rule, 4, 1.5*rate, span)
			most := rule.Capacity() + limit.Events*10
			t.Logf("%v at 1.5 times the rate: %d of %d were admitted, the limit is %d, %d calls", limit, admitted, asked, most, calls)
			if admitted > most+1 || admitted < most*97/100 {
				t.Errorf("%d were admitted of %d", admitted, most)
			}
		})
		bubble(t, func(r *rig) {
			admitted, asked, calls := r.demand(rule, 4, 0.8*rate, span)
			t.Logf("%v at 0.8 times the rate: %d of %d were admitted, %d calls", limit, admitted, asked, calls)
			if admitted < asked {
				t.Errorf("%d of %d were admitted", admitted, asked)
			}
			if calls*10 > asked {
				t.Errorf("%d calls for %d decisions", calls, asked)
			}
		})
	}
}
