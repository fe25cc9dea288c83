package observe

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds of the buckets of [Calls].
var Bounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// calls are the times of the calls of the Store behind.
type calls struct {
	sum     atomic.Int64 // of the times, in nanoseconds
	buckets [len(Bounds) + 1]atomic.Uint64
}

func (c *calls) add(took time.Duration) {
	i := 0
	for i < len(Bounds) && took > Bounds[i] {
		i++
	}
	c.buckets[i].Add(1)
	c.sum.Add(int64(took))
}

// Calls are the times of the calls of the Store behind, if it uses a network: if its [driver.Description]
// has a Deadline. For other stores they are zero, because to read the clock would take longer than the call. A call that a
// cache has answered counts, too, and so do calls of Adjust, such as the renewals of a core.InFlight.
type Calls struct {
	Count   uint64        // calls whose time was measured
	Sum     time.Duration // of the times
	Buckets []uint64      // the number of calls in each bucket of Bounds, and last that of longer ones
}

func (s *Store) sumCalls() Calls {
	sum := Calls{Buckets: make([]uint64, len(Bounds)+1)}
	s.calls.all(func(c *calls) {
		sum.Sum += time.Duration(c.sum.Load())
		for i := range c.buckets {
			n := c.buckets[i].Load()
			sum.Buckets[i] += n
			sum.Count += n
		}
	})
	return sum
}
