package memstore_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func million() []string {
	keys := make([]string, 1_000_000)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	return keys
}

func BenchmarkTokenBucket(b *testing.B) {
	ctx := context.Background()
	b.Run("hot", func(b *testing.B) {
		l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(1000))))
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = l.Allow(ctx, "one")
			}
		})
	})
	b.Run("million", func(b *testing.B) {
		l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerHour(1000))))
		keys := million()
		for _, k := range keys {
			_, _ = l.Allow(ctx, k)
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for pb.Next() {
				_, _ = l.Allow(ctx, keys[r.IntN(len(keys))])
			}
		})
	})
	b.Run("heap", func(b *testing.B) {
		keys := million()
		for b.Loop() {
			before := testkit.Heap()
			s := memstore.New()
			l := core.Must(core.New(s, core.TokenBucket("r", core.PerHour(1000))))
			for _, k := range keys {
				_, _ = l.Allow(ctx, k)
			}
			b.ReportMetric(float64(testkit.Heap()-before)/float64(len(keys)), "B/key")
			runtime.KeepAlive(s)
		}
	})
}

// BenchmarkFlood measures newcomers to a full store, each of which pushes out another key.
func BenchmarkFlood(b *testing.B) {
	ctx := context.Background()
	l := core.Must(core.New(memstore.New(memstore.MaxMemory(40*100_000)), core.TokenBucket("r", core.PerHour(10))))
	keys := million()
	for _, k := range keys {
		_, _ = l.Allow(ctx, k)
	}
	took := make([]time.Duration, 0, 1<<20)
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		_, _ = l.Allow(ctx, keys[i%len(keys)])
		if len(took) < cap(took) {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
	b.ReportMetric(float64(took[len(took)*9999/10000]), "p99.99-ns")
}

func BenchmarkSlidingLog(b *testing.B) {
	ctx := context.Background()
	l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerSecond(1000))))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = l.Allow(ctx, "one")
	}
}

func BenchmarkTwoRules(b *testing.B) {
	ctx := context.Background()
	l := core.Must(core.New(memstore.New(), core.TokenBucket("s", core.PerSecond(10)), core.TokenBucket("h", core.PerHour(500))))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = l.Allow(ctx, "one")
	}
}
