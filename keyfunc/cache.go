package keyfunc

import (
	"sync"
	"time"
)

// cache holds values for a time. It evicts the oldest value. Values expire soon, so an LRU order
// would hardly raise the hit rate, and every read would need the exclusive lock. A nil cache is
// empty and stays empty.
type cache[K comparable, V any] struct {
	max int
	age time.Duration // the longest life of a value

	mu     sync.RWMutex
	values map[K]cached[V]
	ring   []K // the keys of values, up to max
	oldest int // the index in a full ring that is used next
}

type cached[V any] struct {
	value V
	until time.Time
}

func newCache[K comparable, V any](max int, age time.Duration) *cache[K, V] {
	return &cache[K, V]{max: max, age: age, values: map[K]cached[V]{}}
}

func (c *cache[K, V]) get(key K, now time.Time) (value V, ok bool) {
	if c == nil {
		return value, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.values[key]
	return e.value, now.Before(e.until)
}

// put adds a value that ends at until, or after the age of the cache. To bound the work of put, an
// expired value stays until its place in the ring is used again.
func (c *cache[K, V]) put(key K, value V, now, until time.Time) {
	if c == nil {
		return
	}
	e := cached[V]{value: value, until: now.Add(c.age)}
	if until.Before(e.until) {
		e.until = until
	}
	if !now.Before(e.until) {
		return // a token that is accepted by leeway only, or no longer
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.values[key]; !ok {
		if len(c.ring) < c.max {
			c.ring = append(c.ring, key)
		} else {
			delete(c.values, c.ring[c.oldest])
			c.ring[c.oldest] = key
			c.oldest = (c.oldest + 1) % c.max
		}
	}
	c.values[key] = e
}
