package storetest

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// withRollover returns a case that calls f unless the Store has no rollovers.
func withRollover(f func(s *subject)) func(s *subject) {
	return func(s *subject) {
		if !s.NoRollover {
			f(s)
		}
	}
}

// rollover returns the key "k" of a quota of n events a day, of which some roll over. The next day begins in 10 hours.
func (s *subject) rollover(name string, n, rollover int) quotaKey {
	s.Helper()
	return s.quota(name, n).under(driver.Definition{Events: n, Rollover: rollover})
}

// under returns the same key under another limit: the Events, Rollover, Headroom and Soft of d.
func (q quotaKey) under(d driver.Definition) quotaKey {
	q.Helper()
	d.Name, d.Algorithm, d.Calendar = q.rule.Name, q.rule.Algorithm, q.rule.Calendar
	q.rule = q.compile(d)
	return q
}

// of returns another key of the same quota.
func (q quotaKey) of(key string) quotaKey {
	q.key = key
	return q
}

// holds fails unless a Peek says that left events of a limit are left.
func (q quotaKey) holds(left, limit int) {
	q.Helper()
	v := q.do(driver.Peek, 1, driver.Receipt{}).Verdict
	if k := v.Rule.Constants; v.Remaining != left || v.Rule.Events != limit || k.Capacity-k.Extra-k.Rollover != int64(limit) {
		q.fail("a Peek: got %+v with %+v, want %d of %d left", v, k, left, limit)
	}
}

// retry fails unless a Spend of cost is denied for that time.
func (q quotaKey) retry(cost int, want time.Duration) {
	q.Helper()
	if v := q.do(driver.Spend, cost, driver.Receipt{}).Verdict; v.Allowed || v.RetryAfter != want {
		q.fail("a Spend of %d: got %+v, want a denial for %v", cost, v, want)
	}
}

func rollsOver(s *subject) {
	q := s.rollover("days", 5, 4)
	q.holds(5, 5)
	q.take(2, 3, 10*time.Hour, calendarDay)
	s.Advance(10 * time.Hour)
	q.holds(8, 8)
	q.take(1, 7, calendarDay, calendarDay)
	s.Advance(calendarDay) // 7 are left, of which 4 roll over
	q.take(9, 0, calendarDay, calendarDay)
	q.deny(calendarDay)
	s.Advance(calendarDay)
	q.holds(5, 5)
	q.take(4, 1, calendarDay, calendarDay)
	q.do(driver.Debit, 100, driver.Receipt{}) // beyond the limit, which is no debt of the next day
	s.Advance(calendarDay)
	q.take(5, 0, calendarDay, calendarDay)
}

func noRest(s *subject) {
	for name, use := range map[string]func(quotaKey){
		"nothing":         func(quotaKey) {},
		"a peek":          func(q quotaKey) { q.left(5) },
		"a denial":        func(q quotaKey) { q.retry(6, driver.Never) },
		"a credit":        func(q quotaKey) { q.do(driver.Credit, 3, driver.Receipt{}) },
		"a reset":         func(q quotaKey) { q.take(1, 4, 10*time.Hour, calendarDay); q.do(driver.Reset, 1, driver.Receipt{}) },
		"an undone event": func(q quotaKey) { q.do(driver.Undo, 1, q.take(1, 4, 10*time.Hour, calendarDay)) },
		"a credited one":  func(q quotaKey) { q.take(1, 4, 10*time.Hour, calendarDay); q.do(driver.Credit, 1, driver.Receipt{}) },
		"all":             func(q quotaKey) { q.take(5, 0, 10*time.Hour, calendarDay) },
		"an earlier day": func(q quotaKey) {
			q.take(1, 4, 10*time.Hour, calendarDay)
			q.Advance(calendarDay)
		},
		"a rule without": func(q quotaKey) {
			q.take(1, 4, 10*time.Hour, calendarDay)
			q.under(driver.Definition{Events: 5}).take(1, 3, 10*time.Hour, calendarDay)
		},
	} {
		q := s.rollover("unused", 5, 4).of(name)
		use(q)
		s.Advance(10 * time.Hour)
		q.holds(5, 5)
		s.Advance(14 * time.Hour)
	}
}

func restAndChanges(s *subject) {
	q := s.rollover("changes", 5, 4)
	first := q.take(3, 2, 10*time.Hour, calendarDay)
	s.Advance(10 * time.Hour)
	q.do(driver.Undo, 3, first) // too late for the day, which has no event yet
	q.under(driver.Definition{Events: 1, Rollover: 1}).do(driver.Credit, 3, driver.Receipt{})
	q.take(1, 6, calendarDay, calendarDay)
	q.do(driver.Undo, 3, first)
	q.holds(6, 7)
	// The rest is that of the first event, whichever plan asks later.
	q.under(driver.Definition{Events: 10, Rollover: 4}).holds(11, 12)
	q.under(driver.Definition{Events: 1, Rollover: 4}).holds(2, 3)
	q.under(driver.Definition{Events: 5, Rollover: 1}).holds(5, 6)
	q.under(driver.Definition{Events: 5, Rollover: 9}).holds(6, 7)
	q.under(driver.Definition{Events: 5}).holds(4, 5)
	// If all is undone, the rest stays until the day ends, and leaves none.
	last := q.take(1, 5, calendarDay, calendarDay)
	q.do(driver.Credit, 1, driver.Receipt{})
	q.do(driver.Undo, 1, last)
	q.holds(7, 7)
	s.Advance(calendarDay)
	q.holds(5, 5)
	// The limit of the first event says how much was left.
	more := q.under(driver.Definition{Events: 8, Rollover: 100})
	q.take(5, 0, calendarDay, calendarDay)
	s.Advance(calendarDay)
	more.take(1, 10, calendarDay, calendarDay)
}

func headroomOfRest(s *subject) {
	q := s.rollover("headroom", 10, 10)
	batch := q.under(driver.Definition{Events: 10, Rollover: 10, Headroom: 25})
	soft := q.under(driver.Definition{Events: 10, Rollover: 10, Soft: 20})
	q.take(5, 5, 10*time.Hour, calendarDay)
	s.Advance(10 * time.Hour)
	q.holds(15, 15)
	batch.take(8, 3, calendarDay, calendarDay) // of 11
	batch.retry(4, calendarDay)
	soft.take(8, 0, calendarDay, calendarDay) // one is beyond the limit
	soft.retry(3, calendarDay)
	s.Advance(calendarDay)
	soft.holds(10, 10)
}

func retryOfRest(s *subject) {
	q := s.rollover("retry", 5, 3)
	q.retry(6, driver.Never) // a key without a state has no rest in the next day either
	other := q.of("of a rule without")
	other.under(driver.Definition{Events: 5}).take(1, 4, 10*time.Hour, calendarDay)
	other.retry(6, driver.Never)
	q.take(1, 4, 10*time.Hour, calendarDay)
	q.retry(8, 10*time.Hour)
	q.retry(9, driver.Never)
	q.take(2, 2, 10*time.Hour, calendarDay)
	q.retry(7, 10*time.Hour)
	q.retry(8, driver.Never)
	s.Advance(10*time.Hour - time.Microsecond)
	q.retry(7, time.Microsecond)
	s.Advance(time.Microsecond)
	q.take(7, 0, calendarDay, calendarDay)
	q.retry(6, driver.Never) // nothing is left to roll over
	q.retry(5, calendarDay)
}

func restAndCalendars(s *subject) {
	for _, test := range []struct {
		key   string
		later time.Duration // the days of the other calendar begin
		after time.Duration // the end of the day
		rest  int
	}{
		{"same", 0, 0, 4}, {"same, at the end", 0, calendarDay - time.Microsecond, 4}, {"same, a day later", 0, calendarDay, 0},
		{"later", 8 * time.Hour, 8*time.Hour - time.Microsecond, 4}, {"later, a boundary later", 8 * time.Hour, 8 * time.Hour, 0},
		{"earlier", -8 * time.Hour, 0, 4}, {"earlier, at the end", -8 * time.Hour, 16*time.Hour - time.Microsecond, 4},
		{"earlier, a boundary later", -8 * time.Hour, 16 * time.Hour, 0},
	} {
		q := s.rollover("calendars", 5, 9).of(test.key)
		q.take(1, 4, 10*time.Hour, calendarDay)
		s.Advance(10*time.Hour + test.after)
		for _, ahead := range []time.Duration{0, 7 * time.Hour, -7 * time.Hour} {
			q.in(test.later).by(ahead).holds(5+test.rest, 5+test.rest)
		}
		s.Advance(2*calendarDay - 10*time.Hour - test.after)
	}
}

func restAndClock(s *subject) {
	q := s.rollover("clock", 5, 4)
	q.take(2, 3, 10*time.Hour, calendarDay)
	s.Advance(10 * time.Hour)
	q.take(1, 7, calendarDay, calendarDay)
	s.Advance(-time.Hour) // the day has not begun yet
	q.holds(7, 8)
	s.Advance(-100 * calendarDay) // its events and its rest count in the present day
	q.take(7, 0, time.Hour, calendarDay)
	q.deny(time.Hour)
	s.Advance(time.Hour)
	q.holds(5, 5)
}
