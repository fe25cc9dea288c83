package benchmarks

import (
	"context"
	"flag"
	"fmt"
	"strings"
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

// A kind is a limiter that BenchmarkNetwork measures, and the cost of its events. The limits admit all
// events, and bound a log to the events of a second.
type kind struct {
	name  string
	cost  int
	rules []core.Rule
}

var (
	networkLimit = core.PerSecond(1000) // of each key

	bucketKind = kind{"token bucket", 1, []core.Rule{core.TokenBucket("bucket", networkLimit)}}
	windowKind = kind{"sliding window, cost 2", 2, []core.Rule{core.SlidingWindow("window", networkLimit)}}
	kinds      = []kind{bucketKind, windowKind,
		{"sliding log, cost 2", 2, []core.Rule{core.SlidingLog("log", networkLimit)}},
		{"four rules", 1, []core.Rule{
			core.TokenBucket("bucket", networkLimit), core.FixedWindow("fixed", networkLimit),
			core.SlidingLog("log", networkLimit), core.SlidingWindow("window", networkLimit),
		}},
	}
)

// A network is a server behind a proxy that delays replies.
type network struct {
	server *redistest.Server
	proxy  *redistest.Proxy
	keys   []string
}

// client returns a new client with a pool of its own, and a function that closes it. Without a delay
// the client is connected to the server directly. A pool of 0 connections is the default of go-redis.
func (n *network) client(delay time.Duration, pool int) *redis.Client {
	addr := n.server.Addr
	if delay > 0 {
		n.proxy.Delay(delay)
		addr = n.proxy.Addr
	}
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: pool})
}

// BenchmarkNetwork measures decisions over a network that delays each reply. For one cell, call
//
//	go test . -run '^$' -bench 'Network/closed/^5ms/^400/log' [-quick]
func BenchmarkNetwork(b *testing.B) {
	server := redistest.NewServer(b)
	n := &network{server, redistest.NewProxy(b, server.Addr), identities(10_000)}
	defer preciseTimers(b)()
	b.Run("closed", func(b *testing.B) {
		delays := []time.Duration{0, 500 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond}
		callers := []int{1, 64, 400, 2000}
		switch {
		case short():
			delays, callers = delays[1:3], callers[1:2]
		case *quick:
			delays, callers = delays[1:], callers[1:3]
		}
		n.closedLoops(b, "Decisions over a network, ", delays, callers, 100)
	})
	b.Run("pool", func(b *testing.B) {
		if *quick {
			b.Skip("not with -quick")
		}
		delays, callers := []time.Duration{500 * time.Microsecond, 5 * time.Millisecond}, []int{64, 400}
		if short() {
			delays, callers = delays[:1], callers[:1]
		}
		n.closedLoops(b, "Decisions over a network with the default pool, ", delays, callers, 0)
	})
}

func (n *network) closedLoops(b *testing.B, table string, delays []time.Duration, callers []int, pool int) {
	for _, delay := range delays {
		b.Run(delay.String(), func(b *testing.B) {
			for _, c := range callers {
				b.Run(fmt.Sprint(c), func(b *testing.B) {
					for _, k := range kinds {
						b.Run(k.name, func(b *testing.B) { n.closedLoop(b, table+delayName(delay), delay, c, pool, k) })
					}
				})
			}
		})
	}
}

// delayName returns the name of a delay, such as "0.5 ms".
func delayName(d time.Duration) string { return fmt.Sprintf("%v ms", d.Seconds()*1000) }

// closedLoop measures one cell: callers that ask again as soon as they have a decision.
func (n *network) closedLoop(b *testing.B, table string, delay time.Duration, callers, pool int, k kind) {
	var candidates []candidate
	add := func(name string, ask asker) {
		first := true
		candidates = append(candidates, candidate{name, func() sample {
			length := slice
			if first { // the Store learns the round trip time and tests the server
				length, first = warmUp, false
			}
			return n.hammer(b, []load{{callers, ask}}, length)[0]
		}})
	}
	for _, s := range []struct {
		name string
		opts []redisstore.Option
	}{{"weir", nil}, {"Unbatched", []redisstore.Option{redisstore.Unbatched()}}} {
		rdb := n.client(delay, pool)
		defer func() { _ = rdb.Close() }()
		l := core.Must(core.New(redisstore.New(rdb, append(s.opts, redisstore.Prefix(s.name+":"))...), k.rules...))
		add(s.name, reserve(l, k.cost))
		if k.name == bucketKind.name && !*quick {
			add(s.name+", Allow", allow(l))
		}
	}
	if k.name == bucketKind.name && !*quick {
		rdb := n.client(delay, pool)
		defer func() { _ = rdb.Close() }()
		l := redis_rate.NewLimiter(rdb)
		add("redis_rate", func(ctx context.Context, key string) (bool, error) {
			r, err := l.Allow(ctx, key, redis_rate.PerSecond(networkLimit.Events))
			return err == nil && r.Allowed > 0, err
		})
	}
	turns := 6
	if *quick {
		turns = 3
	}
	found := interleave(turns, candidates)[0]

	own, base := found["weir"], found["Unbatched"]
	row := fmt.Sprintf("%s, %d callers", k.name, callers)
	if callers == 1 {
		row = strings.TrimSuffix(row, "s")
	}
	rate, faster := own.median(rateOf), own.ratio(base, rateOf)
	record(table, row, "decisions/s", rate, "%s", figures.Thousands(rate))
	record(table, row, "x Unbatched", faster, "%.2f", faster)
	record(table, row, "failed", own.median(failedOf), "%.1f %%", 100*own.median(failedOf))
	record(table, row, "failed, Unbatched", base.median(failedOf), "%.1f %%", 100*base.median(failedOf))
	record(table, row, "p99", own.median(p99Of), "%.1f ms", own.median(p99Of))
	record(table, row, "p99, Unbatched", base.median(p99Of), "%.1f ms", base.median(p99Of))
	if rated, ok := found["redis_rate"]; ok {
		own, base := found["weir, Allow"], found["Unbatched, Allow"]
		allowed := own.ratio(base, rateOf)
		record(table, row, "Allow", own.median(rateOf), "%s/s, %.2f x", figures.Thousands(own.median(rateOf)), allowed)
		record(table, row, "x redis_rate", own.ratio(rated, rateOf), "%.2f", own.ratio(rated, rateOf))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate, "decisions/s")
	b.ReportMetric(faster, "x")
	b.ReportMetric(100*own.median(failedOf), "%failed")
	b.ReportMetric(own.median(p99Of), "p99-ms")
}

// An asker decides about one event.
type asker func(ctx context.Context, key string) (allowed bool, err error)

func reserve(l *core.Limiter, cost int) asker {
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Reserve(ctx, key, cost)
		return err == nil && r.Decision().Allowed, err
	}
}

func allow(l *core.Limiter) asker {
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}
}
