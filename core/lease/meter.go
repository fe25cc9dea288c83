package lease

import (
	"math/bits"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A meter counts a rule in whole numbers. What a bucket holds is counted as the time
// in which it refills, in parts of a microsecond; what a window holds in events.
type meter struct {
	rule *driver.Compiled
	unit int64 // one token
	full int64 // all that the rule holds
	flow int64 // what refills in a microsecond; a window does not
	life int64 // the span whose use is the measure of a block (ns)
	soon int64 // the tokens that refill in a rest

	longest int64 // the longest time of which refill is counted (us)
}

const (
	// minCapacity is the smallest limit that is leased and whose denials are remembered.
	minCapacity = 128
	// share is the part of the store's remaining tokens that a block takes at most. With
	// 16, eight processes leave up to 9.5 % of a window of 5000 a second unused, with 32 up
	// to 4.7 %, and a decision costs up to twice the calls.
	share = 32
	// minBlock is the smallest block: to take one is a call.
	minBlock = 8
	// lifeShare is the part of the time in which a bucket fills up that is the measure of a
	// block at most.
	lifeShare = 8
	// shortest is the shortest time for which it is worth holding anything (us).
	shortest = int64(time.Millisecond / time.Microsecond)
	// rest is how long an empty bucket is left alone, so that a call is worth it.
	rest = 10 * time.Millisecond
)

// newMeter returns nil for a rule that is not leased.
func newMeter(r *driver.Compiled, lifetime time.Duration) *meter {
	k := r.Constants()
	m := &meter{rule: r, life: int64(lifetime)}
	switch {
	case !leasable(r):
		return nil
	case k.Algorithm == driver.FixedWindow:
		if k.Period < 2*shortest {
			return nil
		}
		m.unit, m.full = 1, k.Capacity
		return m
	}
	part := k.Full.Micros / lifeShare
	if part < shortest || tooFine(&k) {
		return nil
	}
	m.flow, m.longest = k.Denominator, most/k.Denominator
	m.unit, m.full = m.count(k.Unit), m.count(k.Full)
	m.life = min(m.life, part*1000)
	m.soon = min(int64(rest/time.Microsecond)*m.flow/m.unit, k.Capacity/share)
	return m
}

// leasable says whether tokens of r mean the same a moment later: see the package
// comment. It is the quick part of the answer.
func leasable(r *driver.Compiled) bool {
	switch r.Algorithm() {
	case driver.TokenBucket, driver.FixedWindow:
		return r.Capacity() >= minCapacity && !r.Shadow() && r.Constants().Extra == 0
	}
	return false
}

// tooFine says whether twice what a bucket holds, and some seconds, would overflow.
func tooFine(k *driver.Constants) bool {
	hi, lo := bits.Mul64(uint64(2*k.Full.Micros+4_000_000), uint64(k.Denominator))
	return hi > 0 || lo >= most
}

func (m *meter) capacity() int64 { return m.rule.Capacity() }

// measures says whether m is the meter of r.
func (m *meter) measures(r *driver.Compiled) bool {
	return m.rule == r || m.rule.Constants() == r.Constants()
}

func (m *meter) count(s driver.Span) int64 { return s.Micros*m.flow + s.Frac }

func (m *meter) span(x int64) driver.Span {
	switch m.flow {
	case 0:
		return driver.Span{}
	case 1:
		return driver.Span{Micros: x}
	}
	return driver.Span{Micros: x / m.flow, Frac: x % m.flow}
}

// refill is what refills in so many microseconds.
func (m *meter) refill(us int64) int64 { return min(us, m.longest) * m.flow }

// verdict is what the rule says about cost when so much is in use, before it is
// spent, and the window lasts for left (ns).
func (m *meter) verdict(used, left, cost int64, spent bool) driver.Verdict {
	used = max(0, used)
	if spent {
		used = min(used, m.full-cost*m.unit)
	}
	r := driver.Reading{Count: used, Left: max(1, micros(left))}
	if m.flow > 0 {
		r = driver.Reading{Used: m.span(used)}
	}
	return m.rule.Verdict(r, cost, driver.Never, spent)
}

// floorDiv is x / y, rounded down; y is positive.
func floorDiv(x, y int64) int64 {
	if x < 0 {
		return -((y - 1 - x) / y)
	}
	return x / y
}

// micros is ns in microseconds, rounded up.
func micros(ns int64) int64 { return (max(0, ns) + 999) / 1000 }
