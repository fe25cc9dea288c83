package redisstore

import (
	"maps"
	"sync"
	"sync/atomic"
)

// A memo remembers what was worked out for a key. Reading takes no lock and
// allocates nothing; there are few keys, and they come from the program, not
// from its clients.
type memo[K comparable, V any] struct {
	mu    sync.Mutex
	known atomic.Pointer[map[K]V]
}

// memoSize bounds a memo of a program that makes rules without end.
const memoSize = 4096

func (m *memo[K, V]) get(k K, work func(K) V) V {
	if known := m.known.Load(); known != nil {
		if v, ok := (*known)[k]; ok {
			return v
		}
	}
	v := work(k)
	m.mu.Lock()
	defer m.mu.Unlock()
	next := make(map[K]V)
	if known := m.known.Load(); known != nil && len(*known) < memoSize {
		maps.Copy(next, *known)
	}
	next[k] = v
	m.known.Store(&next)
	return v
}
