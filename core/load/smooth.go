package load

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Smooth returns the exponentially weighted moving average of signal over time: a sample counts
// half as much as a sample that is halfLife younger. A limit then does not follow short changes,
// but it follows all changes late: half of a change after one halfLife, nine tenths after 3.3.
//
// A call of the result calls signal if a sample is due, at most 16 times in a halfLife and never
// concurrently. Concurrent calls return the last average. The call that takes a sample waits for
// signal, and a panic of signal reaches its caller. A sample stands for the whole time since the
// previous sample. The first sample is the first average. Until then, the average is 0. A sample
// that is NaN or below 0 counts as 0, and a sample above 1 as 1.
//
// The result is safe for concurrent use. Smooth panics if signal is nil or halfLife <= 0.
func Smooth(signal func() float64, halfLife time.Duration) func() float64 {
	switch {
	case signal == nil:
		panic("load: Smooth: signal is nil")
	case halfLife <= 0:
		panic("load: Smooth: halfLife is not positive")
	}
	return newAverage(signal, halfLife, halfLife/16).now
}

// arrived is the difference at which an average becomes equal to a sample. Otherwise the average
// would approach the samples for ever, and never again be exactly 0 or 1.
const arrived = 1. / 1024

// An average smooths a signal.
type average struct {
	// Every call reads due and mean. They are written a few times a second.
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
