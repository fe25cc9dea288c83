package memstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// Every rule follows the clock, also to a month that is not near the present one.
func TestClock(t *testing.T) {
	for _, begin := range []time.Time{time.Date(2024, 2, 10, 0, 0, 0, 0, time.UTC), time.Date(2031, 1, 31, 0, 0, 0, 0, time.UTC)} {
		now := begin
		store := memstore.New(memstore.Clock(func() time.Time { return now }))
		limiter := testkit.Limiter(t, store, core.Quota("month", core.Monthly(3)), core.TokenBucket("hour", core.PerHour(2)))
		testkit.Admit(t, limiter, "k", 2)
		d := testkit.Allow(t, limiter, "k")
		if d.Allowed || d.RetryAfter != 30*time.Minute {
			t.Errorf("%v: the bucket decided %v, want a denial for half an hour", begin, d)
		}
		next := time.Date(begin.Year(), begin.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		now = next.Add(-time.Hour)
		testkit.Admit(t, limiter, "k", 1)
		d = testkit.Allow(t, limiter, "k")
		month, _ := d.StateOf("month")
		if length := next.Sub(next.AddDate(0, -1, 0)); d.Allowed || d.RetryAfter != time.Hour || month.Period() != length {
			t.Errorf("%v: the quota decided %v in a period of %v, want a denial for an hour in one of %v", begin, d, month.Period(), length)
		}
		now = next
		testkit.Admit(t, limiter, "k", 2)
	}
}

// A full store makes room for new keys with the quotas of periods that have ended by its clock, whatever the wall clock
// says.
func TestClock_FullOfEndedPeriods(t *testing.T) {
	for _, year := range []int{2020, time.Now().Year(), 2100} {
		now := time.Date(year, 1, 1, 12, 0, 0, 0, time.UTC)
		store := memstore.New(memstore.MaxMemory(128<<10), memstore.Clock(func() time.Time { return now }))
		limiter := testkit.Limiter(t, store, core.Quota("day", core.Daily(1)))
		for day := range 4 {
			denied := 0
			for i := range 2000 {
				if !testkit.Allow(t, limiter, fmt.Sprint(day, " ", i)).Allowed {
					denied++
				}
			}
			if denied > 600 {
				t.Errorf("year %d, day %d: %d of 2000 new keys were denied, want at most 600", year, day, denied)
			}
			now = now.AddDate(0, 0, 2)
		}
	}
}

// A time before 1970, such as the zero Time, is no reason to admit everything.
func TestClock_Before1970(t *testing.T) {
	for _, begin := range []time.Time{{}, time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(-1, 0), time.Unix(0, 0)} {
		now := begin
		store := memstore.New(memstore.Clock(func() time.Time { return now }))
		rules := []core.Rule{core.Quota("quota", core.Monthly(3))}
		for _, a := range testkit.Algorithms {
			rules = append(rules, a.Rule(a.Name, core.PerMinute(3)))
		}
		for _, rule := range rules {
			limiter := testkit.Limiter(t, store, rule)
			testkit.Admit(t, limiter, "k", 3)
			if d := testkit.Allow(t, limiter, "k"); d.Allowed {
				t.Errorf("%v, %s: got %v", begin, rule.Name(), d)
			}
		}
		if got := store.Describe().Clock(); got.Unix() != 0 {
			t.Errorf("%v: the store has the time %v", begin, got)
		}
	}
}

// Concurrent callers do not make the time of the option step back.
func TestClock_concurrent(t *testing.T) {
	const window, limit, calls = 100, 10, 500 // microseconds, which pass with each look at the clock
	for _, a := range testkit.Algorithms {
		if a.Kind().Windows || a.Kind().Delays { // whose bounds are others
			continue
		}
		for name, rules := range map[string][]core.Rule{
			"one rule":  {a.Rule("one", core.Per(limit, window*time.Microsecond))},
			"two rules": {a.Rule("two", core.Per(limit, window*time.Microsecond)), core.TokenBucket("wide", core.PerSecond(1_000_000))},
		} {
			t.Run(a.Name+"/"+name, func(t *testing.T) {
				var now, admitted atomic.Int64
				now.Store(1_000_000_000)
				begun := now.Load()
				store := memstore.New(memstore.Clock(func() time.Time { return time.UnixMicro(now.Add(1)) }))
				l := testkit.Limiter(t, store, rules...)
				testkit.Concurrently(32, func(int) {
					for range calls {
						if testkit.Allow(t, l, "k").Allowed {
							admitted.Add(1)
						}
					}
				})
				most := limit + limit*(now.Load()-begun)/window
				if got := admitted.Load(); got > most {
					t.Errorf("got %d admissions in %d us, expected at most %d", got, now.Load()-begun, most)
				}
			})
		}
	}
}
