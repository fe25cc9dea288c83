package benchmarks

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/redisstore"
)

// A hotPeer is a limiter that decides about few keys.
type hotPeer struct {
	name string
	make func(b *testing.B, rdb *redis.Client, limit core.Limit) func(key string) (allowed bool, err error)
}

func weirHot(over func(b *testing.B, s core.Store) core.Store) func(*testing.B, *redis.Client, core.Limit) func(string) (bool, error) {
	return func(b *testing.B, rdb *redis.Client, limit core.Limit) func(string) (bool, error) {
		s := over(b, redisstore.New(rdb, redisstore.Timeout(10*time.Second)))
		l := core.Must(core.New(s, core.TokenBucket("r", limit)))
		return func(key string) (bool, error) {
			d, err := l.Allow(ctx, key)
			return d.Allowed, err
		}
	}
}

var hotPeers = []hotPeer{
	{"weir", weirHot(func(_ *testing.B, s core.Store) core.Store { return s })},
	{"weir-denycache", weirHot(func(_ *testing.B, s core.Store) core.Store { return denycache.New(s) })},
	{"weir-lease", weirHot(func(b *testing.B, s core.Store) core.Store {
		leased := lease.New(s)
		b.Cleanup(func() { _ = leased.Close() })
		return leased
	})},
	{"redis_rate", func(_ *testing.B, rdb *redis.Client, limit core.Limit) func(string) (bool, error) {
		l, r := redis_rate.NewLimiter(rdb), redis_rate.Limit{Rate: limit.Events, Burst: limit.Events, Period: limit.Per}
		return func(key string) (bool, error) {
			res, err := l.Allow(ctx, key, r)
			return err == nil && res.Allowed > 0, err
		}
	}},
}

// BenchmarkHotKeys measures 64 goroutines on few keys: with large limits, and with an
// exhausted limit.
func BenchmarkHotKeys(b *testing.B) {
	for _, load := range []struct {
		name  string
		keys  int
		limit core.Limit
	}{
		{"1-of-100000-a-second", 1, core.PerSecond(100_000)},
		{"16-of-100000-a-second", 16, core.PerSecond(100_000)},
		{"denied", 1, core.PerHour(10)},
	} {
		keys := identities(load.keys)
		for _, peer := range hotPeers {
			b.Run(load.name+"/"+peer.name, func(b *testing.B) {
				rdb := startRedis(b)
				decide := peer.make(b, rdb, load.limit)
				for range 100 {
					if _, err := decide(keys[0]); err != nil {
						b.Fatal(err)
					}
				}
				var next, admitted atomic.Int64
				before := commands(b, rdb)
				b.SetParallelism(32)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					i, count := int(next.Add(1)), int64(0)
					for pb.Next() {
						allowed, err := decide(keys[i%len(keys)])
						if err != nil {
							b.Error(err)
							return
						}
						if i++; allowed {
							count++
						}
					}
					admitted.Add(count)
				})
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
				b.ReportMetric(float64(admitted.Load())/b.Elapsed().Seconds(), "admitted/s")
				b.ReportMetric(100*float64(commands(b, rdb)-before)/float64(b.N), "calls/100")
			})
		}
	}
}

// commands returns the number of scripts that the server has run or loaded.
func commands(b *testing.B, rdb *redis.Client) (n int) {
	b.Helper()
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range strings.Split(info, "\r\n") {
		for _, name := range []string{"evalsha", "eval", "script|load"} {
			if rest, ok := strings.CutPrefix(line, fmt.Sprintf("cmdstat_%s:calls=", name)); ok {
				calls, _, _ := strings.Cut(rest, ",")
				c, err := strconv.Atoi(calls)
				if err != nil {
					b.Fatal(err)
				}
				n += c
			}
		}
	}
	return n
}
