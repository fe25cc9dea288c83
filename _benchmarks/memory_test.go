package benchmarks

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/labstack/echo/v4/middleware"
	sethvargo "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// The limits, which no benchmark reaches, except that of a denied key. The limit of many keys refills
// slowly, so that no key is full again before the benchmark ends.
const (
	manyKeys = 1000 // an hour
	hotKey   = 1_000_000
	burst    = 1 << 24
	hotBurst = 1 << 30
)

var ctx = context.Background()

// inMemory has the function of each peer that makes a new limiter and returns its
// decision. The limiter is a token bucket if the peer has one.
var inMemory = []struct {
	name string
	make func(b *testing.B, perHour, burst int) func(key string)
}{
	{"floor", func(*testing.B, int, int) func(string) {
		// The minimum for any limiter: hash the key and read the clock.
		seed, start := maphash.MakeSeed(), time.Now()
		return func(key string) {
			hash, now := maphash.String(seed, key), time.Since(start)
			if hash == 0 && now == 0 {
				panic("unreachable")
			}
		}
	}},
	{"weir", func(_ *testing.B, perHour, burst int) func(string) {
		l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerHour(perHour).WithBurst(burst))))
		return func(key string) { _, _ = l.Allow(ctx, key) }
	}},
	{"sethvargo", func(b *testing.B, perHour, burst int) func(string) {
		s, err := sethvargo.New(&sethvargo.Config{Tokens: uint64(burst), Interval: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close(ctx) })
		return func(key string) { _, _, _, _, _ = s.Take(ctx, key) }
	}},
	{"throttled", func(b *testing.B, perHour, burst int) func(string) {
		s, err := throttledmem.NewCtx(0)
		if err != nil {
			b.Fatal(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerHour(perHour), MaxBurst: burst - 1})
		if err != nil {
			b.Fatal(err)
		}
		return func(key string) { _, _, _ = l.RateLimitCtx(ctx, key, 1) }
	}},
	{"x/time/rate", func(_ *testing.B, perHour, burst int) func(string) {
		// The usual code around this package: a map of limiters, and a mutex.
		var mu sync.Mutex
		limiters := make(map[string]*rate.Limiter)
		return func(key string) {
			mu.Lock()
			l, ok := limiters[key]
			if !ok {
				l = rate.NewLimiter(rate.Limit(perHour)/3600, burst)
				limiters[key] = l
			}
			mu.Unlock()
			l.Allow()
		}
	}},
	{"echo", func(_ *testing.B, perHour, burst int) func(string) {
		s := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: rate.Limit(perHour) / 3600, Burst: burst, ExpiresIn: time.Hour,
		})
		return func(key string) { _, _ = s.Allow(key) }
	}},
	{"ulule", func(_ *testing.B, perHour, burst int) func(string) {
		l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Hour, Limit: int64(burst)})
		return func(key string) { _, _ = l.Get(ctx, key) }
	}},
	{"tollbooth", func(_ *testing.B, perHour, burst int) func(string) {
		l := tollbooth.NewLimiter(float64(perHour)/3600, nil).SetBurst(burst)
		return func(key string) { l.LimitReached(key) }
	}},
}

// identities returns n keys like those of a web application.
func identities(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(1_000_000+i)
	}
	return keys
}

const memoryTable = "One decision in memory"

// compareInMemory measures decisions of each limiter on all processors. It records them in a column,
// with their speed relative to that of sethvargo. The function that load returns makes n decisions, on several
// goroutines at the same time.
func compareInMemory(b *testing.B, column string, perHour, burst int, load func(decide func(key string)) func(n int)) map[string]series {
	var candidates []candidate
	add := func(name string, decide func(key string)) {
		run := load(decide)
		candidates = append(candidates, candidate{name, func() sample { return parallel(run) }})
	}
	for _, peer := range inMemory {
		add(peer.name, peer.make(b, perHour, burst))
		if peer.name == "weir" {
			add(again, peer.make(b, perHour, burst))
		}
	}
	found := interleave(rounds, candidates)[0]
	control(memoryTable, again, column, found["weir"], found[again], timeOf)
	for _, peer := range inMemory {
		own := found[peer.name]
		ns, faster := own.median(timeOf), found["sethvargo"].ratio(own, timeOf)
		record(memoryTable, peer.name, column, ns, "%.0f ns, %.2f x", ns, faster)
	}
	return found
}

// parallel measures the calls that each processor makes during a slice, in turns of 256 calls.
func parallel(run func(n int)) sample {
	const turn = 256
	var (
		wg    sync.WaitGroup
		calls atomic.Int64
	)
	over, start := elapse(), time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			made := int64(0)
			for ; made == 0 || !over(); made += turn {
				run(turn)
			}
			calls.Add(made)
		})
	}
	wg.Wait()
	return sample{time: float64(time.Since(start)) / float64(calls.Load())}
}

// BenchmarkMemoryHotKey measures a key that is always admitted, and one that is always denied.
func BenchmarkMemoryHotKey(b *testing.B) {
	hot := func(decide func(string)) func(int) {
		for range 2 * manyKeys {
			decide("user:1")
		}
		return func(n int) {
			for range n {
				decide("user:1")
			}
		}
	}
	compareInMemory(b, "one hot key, admitted", hotKey, hotBurst, hot)
	compareInMemory(b, "one hot key, denied", manyKeys, manyKeys, hot)
}

func BenchmarkMemoryMillionKeys(b *testing.B) {
	keys := identities(scaled(1_000_000))
	found := compareInMemory(b, "1M keys, random", manyKeys, burst, func(decide func(string)) func(int) {
		for _, k := range keys {
			decide(k)
		}
		return func(n int) {
			for range n {
				decide(keys[rand.IntN(len(keys))])
			}
		}
	})
	for _, peer := range inMemory {
		floors := found[peer.name].ratio(found["floor"], timeOf)
		record(memoryTable, peer.name, "the same / floor", floors, "%.2f", floors)
	}
}

// BenchmarkMemoryHeap measures the heap memory of a key without the bytes of the key.
func BenchmarkMemoryHeap(b *testing.B) {
	keys := identities(scaled(1_000_000))
	for _, peer := range inMemory[1:] { // the floor keeps nothing
		before := heap()
		decide := peer.make(b, manyKeys, burst)
		for _, k := range keys {
			decide(k)
		}
		bytes := float64(heap()-before) / float64(len(keys))
		record(memoryTable, peer.name, "heap of a key without its own bytes, 1M keys", bytes, "%.0f B", bytes)
		runtime.KeepAlive(decide)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
