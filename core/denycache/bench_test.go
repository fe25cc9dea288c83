package denycache_test

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
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

// With the race detector sync.Pool drops values and objects are larger, hence the build tag.

func TestStore_Take_allocations(t *testing.T) {
	testkit.WithoutRace(t)
	rule, ctx := core.TokenBucket("r", core.PerHour(1)), t.Context()
	for name, behind := range map[string]core.Store{"hit": new(no), "miss": new(yes)} {
		l := testkit.Limiter(t, denycache.New(behind), rule)
		if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "k") }); n > 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}

// The documentation of MaxKeys says how much a key takes.
func TestMaxKeys_bytesPerKey(t *testing.T) {
	testkit.WithoutRace(t)
	const keys = 20_000
	for costs, most := range map[int]int64{1: 240, 8: 1050} {
		s := denycache.New(new(no))
		l := testkit.Limiter(t, s, core.SlidingLog("r", core.PerHour(10)))
		before := testkit.Heap()
		for i := range keys {
			for cost := range costs {
				testkit.Ask(t, l, strconv.Itoa(i), 1+cost)
			}
		}
		if got := (testkit.Heap() - before) / keys; got > most {
			t.Errorf("%d costs: got %d bytes a key, want %d at most", costs, got, most)
		} else {
			t.Logf("%d costs: %d bytes a key", costs, got)
		}
		if n := s.Stats().Misses; n != uint64(keys*costs) {
			t.Errorf("%d costs: got %d misses, want one for each, %d", costs, n, keys*costs)
		}
		runtime.KeepAlive(s)
	}
}
