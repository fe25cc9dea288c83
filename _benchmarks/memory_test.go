package benchmarks

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"strconv"
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

// The limits, which no benchmark reaches. The limit of many keys refills slowly, so
// that no key is full again before the benchmark ends.
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
		words := make([]uint64, 1<<21)
		return func(key string) {
			i := maphash.String(seed, key) % (1 << 20) * 2
			words[i], words[i+1] = i, uint64(time.Since(start))
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

func BenchmarkMemoryHotKey(b *testing.B) {
	for _, peer := range inMemory {
		b.Run(peer.name, func(b *testing.B) {
			decide := peer.make(b, hotKey, hotBurst)
			decide("user:1")
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					decide("user:1")
				}
			})
		})
	}
}

func BenchmarkMemoryMillionKeys(b *testing.B) {
	keys := identities(1_000_000)
	for _, peer := range inMemory {
		b.Run(peer.name, func(b *testing.B) {
			decide := peer.make(b, manyKeys, burst)
			for _, k := range keys {
				decide(k)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
				for pb.Next() {
					decide(keys[rng.IntN(len(keys))])
				}
			})
		})
	}
}

// BenchmarkMemoryHeap reports the heap memory of a key without the bytes of the key.
func BenchmarkMemoryHeap(b *testing.B) {
	keys := identities(1_000_000)
	for _, peer := range inMemory {
		if peer.name == "floor" {
			continue
		}
		b.Run(peer.name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				decide := peer.make(b, manyKeys, burst)
				for _, k := range keys {
					decide(k)
				}
				b.ReportMetric(float64(heap()-before)/float64(len(keys)), "B/key")
				runtime.KeepAlive(decide)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
