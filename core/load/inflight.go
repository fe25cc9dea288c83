package load

import (
	"fmt"
	"sync/atomic"
)

// An InFlight counts requests that are being served, against the number that a
// service can hold. It is made by [NewInFlight] and safe for concurrent use.
type InFlight struct {
	n   atomic.Int64
	max float64
}

// NewInFlight returns a counter for a service that can hold so many requests at the
// same time. It panics if that is less than one.
func NewInFlight(max int) *InFlight {
	if max < 1 {
		panic(fmt.Sprintf("load: NewInFlight: the most is %d, less than 1", max))
	}
	return &InFlight{max: float64(max)}
}

// Begin counts a request in.
func (f *InFlight) Begin() { f.n.Add(1) }

// End counts a request out. It panics if none is left, as that is a mistake of the
// program that would show as free room that is not there.
func (f *InFlight) End() {
	if f.n.Add(-1) < 0 {
		panic("load: InFlight: End without Begin")
	}
}

// Count is how many requests are being served now.
func (f *InFlight) Count() int { return int(f.n.Load()) }

// Spare is the signal: the part of the room that is free. It is 0 when there are as
// many requests as there is room for, or more. It jumps with every request;
// [Smooth] steadies it.
func (f *InFlight) Spare() float64 { return max(0, 1-float64(f.n.Load())/f.max) }
