package lease_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
)

// BenchmarkHot is decisions about keys that are leased over a denycache, with and without contention.
func BenchmarkHot(b *testing.B) {
	for name, rules := range map[string][]core.Rule{
		"bucket":   {core.TokenBucket("r", core.PerSecond(100_000_000))},
		"odd":      {core.TokenBucket("r", core.Per(99_999_999, 1_000_003_000))},
		"window":   {core.FixedWindow("r", core.PerMinute(2_000_000_000))},
		"two":      {core.TokenBucket("s", core.PerSecond(100_000_000)), core.FixedWindow("m", core.PerMinute(2_000_000_000))},
		"denied":   {core.TokenBucket("r", core.PerHour(1000))},
		"saturate": {core.TokenBucket("r", core.PerSecond(100_000))},
	} {
		for _, goroutines := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, goroutines), func(b *testing.B) {
				ctx := context.Background()
				s := lease.New(denycache.New(memstore.New()))
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
				b.ReportMetric(float64(s.Stats().Calls-before.Calls)*100/float64(b.N), "calls/100")
				b.ReportMetric(float64(admitted.Load())*100/float64(b.N), "admitted%")
			})
		}
	}
}
