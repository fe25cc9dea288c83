// Package memo remembers results that take longer to compute than to look up.
package memo

import (
	"sync"
	"sync/atomic"
)

// A Map remembers a value for each of at most Max keys. If there are more keys, it forgets all and
// begins again. A lookup takes no lock, and allocates nothing if K is a pointer. A Map is safe for
// concurrent use. Max must be set before the first call.
type Map[K comparable, V any] struct {
	Max    int64
	values sync.Map
	n      atomic.Int64
}

// Get returns the value of k, or the result of compute, which it remembers. Concurrent calls for a
// new key may compute the value several times.
func (m *Map[K, V]) Get(k K, compute func(K) V) V {
	if v, ok := m.values.Load(k); ok {
		return v.(V)
	}
	if m.n.Add(1) > m.Max {
		m.values.Clear()
		m.n.Store(1)
	}
	v := compute(k)
	m.values.Store(k, v)
	return v
}
