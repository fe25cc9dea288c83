package benchmarks

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/benchmarks/figures"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
)

// mixture measures 20 callers of cheap decisions beside 400 callers of others, on one Store. c has no
// kind.
func (c cell) mixture(b *testing.B) {
	const table = "Cheap decisions beside others over a network"
	preciseTimers(b)
	var candidates []candidate
	for _, s := range networkStores {
		store := s.make(c.client(b))
		cheap, heavy := core.Must(core.New(store, bucketKind.rules...)), core.Must(core.New(store, windowKind.rules...))
		candidates = append(candidates, closedLoop(b, s.name, c.delay, load{20, reserve(cheap, bucketKind.cost)}, load{400, reserve(heavy, windowKind.cost)}))
	}
	found := interleaveLoops(400, candidates)
	for _, store := range networkStores {
		s, row := found[store.name], store.name+", "+milliseconds(c.delay)
		besideRate := s.median(func(s sample) float64 { return s.beside.rate })
		besideFailed := s.median(func(s sample) float64 { return s.beside.failed })
		record(table, row, "cheap decisions/s", s.median(rateOf), "%s", figures.Thousands(s.median(rateOf)))
		record(table, row, "failed", s.median(failedOf), "%s", percent(s.median(failedOf)))
		record(table, row, "p99", s.median(p99Of), "%.1f ms", s.median(p99Of))
		record(table, row, "others/s", besideRate, "%s", figures.Thousands(besideRate))
		record(table, row, "others failed", besideFailed, "%s", percent(besideFailed))
	}
	own := found["weir"]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(own.median(rateOf), "decisions/s")
	b.ReportMetric(100*own.median(failedOf), "%failed")
	b.ReportMetric(own.median(p99Of), "ms-p99")
}

// open measures requests that arrive at 70 % of the rate of a closed loop, whether earlier ones have a
// decision or not.
func (c cell) open(b *testing.B) {
	const table = "Requests at 70 % of the capacity over a network"
	preciseTimers(b)
	primary := redisstore.New(c.client(b), "test")
	loop := closedLoop(b, "", c.delay, load{c.callers, reserve(core.Must(core.New(primary, c.rules...)), c.cost)})
	rate := 0.7 * interleaveLoops(c.callers, []candidate{loop})[""].median(rateOf)

	store := failover.New(primary, memstore.New())
	defer func() { _ = store.Close() }()
	length := 30 * time.Second
	if short() {
		length /= 30
	}
	s := arrive(b, rate, length, reserve(core.Must(core.New(store, c.rules...)), c.cost))
	stats := store.Stats()
	record(table, c.name, "requests/s", rate, "%s", figures.Thousands(rate))
	record(table, c.name, "outages", float64(stats.Outages), "%d", stats.Outages)
	record(table, c.name, "decisions of the backup", float64(stats.Backup), "%d", stats.Backup)
	record(table, c.name, "failed", s.failed, "%s", percent(s.failed))
	record(table, c.name, "p99", s.p99, "%.1f ms", s.p99)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate, "requests/s")
	b.ReportMetric(float64(stats.Outages), "outages")
	b.ReportMetric(float64(stats.Backup), "backup")
	b.ReportMetric(s.p99, "ms-p99")
}

// arrive sends requests at a rate for the time of length, each from a goroutine of its own.
func arrive(b *testing.B, rate float64, length time.Duration, ask decider) sample {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		sum outcomes
	)
	sent := 0
	for begin := time.Now(); time.Since(begin) < length; time.Sleep(100 * time.Microsecond) {
		for ; float64(sent) < rate*time.Since(begin).Seconds(); sent++ {
			key := networkKeys[rand.IntN(len(networkKeys))]
			wg.Go(func() {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				begin := time.Now()
				allowed, err := ask(ctx, key)
				took := time.Since(begin)
				mu.Lock()
				defer mu.Unlock()
				sum.add(allowed, err, took)
			})
		}
	}
	wg.Wait()
	return sum.sample(b, length)
}
