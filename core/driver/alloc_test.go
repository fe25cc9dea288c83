package driver_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// A decision allocates nothing, admitted or denied, once the array of a log is large enough. Events
// leave the log here all the time, and their part of the array is used again.
func TestCharge_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	rules := map[string]*driver.Compiled{
		"fraction": compile(t, driver.Definition{Algorithm: driver.LeakyBucket, Events: 7, Per: time.Second}),
		"headroom": compile(t, driver.Definition{Algorithm: driver.TokenBucket, Events: 7, Per: time.Second, Headroom: 50}),
		"quota": compile(t, driver.Definition{Algorithm: driver.Quota, Events: 10, Calendar: driver.Day}).
			During(driver.Periods{Start: start, Boundary: start + 1_000_000, End: start + 2_000_000}),
	}
	for _, a := range testkit.Algorithms {
		rules[a.Name] = testkit.Compiled(a.Rule(a.Name, core.PerSecond(10)))
	}
	for name, rule := range rules {
		c := driver.Charge{Rule: rule, Cost: 1}
		var state driver.State
		now, admitted, denied := start, 0, 0
		decide := func() {
			now += 61_000
			r := c.Read(state, now)
			fits := c.Fits(&r)
			state, _ = c.Commit(state, &r, now, fits)
			c.Answer(&r, fits)
			if c.Verdict.Allowed {
				admitted++
			} else {
				denied++
			}
		}
		for range 100 {
			decide()
		}
		thousand := func() {
			for range 1000 {
				decide()
			}
		}
		if n, _ := testkit.Allocated(5, thousand); n != 0 {
			t.Errorf("%s: got %v allocations in 1000 decisions, expected 0", name, n)
		}
		if admitted < 100 || denied < 100 {
			t.Errorf("%s: got %d admitted and %d denied, expected 100 of both", name, admitted, denied)
		}
	}
}

// An event of a key that is paused from time to time allocates nothing, and neither does a pause.
func TestCharge_AllocationsPause(t *testing.T) {
	testkit.WithoutRace(t)
	k := key{rule: compile(t, driver.Definition{Algorithm: driver.Pause})}
	now, admitted, denied := start, 0, 0
	thousand := func() {
		for i := range 1000 {
			if now++; i%10 == 0 {
				k.do(driver.Charge{Op: driver.Debit, Cost: 1, Pause: 5 * time.Microsecond}, now)
			}
			if v, _ := k.spend(1, now); v.Allowed {
				admitted++
			} else {
				denied++
			}
		}
	}
	if n, _ := testkit.Allocated(5, thousand); n != 0 {
		t.Errorf("got %v allocations in 1000 decisions, expected 0", n)
	}
	if admitted != 2500 || denied != 2500 {
		t.Errorf("got %d admitted and %d denied, expected 2500 of both", admitted, denied)
	}
}

// A rule during periods is two objects, so that a key with periods of its own costs little.
func TestCompiled_During_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	c := compile(t, driver.Definition{Algorithm: driver.Quota, Events: 10, Calendar: driver.Day})
	p := days(start)
	if n := testing.AllocsPerRun(100, func() { c.During(p) }); n > 2 {
		t.Errorf("got %v allocations, expected 2", n)
	}
}

// An event takes a place and frees it without an allocation, while another place of the key is taken.
func TestCharge_AllocationsInFlight(t *testing.T) {
	testkit.WithoutRace(t)
	for _, cost := range []int{1, 7} {
		testAllocationsInFlight(t, cost)
	}
}

// testAllocationsInFlight takes a place, or cost places by cost.
func testAllocationsInFlight(t *testing.T, cost int) {
	k := key{rule: compile(t, driver.Definition{Algorithm: driver.InFlight, Events: 10 * cost, ByCost: cost > 1, Hold: time.Second})}
	now := start
	var taken []driver.Receipt
	take := func() {
		now++
		v, m := k.spend(cost, now)
		if !v.Allowed {
			t.Fatalf("got %+v, expected an event of cost %d admitted", v, cost)
		}
		taken = append(taken, m)
	}
	for range 9 {
		take()
	}
	thousand := func() {
		for range 1000 {
			take()
			k.do(driver.Charge{Op: driver.Renew, Cost: cost, Receipt: taken[4]}, now)
			k.do(driver.Charge{Op: driver.Undo, Cost: cost, Receipt: taken[3]}, now)
			copy(taken[3:], taken[4:])
			taken = taken[:9]
		}
	}
	if n, _ := testkit.Allocated(5, thousand); n != 0 {
		t.Errorf("got %v allocations in 1000 events of cost %d, expected 0", n, cost)
	}
}
