package load

import "sync/atomic"

// InFlight counts the requests in flight against the number that the service can hold. It limits
// nothing by itself: [InFlight.Spare] is a signal. It is safe for concurrent use, and must not be
// copied. Make it with [NewInFlight]: the zero InFlight counts requests, but its Spare is always 0.
type InFlight struct {
	n   atomic.Int64
	max int64
}

// NewInFlight returns an InFlight for max concurrent requests. It panics if max is less than 1.
func NewInFlight(max int) *InFlight {
	if max < 1 {
		panic("load: NewInFlight: max is less than 1")
	}
	return &InFlight{max: int64(max)}
}

// Begin counts one more request, even beyond max.
func (f *InFlight) Begin() { f.n.Add(1) }

// End counts one request less. Every Begin needs one End, so defer End: a request that panics ends
// as well. An End without a Begin is not reported. It lowers the count, but not below 0.
func (f *InFlight) End() {
	for {
		// Subtracting first and correcting later could remove a Begin that came in between.
		n := f.n.Load()
		if n == 0 || f.n.CompareAndSwap(n, n-1) {
			return
		}
	}
}

// Count returns the number of requests in flight, which may be more than max.
func (f *InFlight) Count() int { return int(f.n.Load()) }

// Spare returns the share of max that is free: 1 - [InFlight.Count]/max, at least 0. The request
// that is being decided counts, too, if it has begun. If max is small, Spare jumps: see [Smooth].
func (f *InFlight) Spare() float64 {
	n := f.n.Load()
	if n >= f.max {
		return 0
	}
	return 1 - float64(n)/float64(f.max)
}
