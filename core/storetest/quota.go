package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A quotaKey makes calls for one key of a quota.
type quotaKey struct {
	*subject
	rule *driver.Compiled
	key  string
	calendar
}

// quota returns the key "k" of a rule of n events a day. The next day begins in 10 hours.
func (s *subject) quota(name string, n int) quotaKey {
	s.Helper()
	days := calendar{length: unitLengths["day"]}
	days.offset = (s.Now().UnixMicro() + 10*time.Hour.Microseconds()) % days.length
	return quotaKey{s, s.compile(driver.Definition{Name: name, Algorithm: driver.Quota, Events: n, Calendar: driver.Day}), "k", days}
}

// by returns the same key for a caller whose clock is ahead.
func (q quotaKey) by(ahead time.Duration) quotaKey {
	q.ahead = ahead.Microseconds()
	return q
}

// in returns the same key with a calendar whose days begin later by d.
func (q quotaKey) in(d time.Duration) quotaKey {
	q.offset += d.Microseconds()
	return q
}

func (q quotaKey) charge(op driver.Op, cost int, m driver.Receipt) driver.Charge {
	rule := q.rule.During(q.periods(q.Now().UnixMicro()))
	return driver.Charge{Key: q.key, Rule: rule, Op: op, Cost: cost, Receipt: m}
}

func (q quotaKey) do(op driver.Op, cost int, m driver.Receipt) driver.Charge {
	q.Helper()
	charges := []driver.Charge{q.charge(op, cost, m)}
	if err := Do(context.Background(), q.Store, charges); err != nil {
		q.fail("op %d: %v", op, err)
	}
	return charges[0]
}

// take takes cost, which must leave left events in a period of the given length that ends after window.
func (q quotaKey) take(cost, left int, window, length time.Duration) driver.Receipt {
	q.Helper()
	c := q.do(driver.Spend, cost, driver.Receipt{})
	v := c.Verdict
	if !v.Allowed || v.Remaining != left || v.Window != window || v.ResetAfter != window || v.RetryAfter != 0 || time.Duration(v.Period)*time.Second != length {
		q.fail("a Spend of %d: got %+v, want %d events left for %v of a period of %v", cost, v, left, window, length)
	}
	return c.Receipt
}

// deny fails unless a Spend and a Peek of one event are denied for retry.
func (q quotaKey) deny(retry time.Duration) {
	q.Helper()
	for _, op := range []driver.Op{driver.Spend, driver.Peek} {
		if v := q.do(op, 1, driver.Receipt{}).Verdict; v.Allowed || v.Remaining != 0 || v.RetryAfter != retry || v.Window != retry || v.ResetAfter != retry {
			q.fail("op %d: got %+v, want a denial for %v", op, v, retry)
		}
	}
}

// left fails unless want events are left.
func (q quotaKey) left(want int) {
	q.Helper()
	if v := q.do(driver.Peek, 1, driver.Receipt{}).Verdict; v.Remaining != want || v.Allowed != (want > 0) {
		q.fail("a Peek: got %+v, want Remaining %d", v, want)
	}
}

const calendarDay = 24 * time.Hour

func quotaResets(s *subject) {
	q := s.quota("days", 5)
	q.left(5)
	q.take(2, 3, 10*time.Hour, calendarDay)
	s.Advance(4 * time.Hour)
	q.take(3, 0, 6*time.Hour, calendarDay)
	q.deny(6 * time.Hour)
	s.Advance(6*time.Hour - time.Microsecond)
	q.deny(time.Microsecond)
	s.Advance(time.Microsecond)
	q.take(5, 0, calendarDay, calendarDay)
	s.Advance(calendarDay - time.Microsecond)
	q.deny(time.Microsecond)
	s.Advance(time.Microsecond)
	q.left(5)
	s.Advance(100 * calendarDay)
	q.take(1, 4, calendarDay, calendarDay)
	if v := q.do(driver.Spend, 6, driver.Receipt{}).Verdict; v.Allowed || v.RetryAfter != driver.Never || v.Remaining != 4 {
		s.fail("a Spend above the limit: got %+v, want RetryAfter Never", v)
	}
	// A debit beyond the limit is not charged to the next day.
	q.do(driver.Debit, 1000, driver.Receipt{})
	q.deny(calendarDay)
	s.Advance(calendarDay)
	q.left(5)
}

func quotaAndCallers(s *subject) {
	q := s.quota("callers", 4)
	ahead, behind := q.by(11*time.Hour), q.by(-11*time.Hour)
	q.take(1, 3, 10*time.Hour, calendarDay)
	ahead.take(1, 2, 10*time.Hour, calendarDay) // by its own clock, it is tomorrow
	s.Advance(10*time.Hour - time.Microsecond)
	behind.take(1, 1, time.Microsecond, calendarDay)
	ahead.take(1, 0, time.Microsecond, calendarDay)
	behind.deny(time.Microsecond)
	s.Advance(time.Microsecond)
	behind.take(1, 3, calendarDay, calendarDay) // by its own clock, it is yesterday
	s.Advance(time.Hour)
	ahead.take(1, 2, 23*time.Hour, calendarDay)
	behind.take(2, 0, 23*time.Hour, calendarDay)
	for _, caller := range []quotaKey{q, ahead, behind} {
		caller.deny(23 * time.Hour)
	}
}

func changedCalendar(s *subject) {
	q := s.quota("changed", 4)
	q.take(1, 3, 10*time.Hour, calendarDay)
	earlier, later := q.in(-8*time.Hour), q.in(8*time.Hour)
	earlier.take(1, 2, 10*time.Hour, calendarDay)
	later.take(1, 1, 10*time.Hour, calendarDay)
	unused := earlier
	unused.key = "unused"
	unused.take(1, 3, 2*time.Hour, calendarDay)
	s.Advance(2 * time.Hour) // the boundary of the earlier calendar
	earlier.take(1, 0, 8*time.Hour, calendarDay)
	earlier.deny(8 * time.Hour)
	unused.take(4, 0, calendarDay, calendarDay)
	s.Advance(8*time.Hour - time.Microsecond)
	earlier.deny(time.Microsecond)
	later.deny(time.Microsecond)
	// The first event after the old end is counted in the new period, which has begun before or will end soon.
	s.Advance(time.Microsecond)
	later.take(4, 0, 8*time.Hour, calendarDay)
	q.deny(8 * time.Hour)
	s.Advance(8 * time.Hour)
	q.take(1, 3, 16*time.Hour, calendarDay)
}

func lateRefunds(s *subject) {
	q := s.quota("refunds", 5)
	first, second := q.take(2, 3, 10*time.Hour, calendarDay), q.take(2, 1, 10*time.Hour, calendarDay)
	debit := q.do(driver.Debit, 3, driver.Receipt{}).Receipt
	s.Advance(10*time.Hour - time.Microsecond)
	q.do(driver.Undo, 2, first)
	q.left(0)
	s.Advance(time.Microsecond)
	q.take(3, 2, calendarDay, calendarDay)
	for _, late := range []driver.Receipt{first, second, debit, {}} {
		if v := q.do(driver.Undo, 2, late).Verdict; v.Remaining != 2 || !v.Allowed {
			s.fail("an Undo of %+v, of an earlier day: got %+v, want Remaining 2", late, v)
		}
	}
	third := q.take(2, 0, calendarDay, calendarDay)
	s.Advance(time.Hour)
	q.do(driver.Undo, 1, third)
	q.left(1)
	q.do(driver.Undo, 1, q.rule.Keep(third, 1))
	q.left(2)
	// A step back into the day before makes a receipt of today one of the future.
	fourth := q.take(2, 0, 23*time.Hour, calendarDay)
	s.Advance(-2 * time.Hour)
	q.do(driver.Undo, 2, fourth)
	q.left(0)
}

func quotaAndClock(s *subject) {
	q := s.quota("clock", 5)
	s.Advance(10 * time.Hour)
	q.take(5, 0, calendarDay, calendarDay)
	s.Advance(-time.Microsecond) // the day has not begun yet
	q.deny(calendarDay + time.Microsecond)
	s.Advance(-6 * time.Hour)
	q.deny(30*time.Hour + time.Microsecond)
	s.Advance(30*time.Hour + time.Microsecond)
	q.take(5, 0, calendarDay, calendarDay)
	s.Advance(-100 * calendarDay)
	q.deny(calendarDay)
	s.Advance(calendarDay - time.Microsecond)
	q.deny(time.Microsecond)
	s.Advance(time.Microsecond)
	q.left(5)
}

func concurrentQuota(s *subject) {
	const limit = 500
	q := s.quota("concurrent", limit)
	var admitted atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for i := range 16 {
		caller := q.by(time.Duration(i-8) * time.Hour)
		wg.Go(func() {
			for range 40 {
				charges := []driver.Charge{caller.charge(driver.Spend, 1, driver.Receipt{})}
				if err := s.Store.Take(context.Background(), charges); err != nil {
					failed.Store(&err)
					return
				}
				if charges[0].Verdict.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		s.fail("a call failed: %v", *err)
	}
	if n := admitted.Load(); n != limit {
		s.fail("%d events were admitted, want %d", n, limit)
	}
	q.deny(10 * time.Hour)
}
