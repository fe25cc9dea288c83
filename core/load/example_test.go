package load_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/load"
	"github.com/weir-go/weir/core/memstore"
)

// The service can hold four concurrent requests. While it has none, the limit of a client is three
// times as large. The limit falls a little later than the signal, so that it does not flap.
func ExampleInFlight() {
	busy := load.NewInFlight(4)
	rule := core.FixedWindow("api", core.PerDay(10)).Elastic(busy.Spare, 3)
	limiter := core.Must(core.New(memstore.New(), rule))

	for range 5 {
		d, _ := limiter.Peek(context.Background(), "client")
		fmt.Printf("%d in flight, %.2f to spare: %d left\n", busy.Count(), busy.Spare(), d.State(0).Remaining)
		busy.Begin() // a gate does this, and calls End when the handler has returned
	}
	// Output:
	// 0 in flight, 1.00 to spare: 30 left
	// 1 in flight, 0.75 to spare: 26 left
	// 2 in flight, 0.50 to spare: 20 left
	// 3 in flight, 0.25 to spare: 16 left
	// 4 in flight, 0.00 to spare: 10 left
}

// Any function is a signal, here the free connections of a pool. Smooth averages it, because it
// jumps.
func ExampleSmooth() {
	open, most := 3, 10
	pool := func() float64 { return 1 - float64(open)/float64(most) }

	spare := load.Smooth(pool, 10*time.Second)
	fmt.Println(spare())
	open = 10 // for an instant: the average does not change
	fmt.Println(spare())
	// Output:
	// 0.7
	// 0.7
}

// Min follows the scarcest resource.
func ExampleMin() {
	busy := load.NewInFlight(100)
	busy.Begin()
	quota := func() float64 { return 0.25 } // the free part of a quota of another service
	fmt.Println(busy.Spare(), load.Min(busy.Spare, quota)())
	// Output:
	// 0.99 0.25
}
