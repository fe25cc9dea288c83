package benchmarks

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/benchmarks/figures"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// startRedis starts a server for the benchmark, without persistence. The client has a connection for
// each caller.
func startRedis(b *testing.B) *redis.Client {
	b.Helper()
	return redistest.NewServer(b).Client(func(o *redis.Options) { o.PoolSize = 256 })
}

// usage returns the CPU time in microseconds that the server has used, and the number of scripts that
// it has run.
func usage(rdb *redis.Client) (us, scripts float64, err error) {
	cpu, err := rdb.InfoMap(ctx, "cpu").Result()
	if err != nil {
		return 0, 0, err
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(cpu["CPU"][name], 64)
		if err != nil {
			return 0, 0, err
		}
		us += seconds * 1e6
	}
	stats, err := rdb.InfoMap(ctx, "commandstats").Result()
	for _, name := range []string{"cmdstat_evalsha", "cmdstat_eval"} {
		var calls float64
		if _, err := fmt.Sscanf(stats["Commandstats"][name], "calls=%f", &calls); err == nil {
			scripts += calls
		}
	}
	return us, scripts, err
}

// newStore returns a Store with a deadline that a busy machine does not miss.
func newStore(rdb *redis.Client) core.Store {
	return redisstore.New(rdb, "test", redisstore.Timeout(10*time.Second))
}

// A decider decides about one event.
type decider func(ctx context.Context, key string) (allowed bool, err error)

func weir(store core.Store, rules ...core.Rule) decider {
	return allow(core.Must(core.New(store, rules...)))
}

func allow(l *core.Limiter) decider {
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}
}

// reserve decides as a gate does.
func reserve(l *core.Limiter, cost int) decider {
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Reserve(ctx, key, cost)
		return err == nil && r.Decision().Allowed, err
	}
}

func redisRate(rdb *redis.Client, prefix string, limit redis_rate.Limit) decider {
	l := redis_rate.NewLimiter(rdb)
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, prefix+key, limit)
		return err == nil && r.Allowed > 0, err
	}
}

// year is the period of the limits, so that no key expires between two slices.
const year = 365 * 24 * time.Hour

// inRedis has the function of each peer that makes a new limiter of n events a year. base is the name
// of the peer to which it is compared.
var inRedis = []struct {
	name, base string
	make       func(rdb *redis.Client, n int) decider
}{
	{"redis_rate", "redis_rate", func(rdb *redis.Client, n int) decider {
		return redisRate(rdb, "", redis_rate.Limit{Rate: n, Burst: n, Period: year})
	}},
	{"weir, token bucket", "redis_rate", func(rdb *redis.Client, n int) decider {
		return weir(newStore(rdb), core.TokenBucket("bucket", core.Per(n, year)))
	}},
	{again, "redis_rate", func(rdb *redis.Client, n int) decider {
		return weir(newStore(rdb), core.TokenBucket("bucket", core.Per(n, year)))
	}},
	{"weir, token bucket, Reserve", "redis_rate", func(rdb *redis.Client, n int) decider { // as a gate asks
		return reserve(core.Must(core.New(newStore(rdb), core.TokenBucket("bucket", core.Per(n, year)))), 1)
	}},
	{"weir, sliding log", "redis_rate", func(rdb *redis.Client, n int) decider {
		return weir(newStore(rdb), core.SlidingLog("log", core.Per(n, year)))
	}},
	{"redis_rate, two calls", "redis_rate, two calls", func(rdb *redis.Client, n int) decider {
		monthly, yearly := redisRate(rdb, "month:", redis_rate.Limit{Rate: 400, Burst: 400, Period: year / 12}), redisRate(rdb, "year:", redis_rate.Limit{Rate: n, Burst: n, Period: year})
		return func(ctx context.Context, key string) (bool, error) {
			if allowed, err := monthly(ctx, key); err != nil || !allowed {
				return false, err
			}
			return yearly(ctx, key)
		}
	}},
	{"weir, two rules", "redis_rate, two calls", func(rdb *redis.Client, n int) decider {
		return weir(newStore(rdb), core.TokenBucket("month", core.Per(400, year/12)), core.SlidingLog("year", core.Per(n, year)))
	}},
}

// BenchmarkRedis measures decisions about random keys, which are all admitted or all denied. Each
// limiter has a server of its own, so that it does not pay for the expired keys of the others.
func BenchmarkRedis(b *testing.B) {
	keys := identities(scaled(100_000))
	loads := []struct {
		name    string
		allowed bool
		limit   int
	}{
		{"", true, 500},
		{", denied", false, 1},
	}
	callers := []struct {
		n    int
		name string
	}{{1, "1 caller"}, {4, "4 callers"}, {16, "16 callers"}, {64, "64 callers"}, {256, "256 callers"}}
	groups := make([][]candidate, len(callers))
	for _, load := range loads {
		for _, peer := range inRedis {
			rdb := startRedis(b)
			decide := peer.make(rdb, load.limit)
			if err := each(keys, expecting(true, decide)); err != nil {
				b.Fatal(err)
			}
			for i, c := range callers {
				groups[i] = append(groups[i], candidate{peer.name + load.name, func() sample {
					return hammer(b, rdb, c.n, keys, expecting(load.allowed, decide))
				}})
			}
		}
	}
	for i, found := range interleave(rounds, groups...) {
		table := "One decision in Redis, " + callers[i].name
		for _, load := range loads {
			for _, peer := range inRedis {
				if peer.name == again {
					own, base := found[again+load.name], found["weir, token bucket"+load.name]
					control(table, again+load.name, "x redis_rate", base, own, timeOf)
					control(table, again+load.name, "CPU / redis_rate", own, base, cpuOf)
					continue
				}
				own, base := found[peer.name+load.name], found[peer.base+load.name]
				row := peer.name + load.name
				rate, faster := 1e9/own.median(timeOf), base.ratio(own, timeOf)
				record("Decisions per second in Redis", row, callers[i].name, rate, "%s/s, %.2f x", figures.Thousands(rate), faster)
				recordDecisions(table, row, own, base)
			}
		}
	}
}

// BenchmarkRedisProcesses measures decisions of 64 processes with one caller each, as pods have: each has a client and a
// limiter of its own, so none shares a round trip.
func BenchmarkRedisProcesses(b *testing.B) {
	const processes = 64
	keys := identities(scaled(100_000))
	var group []candidate
	for _, peer := range inRedis[:4] { // one rule
		server := redistest.NewServer(b)
		var decide []func(key string) error
		for range processes {
			decide = append(decide, expecting(true, peer.make(server.Client(func(o *redis.Options) { o.PoolSize = 2 }), 500)))
		}
		if err := each(keys, decide[0]); err != nil {
			b.Fatal(err)
		}
		rdb := server.Client()
		group = append(group, candidate{peer.name, func() sample { return hammer(b, rdb, processes, keys, decide...) }})
	}
	const table = "One decision in Redis, 64 processes of 1 caller"
	found := interleave(rounds, group)[0]
	for _, peer := range inRedis[:4] {
		own, base := found[peer.name], found[peer.base]
		if peer.name == again {
			control(table, again, "CPU / redis_rate", own, found["weir, token bucket"], cpuOf)
			continue
		}
		recordDecisions(table, peer.name, own, base)
	}
}

// recordDecisions records a row of a table about decisions in Redis.
func recordDecisions(table, row string, own, base series) {
	rate, faster := 1e9/own.median(timeOf), base.ratio(own, timeOf)
	p50, cpu, cpus := own.median(p50Of), own.median(cpuOf), own.ratio(base, cpuOf)
	record(table, row, "decisions/s", rate, "%s", figures.Thousands(rate))
	record(table, row, "x redis_rate", faster, "%.2f", faster)
	record(table, row, "p50", p50, "%.2f ms", p50)
	record(table, row, "Redis CPU", cpu, "%.1f us", cpu)
	record(table, row, "CPU / redis_rate", cpus, "%.2f", cpus)
}

// BenchmarkRedisBytes measures the MEMORY USAGE of the key of one user, with the default prefix.
func BenchmarkRedisBytes(b *testing.B) {
	rdb := startRedis(b)
	for _, c := range []struct {
		name   string
		events int
		rule   core.Rule
	}{
		{"weir, token bucket", 1, core.TokenBucket("hourly", core.PerHour(10))},
		{"weir, sliding log, 500 events in it", 500, core.SlidingLog("log500", core.PerHour(500))},
		{"weir, sliding log, 1000 events in it", 1000, core.SlidingLog("log1000", core.PerHour(1000))},
	} {
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			b.Fatal(err)
		}
		decide := expecting(true, weir(newStore(rdb), c.rule))
		for range c.events {
			if err := decide("user:241531"); err != nil {
				b.Fatal(err)
			}
		}
		keys, err := rdb.Keys(ctx, "*").Result()
		if err != nil || len(keys) != 1 {
			b.Fatal(fmt.Errorf("keys %v: %w", keys, err))
		}
		bytes, err := rdb.MemoryUsage(ctx, keys[0], 0).Result()
		if err != nil {
			b.Fatal(err)
		}
		record("Memory of a key in Redis", c.name, "`MEMORY USAGE`", float64(bytes), "%d B", bytes)
	}
}

// expecting returns a function that reports an error if a decision is not as expected.
func expecting(allowed bool, decide decider) func(key string) error {
	return func(key string) error {
		got, err := decide(ctx, key)
		if err == nil && got != allowed {
			err = fmt.Errorf("%s: got allowed = %v, want %v", key, got, allowed)
		}
		return err
	}
}

// hammer calls decide from n goroutines with random keys, for the time of one slice; if there are several functions,
// they take turns. It measures the p50 of every eighth call only, because the clock takes time, too.
func hammer(b *testing.B, rdb *redis.Client, n int, keys []string, decides ...func(key string) error) sample {
	b.Helper()
	cpu, scripts, err := usage(rdb)
	if err != nil {
		b.Fatal(err)
	}
	var (
		calls atomic.Int64
		wg    sync.WaitGroup
	)
	took, errs := make([][]time.Duration, n), make([]error, n)
	over, start := elapse(), time.Now()
	for g := range n {
		wg.Go(func() {
			rng, decide := rand.New(rand.NewPCG(rand.Uint64(), 9)), decides[g%len(decides)]
			made := int64(0)
			for ; errs[g] == nil && (made == 0 || !over()); made++ {
				key := keys[rng.IntN(len(keys))]
				if made%8 > 0 {
					errs[g] = decide(key)
					continue
				}
				begin := time.Now()
				errs[g] = decide(key)
				took[g] = append(took[g], time.Since(begin))
			}
			calls.Add(made)
		})
	}
	wg.Wait()
	elapsed, made := time.Since(start), float64(calls.Load())
	cpuAfter, scriptsAfter, err := usage(rdb)
	if err = cmp.Or(append(errs, err)...); err != nil {
		b.Fatal(err)
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return sample{
		time:  float64(elapsed) / made,
		p50:   all[len(all)/2].Seconds() * 1000,
		cpu:   (cpuAfter - cpu) / made,
		calls: (scriptsAfter - scripts) / made,
	}
}

// each calls f with each key, from 64 goroutines. It returns one error.
func each(keys []string, f func(key string) error) error {
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for g := range errs {
		wg.Go(func() {
			for i := g; i < len(keys) && errs[g] == nil; i += len(errs) {
				errs[g] = f(keys[i])
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}
