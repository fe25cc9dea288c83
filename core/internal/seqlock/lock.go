// Package seqlock provides a lock whose readers do not wait for each other.
package seqlock

import (
	"errors"
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

// ErrWrites reports a write during each of 100 calls: read itself writes.
var ErrWrites = errors.New("seqlock: each read had a write")

// Read calls read until there was no write during the call. The result of the last call counts.
func (l *Lock) Read(read func() error) error {
	version := l.version.Load()
	for range 100 {
		err := read()
		if version%2 == 0 && l.version.Load() == version {
			return err
		}
		version = l.settled()
	}
	return ErrWrites
}

// settled waits until there is no write, and returns the version.
func (l *Lock) settled() uint64 {
	l.Lock()
	defer l.Unlock()
	return l.version.Load()
}
