package load

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A sampler is a signal that is read now and then, and averaged over time.
type sampler struct {
	read     func() (value float64, ok bool) // not ok: nothing is known
	every    time.Duration
	halfLife time.Duration
	begin    time.Time

	average atomic.Uint64 // the bits of a float64
	next    atomic.Int64  // since begin, when the next sample is due

	mu    sync.Mutex // held while a sample is taken; nobody waits for it
	last  time.Duration
	known bool
}

func newSampler(read func() (float64, bool), every, halfLife time.Duration) *sampler {
	return &sampler{read: read, every: every, halfLife: halfLife, begin: time.Now()}
}

func (s *sampler) spare() float64 {
	if now := time.Since(s.begin); int64(now) >= s.next.Load() && s.mu.TryLock() {
		s.sample(now)
		s.mu.Unlock()
	}
	return math.Float64frombits(s.average.Load())
}

// sample reads the signal. What is not known counts as nothing that is free.
func (s *sampler) sample(now time.Duration) {
	s.next.Store(int64(now + s.every))
	value, ok := s.read()
	if !ok || math.IsNaN(value) {
		s.known = false
		s.average.Store(math.Float64bits(0))
		return
	}
	value = min(max(value, 0), 1)
	if s.known {
		// An exponentially weighted moving average: after a half-life, half of what
		// was is forgotten.
		kept := math.Exp2(-float64(now-s.last) / float64(s.halfLife))
		value += kept * (math.Float64frombits(s.average.Load()) - value)
	}
	s.average.Store(math.Float64bits(value))
	s.last, s.known = now, true
}

// Smooth averages a signal over time, so that what jumps with every request does not
// make a limit jump: after halfLife, half of a change is visible. f is called at most
// eight times in a half-life. What is not a number is 0. Smooth panics if f is nil or
// halfLife is not positive.
func Smooth(f func() float64, halfLife time.Duration) func() float64 {
	if f == nil {
		panic("load: Smooth: the signal is nil")
	}
	if halfLife <= 0 {
		panic(fmt.Sprintf("load: Smooth: the half-life is %v, not positive", halfLife))
	}
	return newSampler(func() (float64, bool) { return f(), true }, halfLife/8, halfLife).spare
}
