package load

import "sync/atomic"

// InFlight counts requests that have begun and not ended, against a number that the service can
// hold. It limits nothing by itself: [InFlight.Spare] is a signal.
//
// It is made by [NewInFlight] and safe for concurrent use. The zero InFlight counts and has nothing
// to spare. It must not be copied.
type InFlight struct {
	n   atomic.Int64
	max int64
}

// NewInFlight returns an InFlight for a service that can hold max requests at the same time. It
// panics if max is less than 1.
func NewInFlight(max int) *InFlight {
	if max < 1 {
		panic("load: NewInFlight: max is less than 1")
	}
	return &InFlight{max: int64(max)}
}

// Begin counts one more request. It always does, beyond max too.
func (f *InFlight) Begin() { f.n.Add(1) }

// End counts one request less. Every Begin needs one End, so defer it: a request that panics ends
// as well. An End too many is a mistake that is not reported. It takes away a request of somebody
// else's, but the count never falls below 0.
func (f *InFlight) End() {
	for {
		// Subtracting first and repairing later would let a Begin in between be repaired away.
		n := f.n.Load()
		if n == 0 || f.n.CompareAndSwap(n, n-1) {
			return
		}
	}
}

// Count is how many requests are in flight: at least 0, and more than max when there are.
func (f *InFlight) Count() int { return int(f.n.Load()) }

// Spare is the share of max that is free: 1 - [InFlight.Count]/max, at least 0. A request that has
// begun counts, also the one on whose behalf it is asked.
//
// It is the state of this moment, and jumps as requests come and go where max is small; see
// [Smooth].
func (f *InFlight) Spare() float64 {
	n := f.n.Load()
	if n >= f.max {
		return 0
	}
	return 1 - float64(n)/float64(f.max)
}
