package lease

import (
	"math/bits"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// units are the whole numbers in which the tokens of a rule are counted. Tokens of a bucket
// are counted as the time in which they refill, in parts of a microsecond; tokens of a window
// as events.
type units struct {
	rule *driver.Compiled
	unit int64 // one token
	full int64 // the capacity of the rule
	rate int64 // units that refill in a microsecond; zero for a window

	lifetime  int64 // the span whose use decides the size of a block (ns)
	minFetch  int64 // tokens that refill in emptyWait; zero for a window
	maxRefill int64 // the longest time of which refill is counted (us)
}

const (
	// minCapacity is the smallest capacity that is leased.
	minCapacity = 128
	// maxFraction is the part of the Store's remaining tokens that a block takes at most. With
	// 16, eight processes leave up to 9.5 % of a window of 5000 a second unused, with 32 up
	// to 4.7 %, and a decision costs up to twice the calls.
	maxFraction = 32
	// minBlock is the smallest block: to take one is a call.
	minBlock = 8
	// lifetimeFraction is the part of the time in which a bucket fills up that its lifetime
	// lasts at most.
	lifetimeFraction = 8
	// minLifetime is the shortest lifetime with which a bucket is leased (us).
	minLifetime = int64(time.Millisecond / time.Microsecond)
	// emptyWait is the time for which an empty bucket is left to refill between two calls.
	emptyWait = 10 * time.Millisecond
	// maxUnits is the largest count of units: sums of two do not overflow.
	maxUnits = 1 << 61
)

// newUnits returns the units of r, and false if r is not leased.
func newUnits(r *driver.Compiled, lifetime time.Duration) (u units, ok bool) {
	u.rule, u.lifetime = r, int64(lifetime)
	k := r.Constants()
	if !leasable(r) {
		return u, false
	}
	if k.Algorithm == driver.FixedWindow {
		u.unit, u.full = 1, k.Capacity
		return u, k.Period >= 2*minLifetime
	}
	longest := k.Full.Micros / lifetimeFraction
	if longest < minLifetime || overflows(&k) {
		return u, false
	}
	u.rate, u.maxRefill = k.Denominator, maxUnits/k.Denominator
	u.unit, u.full = u.count(k.Unit), u.count(k.Full)
	u.lifetime = min(u.lifetime, longest*1000)
	u.minFetch = min(int64(emptyWait/time.Microsecond)*u.rate/u.unit, k.Capacity/maxFraction)
	return u, true
}

// leasable reports whether a token of r that is taken now can be spent a moment later: see the
// package comment. newUnits excludes a few rules more.
func leasable(r *driver.Compiled) bool {
	switch r.Algorithm() {
	case driver.TokenBucket, driver.FixedWindow:
		return r.Capacity() >= minCapacity && !r.Shadow() && r.Constants().Extra == 0
	}
	return false
}

// overflows reports whether twice the capacity of a bucket, and some seconds, is more than
// maxUnits.
func overflows(k *driver.Constants) bool {
	hi, lo := bits.Mul64(uint64(2*k.Full.Micros+4_000_000), uint64(k.Denominator))
	return hi > 0 || lo >= maxUnits
}

// match reports whether u are the units of r.
func (u *units) match(r *driver.Compiled) bool { return u.rule.Equivalent(r) }

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

// reading returns the state of the rule when used units are in use and the window lasts for
// left nanoseconds. A cost that is spent at that state, or zero, fits.
func (u *units) reading(used, left, spent int64) driver.Reading {
	used = max(0, used)
	if spent > 0 {
		used = min(used, u.full-spent*u.unit)
	}
	if u.rate > 0 {
		return driver.Reading{Used: u.span(used)}
	}
	return driver.Reading{Count: used, Left: max(1, micros(left))}
}

// floorDiv returns x / y, rounded down; y is positive.
func floorDiv(x, y int64) int64 {
	if x < 0 {
		return -((y - 1 - x) / y)
	}
	return x / y
}

// micros converts nanoseconds to microseconds, rounded up.
func micros(ns int64) int64 { return (max(0, ns) + 999) / 1000 }
