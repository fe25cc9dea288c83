package load

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Smooth returns signal as an exponentially weighted moving average over time: a sample counts half
// as much as one that is halfLife younger. It keeps limits from following every twitch, at the
// price of following late: half of a change shows after one halfLife, nine tenths after 3.3.
//
// signal is asked by whoever asks the result, at most 16 times in a halfLife and never by two at
// the same time; while it is being asked, others get the average as it was. So it may take its
// time, but its time is added to a decision, and a panic in it is the caller's. A sample stands for
// the time since the one before, whatever happened in between. The first sample is the first
// average; until it is there, it is 0.
//
// A sample that is not a number counts as 0, one below 0 as 0, one above 1 as 1.
//
// The result is safe for concurrent use. Smooth panics if signal is nil or halfLife is not
// positive.
func Smooth(signal func() float64, halfLife time.Duration) func() float64 {
	switch {
	case signal == nil:
		panic("load: Smooth: signal is nil")
	case halfLife <= 0:
		panic("load: Smooth: halfLife is not positive")
	}
	return newAverage(signal, halfLife, halfLife/16).now
}

// arrived is how near to the samples an average becomes equal to them. Left alone it would come
// nearer for ever, and a resource that is wholly free again would read as 0.9999, which is not the
// last step of an elastic limit.
const arrived = 1. / 1024

// An average asks a signal from time to time and smooths what it says.
type average struct {
	// Every call reads these two; they are written a few times a second.
	due  atomic.Int64  // when the signal is to be asked again, since start
	mean atomic.Uint64 // bits of a float64

	start    time.Time
	halfLife time.Duration
	every    time.Duration
	signal   func() float64

	mu    sync.Mutex // held by who asks the signal; nobody waits for it
	asked bool
	last  time.Duration // when it was asked, since start
}

func newAverage(signal func() float64, halfLife, every time.Duration) *average {
	return &average{signal: signal, halfLife: halfLife, every: every, start: time.Now()}
}

// now is the average. A caller that comes when a sample is due takes it first.
func (a *average) now() float64 {
	if now := time.Since(a.start); int64(now) >= a.due.Load() && a.mu.TryLock() {
		a.sample(now)
	}
	return math.Float64frombits(a.mean.Load())
}

// sample asks the signal. The lock is held, and is free afterwards even if the signal panics.
func (a *average) sample(now time.Duration) {
	defer a.mu.Unlock()
	if int64(now) < a.due.Load() {
		return // somebody else was quicker, and this now may be older than last
	}
	a.due.Store(int64(now + a.every))
	x := clamp(a.signal())
	if mean := math.Float64frombits(a.mean.Load()); a.asked && math.Abs(x-mean) > arrived {
		kept := math.Exp2(-float64(now-a.last) / float64(a.halfLife))
		x += kept * (mean - x)
	}
	a.asked, a.last = true, now
	a.mean.Store(math.Float64bits(x))
}

// clamp returns the nearest share to x; not a number is 0.
func clamp(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}
