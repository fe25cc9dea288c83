package observe

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
)

// shards is the number of copies of a counter. Goroutines on different processors choose one at
// random, so that they rarely write the same cache line.
const shards = 8

// sharded holds the copies of a set of counters.
type sharded[T any] struct {
	copies [shards]struct {
		value T
		_     [64]byte // so that no two copies share a cache line
	}
}

// here returns a copy for this goroutine.
func (s *sharded[T]) here() *T { return s.at(rand.Uint32()) }

// at returns the copy for a random number.
func (s *sharded[T]) at(random uint32) *T { return &s.copies[random%shards].value }

// all calls f for each copy.
func (s *sharded[T]) all(f func(*T)) {
	for i := range s.copies {
		f(&s.copies[i].value)
	}
}

// counts are numbers of decisions by their driver.Result.
type counts [driver.Failed + 1]atomic.Uint64

// addTo adds c to sum.
func (c *counts) addTo(sum *Counts) {
	for i := range c {
		sum[i] += c[i].Load()
	}
}
