// Package sampler bounds the number of reports about events that clients can cause.
package sampler

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Sampler lets at most a number of events pass in an interval, which begins with the first of
// them. It is safe for concurrent use.
type Sampler struct {
	max      int
	interval time.Duration
	start    time.Time

	full       atomic.Int64 // the end of an interval in which max events have passed, in nanoseconds since start
	suppressed atomic.Int64

	mu     sync.Mutex
	end    time.Duration // of the interval, since start
	passed int           // in the interval
}

// New returns a Sampler that lets max events in an interval pass.
func New(max int, interval time.Duration) *Sampler {
	return &Sampler{max: max, interval: interval, start: time.Now()}
}

// Pass reports whether an event passes, and how many have not since the last one that has. An event that
// does not pass takes no lock.
func (s *Sampler) Pass() (suppressed int, ok bool) {
	return s.PassAt(time.Since(s.start)) // reads one clock, and time.Now two
}

// PassAt is Pass at a time since any fixed one.
func (s *Sampler) PassAt(now time.Duration) (suppressed int, ok bool) {
	if int64(now) < s.full.Load() {
		s.suppressed.Add(1)
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now >= s.end {
		s.end, s.passed = now+s.interval, 0
	}
	if s.passed == s.max { // meanwhile
		s.suppressed.Add(1)
		return 0, false
	}
	if s.passed++; s.passed == s.max {
		s.full.Store(int64(s.end))
	}
	return int(s.suppressed.Swap(0)), true
}
