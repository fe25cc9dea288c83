package redisstore_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

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
