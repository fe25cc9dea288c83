package denycache_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/storetest"
)

// A client that has used up its limit causes no more calls of the store behind, which is usually a
// redisstore.
func ExampleStore() {
	behind := new(storetest.Fake) // counts its calls
	store := denycache.New(behind, denycache.MaxAge(time.Minute))
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(3))))

	admitted := 0
	for range 1000 {
		if d, err := api.Allow(context.Background(), "alice"); err == nil && d.Allowed {
			admitted++
		}
	}
	fmt.Println(admitted, "admitted,", behind.Calls(), "calls")
	// Output: 3 admitted, 3 calls
}

// Hits are the calls that the cache has saved.
func ExampleStats() {
	store := denycache.New(new(storetest.Fake), denycache.MaxAge(time.Minute))
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(3))))
	for range 10 {
		_, _ = api.Allow(context.Background(), "alice")
	}

	stats := store.Stats()
	fmt.Println(stats.Hits, "hits,", stats.Misses, "misses")
	// Output: 7 hits, 3 misses
}
