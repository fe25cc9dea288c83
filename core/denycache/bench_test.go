package denycache_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/memstore"
)

// callers is the number of goroutines for each core, so that two cores have 64.
const callers = 32

// BenchmarkDenied measures decisions about a denied key by 64 callers on two cores.
func BenchmarkDenied(b *testing.B) {
	ctx := context.Background()
	for _, c := range []struct {
		name  string
		rules []core.Rule
	}{
		{"bucket", []core.Rule{core.TokenBucket("h", core.PerHour(1))}},
		{"log", []core.Rule{core.SlidingLog("h", core.PerHour(1))}},
		{"two-rules", []core.Rule{core.TokenBucket("s", core.PerSecond(10)), core.SlidingLog("h", core.PerHour(1))}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := denycache.New(memstore.New())
			l := core.Must(core.New(s, c.rules...))
			for range 2 {
				_, _ = l.Allow(ctx, "one")
			}
			b.SetParallelism(callers)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = l.Allow(ctx, "one")
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "denials/s")
			b.ReportMetric(float64(s.Stats().Misses), "asked")
		})
	}
}

// BenchmarkAdmitted measures the cost of a lookup that finds no denial.
func BenchmarkAdmitted(b *testing.B) {
	ctx := context.Background()
	rule := core.TokenBucket("h", core.PerHour(1))
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	for name, s := range map[string]core.Store{"behind": new(yes), "through": denycache.New(new(yes))} {
		b.Run(name, func(b *testing.B) {
			l := core.Must(core.New(s, rule))
			var start atomic.Uint64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := start.Add(7919); pb.Next(); i++ {
					_, _ = l.Allow(ctx, keys[i%uint64(len(keys))])
				}
			})
		})
	}
}

// BenchmarkFlood measures denials of new keys.
func BenchmarkFlood(b *testing.B) {
	ctx := context.Background()
	s := denycache.New(new(no))
	l := core.Must(core.New(s, core.TokenBucket("h", core.PerHour(1))))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, _ = l.Allow(ctx, strconv.Itoa(i))
	}
}
