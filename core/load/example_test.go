package load_test

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/core/load"
)

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
	quota := func() float64 { return 0.25 } // the free part of a quota of another service
	pool := func() float64 { return 0.7 }   // the free part of a pool of connections
	fmt.Println(load.Min(quota, pool)())
	// Output:
	// 0.25
}
