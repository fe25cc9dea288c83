// Package algo holds every algorithm as exact integer arithmetic on
// (state, now, cost). memstore runs it as its engine; the Redis scripts are
// held to it, answer for answer, by core/storetest.
//
// Time is a count of microseconds since any fixed origin. Nothing here reads a
// clock, takes a lock or rounds a token: what a microsecond grid cannot hold is
// carried as a fraction beside it.
package algo

import (
	"errors"
	"math"
	"time"
)

// Never is the Retry of a cost that can never be admitted.
const Never = math.MaxInt64

// Horizon is the longest span, in microseconds, that a limit may reach over:
// 100 years. It keeps every time below 2^53, the largest range in which the
// doubles of Lua count exactly, until the year 2155.
const Horizon = 100 * 366 * 24 * int64(time.Hour/time.Microsecond)

// A Verdict is what one rule says about one cost. Spans are in microseconds.
type Verdict struct {
	Allowed   bool
	Remaining int64 // what is left, after the cost if that was taken
	Retry     int64 // denied: the least wait after which the same cost fits, or Never
	Reset     int64 // until nothing is used any more
	Delay     int64 // allowed: hold the event this long
	Soft      bool  // allowed: beyond the limit itself
	Window    int64 // the span within which no more than Remaining can be used
}

// A Receipt is what it takes to undo a charge and nothing else: when it was made
// and, of a bucket, what was in use before it. The zero Receipt undoes nothing.
type Receipt struct {
	At     int64
	Used   Span
	Origin int // for a store that is made of others: which of them has the charge

	// Age is how many microseconds ago the charge was made, by a clock that never steps: that
	// of the caller that undoes it. It tells a store whose clock has stepped back since that
	// more time has passed than At says. It is 0 where the caller does not know, and when a
	// charge is made.
	Age int64
}

// stepped says whether the clock stepped back between the charge and now.
func (m Receipt) stepped(now int64) bool { return now-m.At < m.Age }

// Reasons why a limit cannot be run exactly.
var (
	ErrPeriodUnit = errors.New("is not a whole number of microseconds")
	ErrTooLong    = errors.New("reaches over more than 100 years")
	ErrTooFine    = errors.New("needs a fraction finer than 1/2^48 of a microsecond")
	ErrTooMany    = errors.New("counts to more than 2^48")
)

// maxCount bounds events and bursts. It is what six bytes hold, and sums of two
// of them are far below 2^53.
const maxCount = 1 << 48

// settled is how much of n is counted when count are counted already.
func settled(count, n int64) int64 { return max(0, min(n, maxCount-1-count)) }

// Micros converts a period to microseconds, exactly or with an error.
func Micros(d time.Duration) (int64, error) {
	if d%time.Microsecond != 0 {
		return 0, ErrPeriodUnit
	}
	us := int64(d / time.Microsecond)
	if us > Horizon {
		return 0, ErrTooLong
	}
	return us, nil
}

// Duration converts microseconds to a time.Duration; Never stays never.
func Duration(us int64) time.Duration {
	if us == Never {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}
