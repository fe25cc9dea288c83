package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// quota returns a quota of events with soft percent more, without periods.
func quota(t testing.TB, unit driver.Calendar, events int, soft float64) *driver.Compiled {
	t.Helper()
	rule, err := driver.Definition{Name: "calls", Algorithm: driver.Quota, Events: events, Calendar: unit, Soft: soft}.Compile()
	testkit.Must(t, err)
	return rule
}

// months returns the periods around the first day of a month of 2026.
func months(boundary time.Month, zone *time.Location) driver.Periods {
	first := func(m time.Month) int64 { return time.Date(2026, m, 1, 0, 0, 0, 0, zone).UnixMicro() }
	return driver.Periods{Start: first(boundary - 1), Boundary: first(boundary), End: first(boundary + 1)}
}

// A calendar is a Store whose clock begins on 2026-01-01, with a state for the key "k".
type calendar struct {
	*storetest.Harness
	t    testing.TB
	rule *driver.Compiled // without periods
}

func newCalendar(t testing.TB, rdb redis.UniversalClient, rule *driver.Compiled) *calendar {
	return &calendar{harness(rdb), t, rule}
}

// do applies a charge of the rule in the periods p.
func (c *calendar) do(p driver.Periods, charge driver.Charge) driver.Charge {
	c.t.Helper()
	charge.Key, charge.Rule = "k", c.rule.During(p)
	charges := []driver.Charge{charge}
	testkit.Must(c.t, storetest.Do(c.t.Context(), c.Store, charges))
	return charges[0]
}

func (c *calendar) spend(p driver.Periods, cost int) driver.Charge {
	c.t.Helper()
	return c.do(p, driver.Charge{Cost: cost})
}

// to sets the clock.
func (c *calendar) to(at time.Time) { c.Advance(at.Sub(c.Now())) }

// A quota begins again at the end of January, in the microsecond of the boundary. The processes before and
// after midnight, whose periods are around different boundaries, get the same decisions.
func TestQuota_boundary(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, redistest.Shared(t).Client(), quota(t, driver.Month, 3, 0))
	january, february := months(1, time.UTC), months(2, time.UTC)
	all := []driver.Periods{months(0, time.UTC), january, february, months(3, time.UTC)} // around the first days of December to March
	c.to(time.Date(2026, 1, 20, 0, 0, 0, 0, time.UTC))
	if v := c.spend(january, 3).Verdict; !v.Allowed || v.Period != 31*86400 || v.Window != 12*day {
		t.Fatalf("the verdict is %+v, want an admission 12 days before the end of January", v)
	}
	for _, before := range []time.Duration{12 * day, time.Hour, time.Microsecond} {
		c.to(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC).Add(-before))
		for _, p := range all {
			if v := c.spend(p, 1).Verdict; v.Allowed || v.RetryAfter != before || v.Period != 31*86400 {
				t.Errorf("%v before the end of January, periods around %v: the verdict is %+v, want a denial until then", before, time.UnixMicro(p.Boundary), v)
			}
		}
	}
	c.Advance(time.Microsecond)
	for i, p := range []driver.Periods{january, february, february} {
		// Beyond their end, the periods of the first process continue with the length of January.
		if v := c.spend(p, 1).Verdict; !v.Allowed || v.Remaining != 2-i {
			t.Errorf("at midnight, process %d: the verdict is %+v, want %d that remain", i, v, 2-i)
		}
	}
	if v := c.spend(february, 1).Verdict; v.Allowed || v.RetryAfter <= 27*day {
		t.Errorf("in February, the verdict is %+v, want a denial until its end", v)
	}
}

// A process whose clock is ahead begins no new count, and one whose clock is behind continues no old one:
// for each server time, a key without a state has the same period in both.
func TestQuota_clocks(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, redistest.Shared(t).Client(), quota(t, driver.Month, 3, 0))
	midnight := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for _, from := range []time.Duration{-time.Hour, -time.Microsecond, 0, time.Microsecond, time.Hour} {
		c.to(midnight.Add(from))
		end, period := midnight, 31
		if from >= 0 {
			end, period = end.AddDate(0, 1, 0), 28
		}
		for _, p := range []driver.Periods{months(2, time.UTC), months(3, time.UTC)} {
			if from < 0 && p != months(2, time.UTC) {
				p = months(1, time.UTC) // a process that is behind by half a month
			}
			v := c.do(p, driver.Charge{Op: driver.Peek, Cost: 1}).Verdict
			if v.Window != end.Sub(c.Now()) || int(v.Period) != period*86400 {
				t.Errorf("%v after midnight, periods around %v: the verdict is %+v, want %d days until %v", from, time.UnixMicro(p.Boundary), v, period, end)
			}
		}
	}
}

// Another zone applies from the end of the period of the state. A clock that steps back within a period
// keeps the count, and one that steps back by years begins the period of that time with it.
func TestQuota_changes(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, redistest.Shared(t).Client(), quota(t, driver.Month, 3, 0))
	tokyo := time.FixedZone("", 9*3600)
	c.to(time.Date(2026, 1, 31, 14, 0, 0, 0, time.UTC))
	c.spend(months(2, time.UTC), 3)
	c.Advance(2 * time.Hour) // February in Tokyo
	if v := c.spend(months(2, tokyo), 1).Verdict; v.Allowed || v.RetryAfter != 8*time.Hour {
		t.Errorf("after a change of the zone, the verdict is %+v, want a denial for 8 h", v)
	}
	c.Advance(8 * time.Hour)
	if v := c.spend(months(2, tokyo), 2).Verdict; !v.Allowed || v.Remaining != 1 || v.Window != 28*day-9*time.Hour {
		t.Errorf("after the old period, the verdict is %+v, want that of February in Tokyo", v)
	}
	c.Advance(-3 * time.Hour)
	if v := c.do(months(2, tokyo), driver.Charge{Op: driver.Peek, Cost: 1}).Verdict; v.Remaining != 1 || v.Window != 28*day-6*time.Hour {
		t.Errorf("after a step back of 3 h, the verdict is %+v, want the count and the end of the state", v)
	}
	c.Advance(-2 * 365 * day)
	old := driver.Periods{Start: c.Now().Add(-day).UnixMicro(), Boundary: c.Now().Add(day).UnixMicro(), End: c.Now().Add(30 * day).UnixMicro()}
	if v := c.spend(old, 1).Verdict; !v.Allowed || v.Remaining != 0 || v.Window != day {
		t.Errorf("after a step back of two years, the verdict is %+v, want the count in the period of then", v)
	}
	if v := c.spend(old, 1).Verdict; v.Allowed || v.RetryAfter != day {
		t.Errorf("after a step back of two years, the verdict is %+v, want a denial for a day", v)
	}
	c.Advance(day)
	if v := c.spend(old, 3).Verdict; !v.Allowed {
		t.Errorf("after the period of then, the verdict is %+v, want an admission", v)
	}
}

// An undo frees events in the period of their charge only. A take of at most a cost takes all that is
// left, if that is less.
func TestQuota_undo(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, redistest.Shared(t).Client(), quota(t, driver.Day, 10, 0))
	p := driver.Periods{Start: c.Now().UnixMicro(), Boundary: c.Now().Add(day).UnixMicro(), End: c.Now().Add(2 * day).UnixMicro()}
	left := func(want int) {
		t.Helper()
		if v := c.do(p, driver.Charge{Op: driver.Peek, Cost: 1}).Verdict; v.Remaining != want {
			t.Errorf("%d remain, want %d", v.Remaining, want)
		}
	}
	undo := func(of driver.Charge, cost int) {
		t.Helper()
		of.Op, of.Cost = driver.Undo, cost
		c.do(p, of)
	}
	c.Advance(23 * time.Hour)
	yesterday := c.spend(p, 4)
	undo(c.spend(p, 3), 2)
	left(5)
	if rest := c.do(p, driver.Charge{Cost: 100, AtMost: true}); !rest.Verdict.Allowed || rest.Cost != 5 {
		t.Errorf("of 100, %d were taken, want 5", rest.Cost)
	}
	left(0)
	if none := c.do(p, driver.Charge{Cost: 100, AtMost: true}); none.Verdict.Allowed {
		t.Errorf("the verdict is %+v, want a denial", none.Verdict)
	}
	c.Advance(time.Hour)
	today := c.spend(p, 3)
	undo(yesterday, 4)
	left(7)
	stepped := today
	stepped.Receipt.Age = 1 // more than the server's clock says
	undo(stepped, 3)
	left(7)
	undo(today, 3)
	left(10)
	if n := c.do(p, driver.Charge{Op: driver.Debit, Cost: 12}).Verdict.Remaining; n != 0 {
		t.Errorf("%d remain after a debit beyond the limit", n)
	}
	c.do(p, driver.Charge{Op: driver.Credit, Cost: 3})
	left(1)
}

// A state that no script writes causes no error, and admits no more than the limit.
func TestQuota_corruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	end := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	month := (31 * day).Microseconds()
	state := func(end, length, count int64) writer {
		return text(quotaText(driver.State{Time: end, Debt: end - length, Amount: count}))
	}
	for _, corrupted := range append(foreign(),
		corruption{"no length", 1, state(end, 0, 3)},
		corruption{"a length of 33 days and a microsecond", 1, state(end, (33*day).Microseconds()+1, 3)},
		corruption{"the largest length", 1, state(end, 1<<56-1, 3)},
		corruption{"an end beyond integers", 1, state(1<<53, month, 3)},
		corruption{"zeros", 1, text(strings.Repeat("\x00", 20))},
		corruption{"a byte more", 1, text(strings.Repeat("\x00", 21))},
		corruption{"twenty bytes of text", 1, text("12345678901234567890")},
		corruption{"the largest end", 0, state(1<<53-1, month, 1)},
		corruption{"no events", 0, state(end, month, 0)},
		corruption{"the largest count", 0, state(end, month, 1<<48-1)},
		corruption{"a count of the limit, to a microsecond ago", 0, state(end-month-1, month, 3)},
		corruption{"a period of a microsecond", 0, state(end, 1, 1)},
	) {
		t.Run(corrupted.name, func(t *testing.T) {
			c := newCalendar(t, rdb, quota(t, driver.Month, 3, 0))
			s := c.Store.(*redisstore.Store)
			p, key := months(2, time.UTC), s.StateKey("k", c.rule)
			for _, op := range []driver.Op{driver.Peek, driver.Credit, driver.Undo, driver.Reset} {
				testkit.Must(t, corrupted.write(t.Context(), rdb, key))
				c.do(p, driver.Charge{Op: op, Cost: 1, Receipt: driver.Receipt{At: c.Now().UnixMicro()}})
				testkit.Must(t, rdb.Del(t.Context(), key).Err())
			}
			testkit.Must(t, corrupted.write(t.Context(), rdb, key))
			admitted := 0
			for range 5 {
				v := c.spend(p, 1).Verdict
				if v.Allowed {
					admitted++
				} else if v.RetryAfter <= 0 || v.RetryAfter > 33*day {
					t.Errorf("the verdict is %+v, want a denial until the end of a period", v)
				}
			}
			if admitted > 3 || corrupted.unreadable == 1 && admitted < 3 {
				t.Errorf("%d were admitted, want 3", admitted)
			}
			if n := s.Stats().Corrupt; n != uint64(corrupted.unreadable) {
				t.Errorf("%d states were counted as corrupt, want %d", n, corrupted.unreadable)
			}
			c.Advance(33 * day)
			if v := c.spend(p, 3).Verdict; !v.Allowed {
				t.Errorf("the verdict is %+v, want an admission in the next period", v)
			}
		})
	}
}

// A state has the name of its period, and expires at its end: in a real Redis, and on a Cluster, where a
// denial undoes the events of other keys.
func TestQuota_keys(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	for _, on := range []struct {
		name string
		rdb  redis.UniversalClient
	}{{"single", single.Client()}, {"cluster", cluster.Client()}} {
		for _, mode := range modes {
			t.Run(on.name+"/"+mode.name, func(t *testing.T) {
				s := newStore(on.rdb, mode.opts...)
				rule := core.Quota("calls", core.Monthly(10)).Anchor(func(_ context.Context, key string) time.Time {
					return time.Now().AddDate(-1, 0, -1-len(key)) // for every call another anchor
				})
				l := testkit.Limiter(t, s, rule)
				keys := []string{"a", "bb", "ccc", "dddd"}
				for _, key := range keys {
					testkit.Admit(t, l, key, 3)
					testkit.Admit(t, l, key, 2)
					name := s.Key(key, rule)
					if !strings.Contains(name, "}d1:month:calls") {
						t.Errorf("the key is %q, want one of a month", name)
					}
					ttl, err := on.rdb.PTTL(t.Context(), name).Result()
					testkit.Must(t, err)
					until := testkit.Peek(t, l, key).State(0).Window
					if ttl < until || ttl > until+waitLimit || until > 31*day {
						t.Errorf("%s: the TTL is %v, want %v", key, ttl, until)
					}
				}
				testkit.Admit(t, l, "dddd", 5)
				var asks []core.Ask
				for _, key := range keys {
					asks = append(asks, core.Ask{Limiter: l, Key: key, Cost: 2})
				}
				if d, err := core.AllowTogether(t.Context(), asks...); err != nil || d.Allowed {
					t.Errorf("the decision is %v, %v, want a denial", d, err)
				}
				for i, want := range []int{5, 5, 5, 10} {
					if got := testkit.Used(t, l, keys[i]); !slices.Equal(got, []int{want}) {
						t.Errorf("%s has used %v, want %d", keys[i], got, want)
					}
				}
				if err := s.Probe(t.Context(), peeks(testkit.Limiter(t, s, rule), keys...)); err != nil {
					t.Errorf("the probe failed: %v", err)
				}
				r, err := l.Reserve(t.Context(), "a", 4)
				testkit.Must(t, err)
				testkit.Must(t, r.Settle(t.Context(), 1))
				if found, err := l.Reset(t.Context(), "bb"); err != nil || !found {
					t.Errorf("Reset returned %t, %v, want true", found, err)
				}
				if got := fmt.Sprint(testkit.Used(t, l, "a"), testkit.Used(t, l, "bb")); got != "[6] [0]" {
					t.Errorf("%s are used, want [6] [0]", got)
				}
			})
		}
	}
}
