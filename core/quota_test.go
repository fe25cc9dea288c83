package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	testkit.Must(t, err)
	return l
}

// A key has the limit in each period of the calendar, and RetryAfter is the time to its end.
func TestQuota(t *testing.T) {
	berlin := location(t, "Europe/Berlin")
	at := func(y int, m time.Month, d, hour int, l *time.Location) time.Time {
		return time.Date(y, m, d, hour, 0, 0, 0, l)
	}
	born := func(day time.Time) func(context.Context, string) time.Time {
		return func(context.Context, string) time.Time { return day }
	}
	for name, c := range map[string]struct {
		rule   core.Rule
		now    time.Time
		resets []time.Time // from now on
	}{
		"day":                     {core.Quota("q", core.Daily(2)), at(2000, 2, 28, 7, time.UTC), []time.Time{at(2000, 2, 29, 0, time.UTC), at(2000, 3, 1, 0, time.UTC)}},
		"week from Monday":        {core.Quota("q", core.Weekly(2)), at(2000, 1, 5, 3, time.UTC), []time.Time{at(2000, 1, 10, 0, time.UTC), at(2000, 1, 17, 0, time.UTC)}},
		"Sunday":                  {core.Quota("q", core.Weekly(2)), at(2000, 1, 9, 23, time.UTC), []time.Time{at(2000, 1, 10, 0, time.UTC)}},
		"Monday":                  {core.Quota("q", core.Weekly(2)), at(2000, 1, 10, 0, time.UTC), []time.Time{at(2000, 1, 17, 0, time.UTC)}},
		"month":                   {core.Quota("q", core.Monthly(2)), at(2000, 1, 31, 23, time.UTC), []time.Time{at(2000, 2, 1, 0, time.UTC), at(2000, 3, 1, 0, time.UTC), at(2000, 4, 1, 0, time.UTC)}},
		"month in Berlin":         {core.Quota("q", core.Monthly(2)).In(berlin), at(2000, 3, 31, 21, time.UTC), []time.Time{at(2000, 3, 31, 22, time.UTC), at(2000, 4, 30, 22, time.UTC)}},
		"day of 23 hours":         {core.Quota("q", core.Daily(2)).In(berlin), at(2000, 3, 26, 0, berlin), []time.Time{at(2000, 3, 26, 22, time.UTC)}},
		"day of 25 hours":         {core.Quota("q", core.Daily(2)).In(berlin), at(2000, 10, 29, 0, berlin), []time.Time{at(2000, 10, 29, 23, time.UTC)}},
		"anchor on the 31st":      {core.Quota("q", core.Monthly(2)).Anchor(born(at(1999, 10, 31, 15, time.UTC))), at(2000, 1, 31, 14, time.UTC), []time.Time{at(2000, 1, 31, 15, time.UTC), at(2000, 2, 29, 15, time.UTC), at(2000, 3, 31, 15, time.UTC), at(2000, 4, 30, 15, time.UTC)}},
		"anchor on the 29th":      {core.Quota("q", core.Monthly(2)).Anchor(born(at(2000, 2, 29, 0, time.UTC))), at(2001, 2, 1, 0, time.UTC), []time.Time{at(2001, 2, 28, 0, time.UTC), at(2001, 3, 29, 0, time.UTC)}},
		"anchor in Berlin":        {core.Quota("q", core.Monthly(2)).In(berlin).Anchor(born(at(2000, 1, 15, 9, berlin))), at(2000, 6, 15, 6, time.UTC), []time.Time{at(2000, 6, 15, 7, time.UTC), at(2000, 7, 15, 7, time.UTC)}},
		"anchor on a weekday":     {core.Quota("q", core.Weekly(2)).Anchor(born(at(2000, 1, 6, 12, time.UTC))), at(2000, 2, 3, 11, time.UTC), []time.Time{at(2000, 2, 3, 12, time.UTC), at(2000, 2, 10, 12, time.UTC)}},
		"anchor at a time of day": {core.Quota("q", core.Daily(2)).Anchor(born(at(1990, 7, 1, 6, time.UTC))), at(2000, 2, 28, 7, time.UTC), []time.Time{at(2000, 2, 29, 6, time.UTC)}},
		"no anchor for the key":   {core.Quota("q", core.Monthly(2)).Anchor(born(time.Time{})), at(2000, 1, 31, 14, time.UTC), []time.Time{at(2000, 2, 1, 0, time.UTC)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(c.now))
				l := testkit.Limiter(t, memstore.New(), c.rule)
				for i, reset := range c.resets {
					testkit.Allow(t, l, "k")
					if d := testkit.Allow(t, l, "k"); !d.Allowed || d.State(0).Remaining != 0 || d.State(0).Window != time.Until(reset) {
						t.Fatalf("period %d: got %v, t = %v, want the reset in %v", i, d, d.State(0).Window, time.Until(reset))
					} else if i > 0 && d.State(0).Period() != reset.Sub(c.resets[i-1]) {
						t.Errorf("period %d: got the length %v, want %v", i, d.State(0).Period(), reset.Sub(c.resets[i-1]))
					}
					d, err := l.Allow(t.Context(), "k")
					if testkit.Must(t, err); d.Allowed || d.RetryAfter != time.Until(reset) {
						t.Fatalf("period %d: got %v, want a denial for %v", i, d, time.Until(reset))
					}
					time.Sleep(d.RetryAfter - time.Microsecond)
					if d, err := l.Allow(t.Context(), "k"); err != nil || d.Allowed {
						t.Errorf("a microsecond before the reset: got %v, %v", d, err)
					}
					time.Sleep(time.Microsecond)
				}
			})
		})
	}
}

// A refund after the reset frees nothing of the next period.
func TestQuota_Refund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.Quota("q", core.Daily(5)))
		time.Sleep(23 * time.Hour)
		before, err := l.Reserve(t.Context(), "k", 3)
		testkit.Must(t, err)
		again, err := l.Reserve(t.Context(), "k", 2)
		testkit.Must(t, err)
		testkit.Must(t, again.Refund(t.Context()))
		if d, err := l.Peek(t.Context(), "k"); err != nil || d.State(0).Remaining != 2 {
			t.Errorf("got %v, %v after a refund in time", d, err)
		}
		time.Sleep(2 * time.Hour)
		now, err := l.Reserve(t.Context(), "k", 4)
		testkit.Must(t, err)
		testkit.Must(t, before.Refund(t.Context()))
		if d, err := l.Peek(t.Context(), "k"); err != nil || d.State(0).Remaining != 1 {
			t.Errorf("got %v, %v after a refund of yesterday", d, err)
		}
		time.Sleep(40 * 24 * time.Hour)
		testkit.Must(t, now.Settle(t.Context(), 6))
		if d, err := l.Peek(t.Context(), "k"); err != nil || d.State(0).Remaining != 3 || d.State(0).Window != 23*time.Hour {
			t.Errorf("got %v, %v after a late debit", d, err)
		}
	})
}

// Another zone or anchor begins no new count before the end of the old period.
func TestQuota_ChangedCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokyo := location(t, "Asia/Tokyo") // where the month ends nine hours earlier
		l := testkit.Limiter(t, memstore.New(), core.Quota("q", core.Monthly(2)))
		time.Sleep(time.Until(time.Date(2000, 1, 31, 14, 0, 0, 0, time.UTC)))
		testkit.Allow(t, l, "k")
		testkit.Must(t, l.Replace(core.Quota("q", core.Monthly(2)).In(tokyo)))
		testkit.Allow(t, l, "k")
		time.Sleep(2 * time.Hour) // February in Tokyo
		if d, err := l.Allow(t.Context(), "k"); err != nil || d.Allowed || d.RetryAfter != 8*time.Hour {
			t.Errorf("got %v, %v, want a denial until the end of the old period", d, err)
		}
		if d := testkit.Allow(t, l, "new"); !d.Allowed || d.State(0).Period() != 29*24*time.Hour {
			t.Errorf("got %v and %v for a new key, want February of Tokyo", d, d.State(0).Period())
		}
		time.Sleep(8 * time.Hour)
		if d := testkit.Allow(t, l, "k"); !d.Allowed || d.State(0).Window != time.Until(time.Date(2000, 3, 1, 0, 0, 0, 0, tokyo)) {
			t.Errorf("got %v and t = %v, want February of Tokyo", d, d.State(0).Window)
		}
	})
}

// Only quotas have periods of the calendar, a zone and an anchor.
func TestQuota_ErrInvalidRule(t *testing.T) {
	anchor := func(context.Context, string) time.Time { return time.Time{} }
	for name, r := range map[string]core.Rule{
		"quota of a span":      core.Quota("q", core.PerHour(5)),
		"quota of no span":     core.Quota("q", core.Limit{Events: 5}),
		"bucket of a month":    core.TokenBucket("q", core.Monthly(5)),
		"log of a day":         core.SlidingLog("q", core.Daily(5)),
		"plan of a span":       core.Quota("q", core.Monthly(5)).Plan("pro", core.PerHour(5)),
		"places of a week":     core.InFlight("q", 5).Plan("pro", core.Weekly(5)),
		"burst":                core.Quota("q", core.Monthly(5).WithBurst(7)),
		"location of a window": core.FixedWindow("q", core.PerHour(5)).In(time.UTC),
		"anchor of a window":   core.FixedWindow("q", core.PerHour(5)).Anchor(anchor),
	} {
		if _, err := core.New(memstore.New(), r); !errors.Is(err, core.ErrInvalidRule) {
			t.Errorf("%s: got %v, want ErrInvalidRule", name, err)
		} else {
			t.Log(err)
		}
	}
	for want, r := range map[string]core.Rule{
		`quota "calls" 1000000/month`:                 core.Quota("calls", core.Monthly(1_000_000)),
		`quota "calls" 7/week in Asia/Tokyo anchored`: core.Quota("calls", core.Weekly(7)).In(location(t, "Asia/Tokyo")).Anchor(anchor),
		`quota "calls" 5/day soft 20% plan "pro"`:     testkit.OfPlan(t, core.Quota("calls", core.Daily(2)).Plan("pro", core.Daily(5)).Soft(20), "pro"),
	} {
		if got := r.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
