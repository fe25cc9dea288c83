package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// startRedis starts a server for the benchmark, without persistence.
func startRedis(b *testing.B) *redis.Client {
	b.Helper()
	return redistest.NewServer(b).Client(func(o *redis.Options) { o.PoolSize = 64 })
}

// cpu returns the CPU time that the server has used.
func cpu(b *testing.B, rdb *redis.Client) time.Duration {
	b.Helper()
	info, err := rdb.Info(ctx, "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var seconds float64
	for _, line := range strings.Split(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			f, _ := strconv.ParseFloat(value, 64)
			seconds += f
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

func weir(rdb *redis.Client, opts []redisstore.Option, rules ...core.Rule) func(string) error {
	opts = append(opts, redisstore.Timeout(10*time.Second))
	l := core.Must(core.New(redisstore.New(rdb, opts...), rules...))
	return func(key string) error {
		_, err := l.Allow(ctx, key)
		return err
	}
}

var inRedis = []struct {
	name string
	make func(rdb *redis.Client) func(key string) error
}{
	{"floor", func(rdb *redis.Client) func(string) error {
		script := redis.NewScript("return 1")
		return func(key string) error { return script.Run(ctx, rdb, []string{key}).Err() }
	}},
	{"weir", func(rdb *redis.Client) func(string) error {
		return weir(rdb, nil, core.TokenBucket("r", core.PerHour(1000)))
	}},
	{"weir-pipelined", func(rdb *redis.Client) func(string) error {
		return weir(rdb, []redisstore.Option{redisstore.Pipelined()}, core.TokenBucket("r", core.PerHour(1000)))
	}},
	{"weir-two-rules", func(rdb *redis.Client) func(string) error {
		return weir(rdb, nil, core.TokenBucket("s", core.PerSecond(10)), core.TokenBucket("h", core.PerHour(500)))
	}},
	{"weir-sliding-log", func(rdb *redis.Client) func(string) error {
		return weir(rdb, nil, core.SlidingLog("r", core.PerHour(1000)))
	}},
	{"redis_rate", func(rdb *redis.Client) func(string) error {
		l, limit := redis_rate.NewLimiter(rdb), redis_rate.PerHour(1000)
		return func(key string) error {
			_, err := l.Allow(ctx, key, limit)
			return err
		}
	}},
	{"ulule", func(rdb *redis.Client) func(string) error {
		s, err := ululeredis.NewStore(rdb)
		if err != nil {
			panic(err)
		}
		l := ulule.New(s, ulule.Rate{Period: time.Hour, Limit: 1000})
		return func(key string) error {
			_, err := l.Get(ctx, key)
			return err
		}
	}},
}

// BenchmarkRedis measures 64 goroutines over 100 000 keys.
func BenchmarkRedis(b *testing.B) {
	keys := identities(100_000)
	for _, peer := range inRedis {
		b.Run(peer.name, func(b *testing.B) {
			rdb := startRedis(b)
			decide := peer.make(rdb)
			if err := decide("warm"); err != nil {
				b.Fatal(err)
			}
			before := cpu(b, rdb)
			b.ReportAllocs()
			b.ResetTimer()
			took := hammer(b, 64, func(rng *rand.Rand) error { return decide(keys[rng.IntN(len(keys))]) })
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64((cpu(b, rdb)-before).Nanoseconds())/float64(b.N)/1000, "redis-us/op")
		})
	}
}

// hammer makes b.N calls from n goroutines and returns their durations in ascending
// order.
func hammer(b *testing.B, n int, call func(*rand.Rand) error) []time.Duration {
	b.Helper()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	for g := range n {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			for {
				i := next.Add(1) - 1
				if i >= int64(b.N) {
					return
				}
				start := time.Now()
				if err := call(rng); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

// BenchmarkRedisBytes reports the MEMORY USAGE of the key of one user, with the default
// prefix.
func BenchmarkRedisBytes(b *testing.B) {
	rdb := startRedis(b)
	for _, c := range []struct {
		name   string
		events int
		rule   core.Rule
	}{
		{"token-bucket", 1, core.TokenBucket("hourly", core.PerHour(10))},
		{"sliding-log-500", 500, core.SlidingLog("log500", core.PerHour(500))},
		{"sliding-log-1000", 1000, core.SlidingLog("log1000", core.PerHour(1000))},
	} {
		b.Run(c.name, func(b *testing.B) {
			if err := rdb.FlushAll(ctx).Err(); err != nil {
				b.Fatal(err)
			}
			decide := weir(rdb, nil, c.rule)
			for range c.events {
				if err := decide("user:241531"); err != nil {
					b.Fatal(err)
				}
			}
			keys, err := rdb.Keys(ctx, "*").Result()
			if err != nil || len(keys) != 1 {
				b.Fatal(fmt.Errorf("keys %v: %w", keys, err))
			}
			for b.Loop() {
				n, err := rdb.MemoryUsage(ctx, keys[0], 0).Result()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(n), "B/user")
			}
		})
	}
}
