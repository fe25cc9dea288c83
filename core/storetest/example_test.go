package storetest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
)

// A test of an application during an outage.
func ExampleFake() {
	store := new(storetest.Fake)
	limiter := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))

	ctx := context.Background()
	_, err := limiter.Allow(ctx, "alice")
	fmt.Println(err)
	store.Set(storetest.Fail(core.ErrUnavailable))
	_, err = limiter.Allow(ctx, "alice")
	fmt.Println(err)
	store.Set() // the end of the outage
	_, err = limiter.Allow(ctx, "alice")
	fmt.Println(err, store.Calls(), "calls")
	// Output:
	// <nil>
	// weir: store unavailable
	// <nil> 3 calls
}

// A Hook that fails for one key only.
func ExampleHook() {
	var failing storetest.Hook = func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if charges[0].Key == "mallory" {
			return core.ErrUnavailable
		}
		return next(ctx, charges)
	}
	store := new(storetest.Fake).Set(failing)
	limiter := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))
	for _, key := range []string{"alice", "mallory"} {
		d, err := limiter.Allow(context.Background(), key)
		fmt.Println(key, d.Allowed, err)
	}
	// Output:
	// alice true <nil>
	// mallory false weir: store unavailable
}

// The time of a Fake passes when the test says so.
func ExampleClock() {
	var clock storetest.Clock
	store := &storetest.Fake{Clock: clock.Micros}
	limiter := core.Must(core.New(store, core.SlidingLog("login", core.PerMinute(1))))

	ctx := context.Background()
	for range 2 {
		d, _ := limiter.Allow(ctx, "alice")
		fmt.Println(d.Allowed, d.RetryAfter)
	}
	clock.Advance(time.Minute)
	d, _ := limiter.Allow(ctx, "alice")
	fmt.Println(d.Allowed)
	// Output:
	// true 0s
	// false 1m0s
	// true
}
