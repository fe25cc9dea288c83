package lease

import (
	"math/bits"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// units contains the constants with which the tokens of a rule are counted as integers. A token of
// a bucket is counted as its refill time, in fractions of a microsecond. A token of a window is
// counted as one event.
type units struct {
	rule *driver.Compiled
	unit int64 // one token
	full int64 // the capacity of the rule
	rate int64 // units that refill in a microsecond; 0 for a window

	lifetime   int64 // the period over which use is measured to choose the size of a bundle (ns)
	restRefill int64 // tokens that refill in rest, at most capacity/maxFraction; 0 for a window
	maxRefill  int64 // the longest time for which the refill is computed (us)
}

const (
	// minCapacity is the smallest capacity that is leased.
	minCapacity = 128
	// A bundle takes at most 1/maxFraction of the Store's remaining tokens, or the refill of rest if
	// that is more. With 16, eight processes leave up to 9.5 % of a window of 5000 a second unused.
	// With 32, they leave up to 4.7 %, and need up to twice as many calls.
	maxFraction = 32
	// minBundle is the smallest bundle; a smaller bundle is not worth a call.
	minBundle = 8
	// The lifetime of a bucket is at most 1/lifetimeFraction of the time in which it fills up.
	lifetimeFraction = 8
	// minLifetime is the shortest lifetime with which a bucket is leased (us).
	minLifetime = int64(time.Millisecond / time.Microsecond)
	// rest is the time for which a used up bucket refills before the next call.
	rest = 10 * time.Millisecond
	// maxUnits is the largest count of units. The sum of two such counts does not overflow.
	maxUnits = 1 << 61
)

// newUnits returns the units of r, for which leasable has reported true. It returns false if r
// fills up too fast to be leased, or its counts of units are too large.
func newUnits(r *driver.Compiled, lifetime time.Duration) (u units, ok bool) {
	u.rule, u.lifetime = r, int64(lifetime)
	k := r.Constants
	if !r.Kind.Refills {
		u.unit, u.full = 1, k.Capacity
		return u, k.Period >= 2*minLifetime
	}
	longest := k.Full.Micros / lifetimeFraction
	// Twice the capacity, plus some seconds, must not exceed maxUnits.
	hi, lo := bits.Mul64(uint64(2*k.Full.Micros+4_000_000), uint64(k.Denominator))
	if longest < minLifetime || hi > 0 || lo >= maxUnits {
		return u, false
	}
	u.rate, u.maxRefill = k.Denominator, maxUnits/k.Denominator
	u.unit, u.full = u.count(k.Unit), u.count(k.Full)
	u.lifetime = min(u.lifetime, longest*1000)
	u.restRefill = min(u.refill(int64(rest/time.Microsecond))/u.unit, k.Capacity/maxFraction)
	return u, true
}

// verdict returns the verdict on an event of cost, given the state before it. spent reports whether
// the cost was charged.
func (u *units) verdict(r driver.Reading, cost int64, spent bool) driver.Verdict {
	c := driver.Charge{Rule: u.rule, Cost: int(cost)}
	c.Answer(&r, spent)
	return c.Verdict
}

func (u *units) count(s driver.Span) int64 { return s.Micros*u.rate + s.Frac }

func (u *units) span(x int64) driver.Span {
	switch u.rate {
	case 0:
		return driver.Span{}
	case 1:
		return driver.Span{Micros: x}
	}
	return driver.Span{Micros: x / u.rate, Frac: x % u.rate}
}

// refill returns the units that refill in us microseconds.
func (u *units) refill(us int64) int64 { return min(us, u.maxRefill) * u.rate }

// floorDiv returns x / y, rounded down; y is positive.
func floorDiv(x, y int64) int64 {
	if x < 0 {
		return -((y - 1 - x) / y)
	}
	return x / y
}

// micros converts nanoseconds to microseconds, rounded up.
func micros(ns int64) int64 { return (max(0, ns) + 999) / 1000 }
