package memstore_test

import (
	"context"
	"fmt"

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
