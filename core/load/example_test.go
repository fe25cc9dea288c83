package load_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/load"
	"github.com/weir-go/weir/core/memstore"
)

// The service holds four requests at the same time. While it has none, a client may
// send up to three times as many as it was promised. A limit falls a little behind
// the signal, so that it does not flap.
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

// Any function will do for a resource of your own, here the connections of a pool.
// It jumps, so it is smoothed.
func ExampleSmooth() {
	open, most := 3, 10
	pool := func() float64 { return 1 - float64(open)/float64(most) }

	spare := load.Smooth(pool, 10*time.Second)
	fmt.Println(spare())
	open = 10 // for an instant, which does not show
	fmt.Println(spare())
	// Output:
	// 0.7
	// 0.7
}

// The scarcest resource counts.
func ExampleMin() {
	busy := load.NewInFlight(100)
	busy.Begin()
	quota := func() float64 { return 0.25 } // what is left of a contract with somebody else
	fmt.Println(busy.Spare(), load.Min(busy.Spare, quota)())
	// Output:
	// 0.99 0.25
}
