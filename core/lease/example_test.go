package lease_test

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/storetest"
)

// A limit that all clients share is decided in this process, with few calls of the store behind,
// which is usually that of package resilient.
func ExampleStore() {
	behind := new(storetest.Fake) // counts its calls
	store := lease.New(behind)
	defer store.Close()
	system := core.Must(core.New(store, core.TokenBucket("system", core.PerHour(1_000_000))))

	admitted := 0
	for range 10_000 {
		if d, err := system.Allow(context.Background(), "all"); err == nil && d.Allowed {
			admitted++
		}
	}
	fmt.Println(admitted, "admitted, fewer than 200 calls:", behind.Calls() < 200)
	// Output: 10000 admitted, fewer than 200 calls: true
}

// Hits are the charges that the Store has decided without a call. The tokens that it holds are
// missing in the store behind until they are spent or expire.
func ExampleStats() {
	store := lease.New(new(storetest.Fake))
	defer store.Close()
	system := core.Must(core.New(store, core.TokenBucket("system", core.PerHour(1_000_000))))
	for range 10_000 {
		_, _ = system.Allow(context.Background(), "all")
	}

	stats := store.Stats()
	fmt.Println("more than 98 % without a call:", stats.Hits > 9_800)
	fmt.Println("some tokens are held:", stats.Held > 0)
	// Output:
	// more than 98 % without a call: true
	// some tokens are held: true
}
