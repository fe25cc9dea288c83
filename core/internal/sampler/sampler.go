// Package sampler bounds the number of reports about events that clients can cause.
package sampler

import (
	"sync"
	"time"
)

// A Sampler lets at most a number of events pass in an interval, which begins with the first of
// them. It is safe for concurrent use.
type Sampler struct {
	max      int
	interval time.Duration

	mu         sync.Mutex
	begin      time.Time
	passed     int // since begin
	suppressed int
}

// New returns a Sampler that lets max events in an interval pass.
func New(max int, interval time.Duration) *Sampler { return &Sampler{max: max, interval: interval} }

// Pass reports whether an event passes, and how many have not since the last one that has.
func (s *Sampler) Pass() (suppressed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.begin) >= s.interval {
		s.begin, s.passed = now, 0
	}
	if s.passed == s.max {
		s.suppressed++
		return 0, false
	}
	suppressed, s.suppressed = s.suppressed, 0
	s.passed++
	return suppressed, true
}
