package benchmarks

import (
	"testing"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/benchmarks/figures"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/lease"
)

// hotPeers has the function of each peer that makes a new limiter for few keys. The rule has the name
// of the peer, so that the peers share no key.
var hotPeers = []struct {
	name string
	make func(b *testing.B, rdb *redis.Client, limit core.Limit) decider
}{
	{"redis_rate", func(_ *testing.B, rdb *redis.Client, limit core.Limit) decider {
		return redisRate(rdb, "", redis_rate.Limit{Rate: limit.Events, Burst: limit.Events, Period: limit.Per})
	}},
	{"weir, token bucket", func(_ *testing.B, rdb *redis.Client, limit core.Limit) decider {
		return weir(newStore(rdb), core.TokenBucket("direct", limit))
	}},
	{again, func(_ *testing.B, rdb *redis.Client, limit core.Limit) decider {
		return weir(newStore(rdb), core.TokenBucket("again", limit))
	}},
	{"weir, denycache", func(_ *testing.B, rdb *redis.Client, limit core.Limit) decider {
		return weir(denycache.New(newStore(rdb)), core.TokenBucket("denycache", limit))
	}},
	{"weir, lease over denycache", func(b *testing.B, rdb *redis.Client, limit core.Limit) decider {
		s := lease.New(denycache.New(newStore(rdb)))
		b.Cleanup(func() { _ = s.Close() })
		return weir(s, core.TokenBucket("lease", limit))
	}},
}

// BenchmarkHotKeys measures 64 goroutines on few keys: with large limits, and with an exhausted limit.
func BenchmarkHotKeys(b *testing.B) {
	rdb := startRedis(b)
	for _, load := range []struct {
		name  string
		keys  int
		limit core.Limit
	}{
		{"one key of 100 000 a second", 1, core.PerSecond(100_000)},
		{"16 keys of 100 000 a second", 16, core.PerSecond(100_000)},
		{"one key, denied", 1, core.PerHour(10)},
	} {
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			b.Fatal(err)
		}
		keys := identities(load.keys)
		var candidates []candidate
		for _, peer := range hotPeers {
			decide := peer.make(b, rdb, load.limit)
			call := func(key string) error { _, err := decide(ctx, key); return err }
			if load.limit.Events == 10 {
				for range 10 {
					if err := call(keys[0]); err != nil {
						b.Fatal(err)
					}
				}
				call = expecting(false, decide)
			}
			candidates = append(candidates, candidate{peer.name, func() sample { return hammer(b, rdb, 64, keys, call) }})
		}
		found := interleave(rounds, candidates)[0]
		control("Hot keys in Redis", again, load.name, found["weir, token bucket"], found[again], timeOf)
		for _, peer := range hotPeers {
			if peer.name == again {
				continue
			}
			own := found[peer.name]
			rate, faster, calls := 1e9/own.median(timeOf), found["redis_rate"].ratio(own, timeOf), 100*own.median(callsOf)
			record("Hot keys in Redis", peer.name, load.name, rate, "%s/s, %.3g x, %.3g calls", figures.Thousands(rate), faster, calls)
		}
	}
}
