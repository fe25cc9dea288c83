// Package seqlock provides a lock whose readers do not wait for each other.
package seqlock

import (
	"sync"
	"sync/atomic"
)

// A Lock is a sequence lock: readers do not take it, and read again if there was a write meanwhile. The zero
// Lock is ready to use.
type Lock struct {
	sync.Mutex               // of writers
	version    atomic.Uint64 // odd during a write
}

// Write begins a write, and returns the function that ends it. The caller must hold the Mutex.
func (l *Lock) Write() (end func()) {
	l.version.Add(1)
	return func() { l.version.Add(1) }
}

// Read calls read until there was no write during the call. The result of the last call counts.
func (l *Lock) Read(read func() error) error {
	for version := l.version.Load(); ; version = l.settled() {
		err := read()
		if version%2 == 0 && l.version.Load() == version {
			return err
		}
	}
}

// settled waits until there is no write, and returns the version.
func (l *Lock) settled() uint64 {
	l.Lock()
	defer l.Unlock()
	return l.version.Load()
}
