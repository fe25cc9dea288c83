package lease_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/redistest"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
)

// BenchmarkHot is decisions about keys that are leased, with and without contention.
func BenchmarkHot(b *testing.B) {
	for name, rules := range map[string][]core.Rule{
		"bucket":   {core.TokenBucket("r", core.PerSecond(100_000_000))},
		"odd":      {core.TokenBucket("r", core.Per(99_999_999, 1_000_003_000))},
		"window":   {core.FixedWindow("r", core.PerMinute(1_000_000_000_000))},
		"two":      {core.TokenBucket("s", core.PerSecond(100_000_000)), core.FixedWindow("m", core.PerMinute(1_000_000_000_000))},
		"denied":   {core.TokenBucket("r", core.PerHour(1000))},
		"saturate": {core.TokenBucket("r", core.PerSecond(100_000))},
	} {
		for _, goroutines := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, goroutines), func(b *testing.B) {
				ctx := context.Background()
				s := lease.New(memstore.New())
				defer s.Close()
				l := core.Must(core.New(s, rules...))
				for range 3000 {
					_, _ = l.Allow(ctx, "one")
				}
				before := s.Stats()
				var admitted atomic.Int64
				b.ReportAllocs()
				b.SetParallelism(max(1, goroutines/2))
				b.ResetTimer()
				work := func() {
					if d, _ := l.Allow(ctx, "one"); d.Allowed {
						admitted.Add(1)
					}
				}
				if goroutines == 1 {
					for range b.N {
						work()
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							work()
						}
					})
				}
				b.ReportMetric(float64(float64(s.Stats().Calls-before.Calls))*100/float64(b.N), "calls/100")
				b.ReportMetric(float64(admitted.Load())*100/float64(b.N), "admitted%")
			})
		}
	}
}

// BenchmarkRedis is 64 goroutines on hot keys of 100 000 a second, on a real Redis.
func BenchmarkRedis(b *testing.B) {
	for _, keys := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			ctx := context.Background()
			s := lease.New(redisstore.New(redistest.Single(b).Client(), redisstore.Timeout(20*time.Second)))
			defer s.Close()
			l := core.Must(core.New(s, core.TokenBucket("r", core.PerSecond(100_000))))
			var names []string
			for i := range keys {
				names = append(names, fmt.Sprint("user:", i))
			}
			var admitted, next atomic.Int64
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				n, yes := int(next.Add(1)), 0
				for pb.Next() {
					n++
					d, err := l.Allow(ctx, names[n%keys])
					if err != nil {
						b.Error(err)
						return
					}
					if d.Allowed {
						yes++
					}
				}
				admitted.Add(int64(yes))
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(float64(admitted.Load())/b.Elapsed().Seconds(), "admitted/s")
			b.ReportMetric(float64(s.Stats().Calls)*100/float64(b.N), "calls/100")
		})
	}
}
