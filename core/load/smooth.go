package load

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Smooth returns signal as an exponentially weighted moving average over time: a sample counts half
// as much as one that is halfLife younger. A limit then does not follow short changes, but it
// follows all changes late: half of a change after one halfLife, nine tenths after 3.3.
//
// A caller of the result calls signal if a sample is due, at most 16 times in a halfLife and never
// concurrently; meanwhile other callers get the last average. The time that signal takes is added
// to the decision of that caller, and a panic of signal reaches it. A sample stands for the whole
// time since the sample before. The first sample is the first average; until then, the average is
// 0. A sample that is NaN or below 0 counts as 0, and one above 1 as 1.
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

// arrived is the difference at which an average becomes equal to a sample. Otherwise it would
// approach the samples for ever, and a resource that is wholly free again would have 0.9999, which
// is not the last step of an elastic limit.
const arrived = 1. / 1024

// An average is a smoothed signal.
type average struct {
	// Every call reads these two; they are written a few times a second.
	due  atomic.Int64  // of the next sample, since start
	mean atomic.Uint64 // bits of a float64

	start    time.Time
	halfLife time.Duration
	every    time.Duration
	signal   func() float64

	mu      sync.Mutex // held during a sample; callers only try to lock it
	sampled bool
	last    time.Duration // of the last sample, since start
}

func newAverage(signal func() float64, halfLife, every time.Duration) *average {
	return &average{signal: signal, halfLife: halfLife, every: every, start: time.Now()}
}

// now returns the average. If a sample is due and no other caller takes it, now takes it first.
func (a *average) now() float64 {
	if now := time.Since(a.start); int64(now) >= a.due.Load() && a.mu.TryLock() {
		a.sample(now)
	}
	return math.Float64frombits(a.mean.Load())
}

// sample takes a sample if one is due. It unlocks mu, which the caller holds.
func (a *average) sample(now time.Duration) {
	defer a.mu.Unlock()
	if int64(now) < a.due.Load() {
		return // another caller was quicker, and this now may be older than last
	}
	a.due.Store(int64(now + a.every))
	x := clamp(a.signal())
	if mean := math.Float64frombits(a.mean.Load()); a.sampled && math.Abs(x-mean) > arrived {
		kept := math.Exp2(-float64(now-a.last) / float64(a.halfLife))
		x += kept * (mean - x)
	}
	a.sampled, a.last = true, now
	a.mean.Store(math.Float64bits(x))
}

// clamp returns x, limited to 0 and 1. NaN becomes 0.
func clamp(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}
