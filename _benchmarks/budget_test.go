package benchmarks

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// Money is in millionths of a dollar.
const (
	budgetTable    = "A budget of 5 dollars"
	budgetLimit    = 5_000_000
	budgetCallers  = 1000
	budgetEstimate = 100_000 // of a call
	budgetUsage    = 60_000
)

// A spender asks whether a call may be made, and charges it.
type spender struct {
	// begin returns the money that is charged at once, and a function that charges the usage after the call. The function
	// is nil if the call is denied.
	begin func(key string) (charged int64, end func() error, err error)
	left  func(key string) (int64, error) // of the budget
}

// reserving charges the estimate of a call, and settles it at the usage.
func reserving(store core.Store) spender {
	money := core.Must(core.New(store, core.Quota("money", core.Monthly(budgetLimit))))
	return spender{
		begin: func(key string) (int64, func() error, error) {
			r, err := money.Reserve(ctx, key, budgetEstimate)
			if err != nil || !r.Decision().Allowed {
				return 0, nil, err
			}
			return budgetEstimate, func() error { return r.Settle(ctx, budgetUsage) }, nil
		},
		left: func(key string) (int64, error) {
			d, err := money.Peek(ctx, key)
			if err != nil {
				return 0, err
			}
			return int64(d.State(0).Remaining), nil
		},
	}
}

// checking compares the spent money and the estimate with the budget, and adds the usage after the call.
func checking(rdb *redis.Client) spender {
	left := func(key string) (int64, error) {
		spent, err := rdb.Get(ctx, key).Int64()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return budgetLimit - spent, err
	}
	return spender{
		begin: func(key string) (int64, func() error, error) {
			if n, err := left(key); err != nil || n < budgetEstimate {
				return 0, nil, err
			}
			return 0, func() error { return rdb.IncrBy(ctx, key, budgetUsage).Err() }, nil
		},
		left: left,
	}
}

// A spending is the result of one round.
type spending struct {
	admitted      atomic.Int64
	charged, most atomic.Int64 // the sum of the money that is spent or reserved, and the largest one
	decided       atomic.Int64 // the time until the last decision, in ns
}

func (s *spending) charge(n int64) { raise(&s.most, s.charged.Add(n)) }

func raise(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

// spend makes a call of each caller, all at the same time. A call takes up to 20 ms; one of a language model takes longer.
// An estimate counts from the return of its decision to the call that settles it, so the sum is never above that of the
// store.
func (m spender) spend(b *testing.B, key string) *spending {
	var (
		s       spending
		callers sync.WaitGroup
		ready   = make(chan struct{})
		start   time.Time
	)
	for i := range budgetCallers {
		callers.Go(func() {
			<-ready
			charged, end, err := m.begin(key)
			raise(&s.decided, int64(time.Since(start)))
			if err == nil && end != nil {
				s.admitted.Add(1)
				s.charge(charged)
				time.Sleep(time.Duration(i%20) * time.Millisecond)
				s.charge(budgetUsage - charged)
				err = end()
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	start = time.Now()
	close(ready)
	callers.Wait()
	if left, err := m.left(key); err != nil || left != budgetLimit-s.charged.Load() {
		b.Errorf("got %d of the budget left, and the error %v, want %d", left, err, budgetLimit-s.charged.Load())
	}
	return &s
}

// BenchmarkBudget makes 1000 calls at the same time, under a budget for the estimates of 50 and the usage of 83. It compares
// two ways: a reservation of the estimate, which is settled after the call; and a comparison with the spent money before the
// call, to which the usage is added afterwards. The overshoot is the money above the budget that is spent or reserved at a
// time. The benchmark fails if that of a reservation is not zero. The comparison finds the budget unspent until the first
// calls have ended.
func BenchmarkBudget(b *testing.B) {
	rdb := startRedis(b)
	for _, way := range []struct {
		name     string
		reserves bool
		spender  spender
	}{
		{"weir, memory", true, reserving(memstore.New())},
		{"weir, Redis", true, reserving(newStore(rdb))},
		{"compare then charge, Redis", false, checking(rdb)},
	} {
		b.Run(way.name, func(b *testing.B) {
			var admitted, spent, decided, overshoot int64
			for i := range b.N {
				s := way.spender.spend(b, fmt.Sprint("org ", b.N, i))
				admitted, spent, decided = admitted+s.admitted.Load(), spent+s.charged.Load(), decided+s.decided.Load()
				overshoot = max(overshoot, s.most.Load()-budgetLimit)
			}
			if way.reserves && overshoot > 0 {
				b.Errorf("%d millionths of a dollar above the budget", overshoot)
			}
			mean := func(sum int64) float64 { return float64(sum) / float64(b.N) }
			b.ReportMetric(float64(overshoot), "overshoot")
			b.ReportMetric(mean(admitted), "admitted")
			b.ReportMetric(budgetCallers/mean(decided)*1e9, "decisions/s")
			record(budgetTable, way.name, "admitted calls", mean(admitted), "%.0f of %d", mean(admitted), budgetCallers)
			record(budgetTable, way.name, "spent", mean(spent), "%.2f dollars", mean(spent)/1e6)
			record(budgetTable, way.name, "most above the budget", float64(overshoot), "%.2f dollars", float64(overshoot)/1e6)
		})
	}
}
