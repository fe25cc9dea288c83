package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// The memory of a bucket or a fixed window does not depend on the limit. The memory of a sliding
// window grows with the number of its sub-windows.
func TestMemory_limits(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	const name = "requests per second" // a name of usual length
	for _, c := range []struct {
		rule  core.Rule
		calls int // which together cost four times the limit
		most  int64
	}{
		{core.TokenBucket(name, core.PerSecond(10).WithBurst(1000)), 4, 120},
		{core.TokenBucket(name, core.PerHour(500)), 4, 120},
		{core.TokenBucket(name, core.PerSecond(30_000).WithBurst(3_000_000)), 4, 120},
		{core.TokenBucket(name, core.Per(999_983, 365*24*time.Hour)), 4, 120},
		{core.FixedWindow(name, core.PerHour(500)), 500, 152},
		{core.FixedWindow(name, core.PerHour(1_000_000_000)), 500, 152},
		{core.SlidingWindow(name, core.PerHour(500)), 500, 600},
		{core.SlidingWindow(name, core.PerHour(1_000_000)), 500, 600},
		{core.SlidingWindow(name, core.PerHour(1_000_000_000)), 500, 760},
	} {
		t.Run(c.rule.String(), func(t *testing.T) {
			// The prefixes of other tests differ in length, which counts.
			testkit.Must(t, rdb.FlushAll(t.Context()).Err())
			v := newTarget(t, rdb, c.rule, redisstore.Prefix(redisstore.DefaultPrefix))
			for range c.calls {
				testkit.Ask(t, v.Limiter, "k", 4*c.rule.Capacity()/c.calls)
				v.advance(c.rule.Limit().Per / 240)
			}
			n := memoryOf(t, rdb, v.key)
			t.Logf("%v: %d bytes", &c.rule, n)
			if n > c.most {
				t.Errorf("the state has %d bytes, want at most %d", n, c.most)
			}
		})
	}
}

func TestMemory_log(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	for _, c := range []struct {
		limit  core.Limit
		events int
		cost   int // of one decision
		most   int64
	}{
		{core.PerHour(500), 500, 1, 5200},
		{core.PerDay(1000), 1000, 1, 10400},
		{core.PerHour(1500), 1500, 1, 15600},
		{core.PerHour(1000), 1000, 5, 10400},
		{core.Per(1000, 365*24*time.Hour), 1000, 1, 10400},
		{core.PerHour(1_000_000), 1_000_000, 250_000, 520},
	} {
		t.Run(fmt.Sprintf("%d of %v by %d", c.events, c.limit, c.cost), func(t *testing.T) {
			h := harness(rdb)
			s := h.Store.(*redisstore.Store)
			rule := core.SlidingLog("requests per hour", c.limit)
			l := testkit.Limiter(t, s, rule)
			calls := c.events / c.cost
			for range calls {
				testkit.Admit(t, l, "k", c.cost)
				h.Advance((59 * time.Minute / time.Duration(calls)).Truncate(time.Microsecond))
			}
			if got := testkit.Used(t, l, "k")[0]; got != c.events {
				t.Fatalf("%d events count, want %d", got, c.events)
			}
			n := memoryOf(t, rdb, s.Key("k", rule))
			t.Logf("sliding log %v, %d events within an hour: %d bytes, %.2f each", c.limit, c.events, n, float64(n)/float64(c.events))
			if n > c.most {
				t.Errorf("the state has %d bytes, want at most %d", n, c.most)
			}
		})
	}
}

// A log that is used for a long time keeps only the events of its window, whether costs are small,
// large or mixed.
func TestMemory_logOverTime(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	for _, costs := range [][]int{{1}, {20}, {1, 20}, {8, 9, 1}} {
		t.Run(strings.Trim(fmt.Sprint(costs), "[]"), func(t *testing.T) {
			h := harness(rdb)
			s := h.Store.(*redisstore.Store)
			rule := core.SlidingLog("log", core.PerMinute(40))
			l := testkit.Limiter(t, s, rule)
			key := s.Key("k", rule)
			for range 300 { // an hour and a quarter
				for _, cost := range costs {
					testkit.Ask(t, l, "k", cost)
				}
				h.Advance(15 * time.Second)
				if n := rdb.ZCard(t.Context(), key).Val(); n > 40 {
					t.Fatalf("the state has %d members, want at most 40", n)
				}
				if n := memoryOf(t, rdb, key); n > 1500 {
					t.Fatalf("the state has %d bytes, want at most 1500", n)
				}
			}
		})
	}
}

// TestSlidingWindow_MaxSubWindows_commands fills the largest number of sub-windows. The state stays
// in the compact encoding of Redis. A call reads the state once and writes only the fields that
// change, which bounds the time of the call; see core/DESIGN.md.
func TestSlidingWindow_MaxSubWindows_commands(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	h := harness(rdb)
	s := h.Store.(*redisstore.Store)
	const n = 120 // the largest number
	rule := core.SlidingWindow("r", core.Per(10*n, n*time.Second)).SubWindows(n)
	take := func(op driver.Op, cost int, receipt driver.Receipt) driver.Charge {
		charges := []driver.Charge{{Key: "k", Rule: testkit.Compiled(rule), Op: op, Cost: cost, Receipt: receipt}}
		testkit.Must(t, storetest.Do(t.Context(), s, charges))
		return charges[0]
	}
	var receipts []driver.Receipt
	for range n {
		take(driver.Spend, 8, driver.Receipt{})
		receipts = append(receipts, take(driver.Spend, 1, driver.Receipt{}).Receipt)
		h.Advance(time.Second)
	}
	key := s.Key("k", rule)
	if fields := rdb.HLen(t.Context(), key).Val(); fields > n+5 {
		t.Errorf("the state has %d fields, want at most %d", fields, n+5)
	}
	if encoding := rdb.ObjectEncoding(t.Context(), key).Val(); encoding != "listpack" && encoding != "ziplist" {
		t.Errorf("the encoding is %s, want listpack or ziplist", encoding)
	}
	for _, c := range []struct {
		name string
		call func(i int)
		most int // commands of a call, without TIME because of the harness's clock
	}{
		{"denied, for the cost of half the limit", func(int) {
			if take(driver.Spend, 5*n, driver.Receipt{}).Verdict.Allowed {
				t.Fatal("a cost of half the limit was admitted, want a denial")
			}
		}, 2},
		{"undo", func(i int) { take(driver.Undo, 1, receipts[len(receipts)-1-i]) }, 6},
		{"credit of 1", func(int) { take(driver.Credit, 1, driver.Receipt{}) }, 6},
		{"debit", func(int) { take(driver.Debit, 3, driver.Receipt{}) }, 6},
	} {
		for i := range 20 {
			calls, sum := commandsOf(t, rdb, func() { c.call(i) })
			if sum > c.most {
				t.Fatalf("%s: call %d ran %d commands, want at most %d: %v", c.name, i, sum, c.most, calls)
			}
		}
	}
}

// TestSlidingWindow_MaxSubWindows_clockBack denies two events after the clock stepped back, which
// rewrites 120 sub-windows with one command.
func TestSlidingWindow_MaxSubWindows_clockBack(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const n = 120 // the largest number
	h := harness(redistest.Shared(t).Client())
	l := testkit.Limiter(t, h.Store, core.SlidingWindow("r", core.Per(n, n*time.Second)).SubWindows(n))
	for range n {
		testkit.Admit(t, l, "k", 1)
		h.Advance(time.Second)
	}
	h.Advance(-2 * time.Second)
	for range 2 {
		if d := testkit.Allow(t, l, "k"); d.Allowed {
			t.Fatalf("the decision after the clock stepped back is %+v, want a denial", d)
		}
	}
	testkit.Must(t, l.Credit(t.Context(), "k", 1))
	if n := testkit.Left(t, l, "k"); n != 1 {
		t.Errorf("%d are left after a credit of 1, want 1", n)
	}
}
