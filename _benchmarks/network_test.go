package benchmarks

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/benchmarks/figures"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

var quick = flag.Bool("quick", false, "measure fewer cells and rounds of BenchmarkNetwork")

// connections is the size of the pool of a client.
const connections = 100

// A kind is a limiter that BenchmarkNetwork measures, and the cost of its events.
type kind struct {
	name  string
	cost  int
	rules []core.Rule
}

// The limits of each key admit all events. No key expires during a run, and a log has the events of a minute.
var (
	bucketLimit = core.Per(1_000_000, year)
	windowLimit = core.PerMinute(100_000)
)

var (
	bucketKind = kind{"token bucket", 1, []core.Rule{core.TokenBucket("bucket", bucketLimit)}}
	windowKind = kind{"sliding window, cost 2", 2, []core.Rule{core.SlidingWindow("window", windowLimit)}}
	logKind    = kind{"sliding log, cost 2", 2, []core.Rule{core.SlidingLog("log", windowLimit)}}
	fourKind   = kind{"four rules", 1, []core.Rule{
		core.TokenBucket("bucket", bucketLimit), core.FixedWindow("fixed", windowLimit),
		core.SlidingLog("log", windowLimit), core.SlidingWindow("window", windowLimit),
	}}
)

// A cell is a closed loop to measure: callers that ask again as soon as they have a decision.
type cell struct {
	kind
	addr    string
	delay   time.Duration
	pool    int
	callers int
}

// BenchmarkNetwork measures decisions over a network that delays each reply. To measure some cells,
// call for example
//
//	go test . -run '^$' -bench 'Network/closed/^5ms/^400/log' [-quick]
func BenchmarkNetwork(b *testing.B) {
	addr := redistest.NewServer(b).Addr
	delays := []time.Duration{0, 500 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond}
	callers := []int{1, 64, 400, 2000}
	mixtureDelays, poolDelays, poolCallers := delays[1:], delays[1:3], callers[1:3]
	kinds := []kind{bucketKind, windowKind, logKind, fourKind}
	switch {
	case short():
		delays, callers = delays[1:3], callers[1:2]
		mixtureDelays, poolDelays, poolCallers = delays[:1], delays[:1], callers
	case *quick:
		delays, callers = delays[1:], callers[1:3]
		mixtureDelays = mixtureDelays[1:2]
	}
	closed := func(b *testing.B, delays []time.Duration, callers []int, pool int, measure func(*testing.B, cell)) {
		for _, delay := range delays {
			for _, n := range callers {
				for _, k := range kinds {
					b.Run(fmt.Sprintf("%s/%d/%s", milliseconds(delay), n, k.name), func(b *testing.B) {
						if delay > 0 {
							preciseTimers(b)
						}
						measure(b, cell{k, addr, delay, pool, n})
					})
				}
			}
		}
	}
	b.Run("closed", func(b *testing.B) {
		closed(b, delays, callers, connections, func(b *testing.B, c cell) {
			c.measure(b, "Decisions over a network, "+milliseconds(c.delay), c.row())
		})
	})
	b.Run("mixture", func(b *testing.B) {
		for _, delay := range mixtureDelays {
			b.Run(milliseconds(delay), func(b *testing.B) { cell{addr: addr, delay: delay, pool: connections}.mixture(b) })
		}
	})
	if *quick {
		return
	}
	b.Run("pool", func(b *testing.B) {
		closed(b, poolDelays, poolCallers, 0, func(b *testing.B, c cell) {
			c.measure(b, "Decisions over a network, default pool", milliseconds(c.delay)+", "+c.row())
		})
	})
	b.Run("open", func(b *testing.B) {
		for _, k := range kinds {
			b.Run(k.name, func(b *testing.B) { cell{k, addr, 5 * time.Millisecond, connections, 400}.open(b) })
		}
	})
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%vms", d.Seconds()*1000) }

// row returns the name of the row of c.
func (c cell) row() string {
	if c.callers == 1 {
		return c.name + ", 1 caller"
	}
	return fmt.Sprintf("%s, %d callers", c.name, c.callers)
}

// client returns a new client. The benchmark closes it.
func (c cell) client(b *testing.B) *redis.Client {
	rdb := newClient(c.addr, c.delay, c.pool)
	b.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// networkStores has the functions that make a Store with batches, and one without.
var networkStores = []struct {
	name string
	make func(rdb *redis.Client) core.Store
}{
	{"weir", func(rdb *redis.Client) core.Store { return redisstore.New(rdb, "test") }},
	{"Unbatched", func(rdb *redis.Client) core.Store {
		return redisstore.New(rdb, "test", redisstore.Prefix("unbatched:"), redisstore.Unbatched())
	}},
}

// measure measures c and records one row.
func (c cell) measure(b *testing.B, table, row string) {
	var candidates []candidate
	add := func(name string, ask decider) {
		candidates = append(candidates, closedLoop(b, name, c.delay, load{c.callers, ask}))
	}
	compared := c.name == bucketKind.name && !*quick
	for _, s := range networkStores {
		l := core.Must(core.New(s.make(c.client(b)), c.rules...))
		add(s.name, reserve(l, c.cost))
		if compared {
			add(s.name+", Allow", allow(l))
		}
	}
	if compared {
		add("redis_rate", redisRate(c.client(b), "", redis_rate.Limit{Rate: bucketLimit.Events, Burst: bucketLimit.Events, Period: year}))
	}
	add(again, reserve(core.Must(core.New(networkStores[0].make(c.client(b)), c.rules...)), c.cost))
	found := interleaveLoops(c.callers, candidates)
	control(table, row, "control", found[again], found["weir"], rateOf)

	own, base := found["weir"], found["Unbatched"]
	rate, faster, failed, p99 := own.median(rateOf), own.ratio(base, rateOf), own.median(failedOf), own.median(p99Of)
	record(table, row, "decisions/s", rate, "%s", figures.Thousands(rate))
	record(table, row, "x Unbatched", faster, "%s", times(faster))
	record(table, row, "failed", failed, "%s", percent(failed))
	record(table, row, "failed, Unbatched", base.median(failedOf), "%s", percent(base.median(failedOf)))
	record(table, row, "p99", p99, "%.1f ms", p99)
	record(table, row, "p99, Unbatched", base.median(p99Of), "%.1f ms", base.median(p99Of))
	if compared {
		own, base, peer := found["weir, Allow"], found["Unbatched, Allow"], found["redis_rate"]
		rate, faster := own.median(rateOf), own.ratio(base, rateOf)
		record(table, row, "Allow", rate, "%s/s, %s x", figures.Thousands(rate), times(faster))
		record(table, row, "Allow, x redis_rate", own.ratio(peer, rateOf), "%s", times(own.ratio(peer, rateOf)))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate, "decisions/s")
	b.ReportMetric(faster, "xUnbatched")
	b.ReportMetric(100*failed, "%failed")
	b.ReportMetric(p99, "ms-p99")
}
