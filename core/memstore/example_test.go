package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// All limiters of a program share one Store.
func ExampleStore() {
	store := memstore.New()
	api := core.Must(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))
	login := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))

	ctx := context.Background()
	for _, l := range []*core.Limiter{api, login} {
		d, err := l.Allow(ctx, "203.0.113.7")
		fmt.Println(d, err)
	}
	// Output:
	// allowed: "api" 99 of 100 left <nil>
	// allowed: "login" 4 of 5 left <nil>
}

// A flood of new keys fills a small Store. The key that has used up its limit stays denied.
func ExampleMaxMemory() {
	store := memstore.New(memstore.MaxMemory(500_000))
	api := core.Must(core.New(store, core.TokenBucket("api", core.PerHour(10))))

	ctx := context.Background()
	_, _ = api.AllowN(ctx, "mallory", 10)
	for i := range 50_000 {
		_, _ = api.Allow(ctx, fmt.Sprint("flood ", i))
	}
	d, err := api.Allow(ctx, "mallory")
	fmt.Println(d.Allowed, err)
	// Output: false <nil>
}

// If keys are evicted, or overflow, MaxMemory is too small for the number of clients.
func ExampleStats() {
	store := memstore.New()
	api := core.Must(core.New(store, core.TokenBucket("api", core.PerHour(10))))
	for _, key := range []string{"alice", "bob", "alice"} {
		_, _ = api.Allow(context.Background(), key)
	}

	stats := store.Stats()
	fmt.Println(stats.States, "states")
	if stats.Evicted+stats.Overflowed > 0 {
		fmt.Println("the store is too small")
	}
	// Output: 2 states
}

// A simulation decides at times of its own.
func ExampleClock() {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	store := memstore.New(memstore.Clock(func() time.Time { return now }))
	limiter := core.Must(core.New(store, core.FixedWindow("api", core.PerMinute(2))))
	for range 3 {
		d, _ := limiter.Allow(context.Background(), "user:ann")
		fmt.Println(now.Format("15:04:05"), d)
		now = now.Add(29 * time.Second)
	}
	// Output:
	// 12:00:00 allowed: "api" 1 of 2 left
	// 12:00:29 allowed: "api" 0 of 2 left
	// 12:00:58 denied, retry after 2s: "api" 0 of 2 left
}
