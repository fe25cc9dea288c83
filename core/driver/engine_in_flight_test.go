package driver_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// inFlight compiles a rule of n events at the same time, whose places lapse after a second.
func inFlight(t testing.TB, n int) *driver.Compiled {
	t.Helper()
	return compile(t, driver.Definition{Algorithm: driver.InFlight, Events: n, Hold: time.Second})
}

// byCost compiles a rule of n places by cost, which lapse after a second.
func byCost(t testing.TB, n int) *driver.Compiled {
	t.Helper()
	return compile(t, driver.Definition{Algorithm: driver.InFlight, Events: n, Hold: time.Second, ByCost: true})
}

// receiptAt returns the receipt of a Spend of an unused key of c, which is no bucket in debt.
func receiptAt(c *driver.Compiled, at int64, cost int) driver.Receipt {
	if c.Algorithm == driver.InFlight {
		at = at%(1<<43)<<20 + int64(cost)
	}
	return driver.Receipt{At: at}
}

// The number of an event has its cost in the lowest 20 bits, and the lowest 43 bits of a time in the others. It is the
// time at which the event began, or the first later one that is free for that cost.
func TestInFlight_Numbers(t *testing.T) {
	type step struct {
		at   int64
		cost int
		want int64 // of the time
	}
	for _, base := range []int64{start, 1<<53 - 10, 1<<43*1000 - 1, 5} {
		for _, c := range []struct {
			rule  *driver.Compiled
			steps []step
		}{
			{inFlight(t, 10), []step{{0, 1, 0}, {0, 1, 1}, {0, 1, 2}, {1, 1, 3}, {-2, 1, -2}, {-2, 1, -1}, {-2, 1, 4}, {9, 1, 9}}},
			{byCost(t, 1_000_000), []step{
				{0, 1, 0}, {0, 1, 1}, {0, 2, 0}, {0, 1, 2}, {1, 2, 1}, {1, 1, 3},
				{-2, 1, -2}, {-2, 900_000, -2}, {-2, 1, -1}, {-2, 1, 4},
			}},
		} {
			k := key{rule: c.rule}
			for _, s := range c.steps {
				want := receiptAt(k.rule, base+s.want, s.cost)
				if _, m := k.spend(s.cost, base+s.at); m != want || m.At <= 0 {
					t.Errorf("cost %d at %d: got the receipt %+v, expected %+v", s.cost, base+s.at, m, want)
				}
			}
		}
	}
}

// A rule and its Lasting share States, and differ in nothing but the lapse of places.
func TestCompiled_Lasting(t *testing.T) {
	for _, c := range []*driver.Compiled{inFlight(t, 2), byCost(t, 2)} {
		lasting := c.Lasting
		if lasting == nil || lasting.Lasting != nil || lasting.ID != c.ID || lasting.StateName != c.StateName ||
			lasting.Constants != c.Constants || !lasting.Definition.Equal(c.Definition) {
			t.Fatalf("got %+v for Lasting of %+v", lasting, c)
		}
		if got := rule(t, driver.SlidingLog, 10, 1000).Lasting; got != nil {
			t.Errorf("got %v for Lasting of a log, expected nil", got)
		}
		k := key{rule: lasting}
		k.spend(1, start)
		if got := lasting.ExpiresAt(k.state); got != driver.Never {
			t.Errorf("got ExpiresAt %d, expected Never", got)
		}
		if got, want := c.ExpiresAt(k.state), start+1_000_000; got != want {
			t.Errorf("got ExpiresAt %d of the rule itself, expected %d", got, want)
		}
		if got := lasting.ExpiresAt(driver.State{}); got != 0 {
			t.Errorf("got ExpiresAt %d of the zero State, expected 0", got)
		}
		for seed := range uint64(20) { // without time between the calls, both have the same verdicts
			one, two := key{rule: c}, key{rule: lasting}
			s := newSequence(seed, c)
			for range 200 {
				charge := s.next()
				same := charge
				got, want := two.charge(&same, start), one.charge(&charge, start)
				if got.Rule = c; got != want || same.Receipt != charge.Receipt {
					t.Fatalf("op %d: got %+v, expected %+v", charge.Op, got, want)
				}
				s.remember(charge)
			}
		}
	}
}

// A rule for fewer places reads the places that were taken under the other rule, also if only one of both is by cost.
func TestInFlight_Like(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		large  *driver.Compiled
		small  int
		cost   int                   // of four events
		denied map[int]time.Duration // by the cost
	}{
		{inFlight(t, 5), 2, 1, map[int]time.Duration{1: 998 * ms}},
		{byCost(t, 500), 200, 100, map[int]time.Duration{1: 998 * ms, 100: 998 * ms, 101: 999 * ms, 200: 999 * ms, 201: driver.Never}},
	} {
		large, d := c.large, c.large.Definition
		d.Events, d.Plan, d.Like = c.small, "small", large
		small, part := compile(t, d), large.Divide(2)
		if small.ID != large.ID || small.Lasting.ID != large.ID || part.ID != large.ID || part.ByCost != large.ByCost {
			t.Errorf("got other IDs of %+v and %+v", small, part)
		}
		k := key{rule: large}
		for i := range int64(4) {
			k.spend(c.cost, start+i*1000)
		}
		k.rule = small
		for cost, want := range c.denied {
			v := k.do(driver.Charge{Op: driver.Peek, Cost: cost}, start+4000)
			if v.RetryAfter != want || v.Allowed || v.Remaining != 0 {
				t.Errorf("more than %d places are taken: got %+v for %d, expected a denial for %v", c.small, v, cost, want)
			}
		}
		d.Hold = time.Minute
		if other, err := d.Compile(); err == nil {
			t.Errorf("got %v for another Hold than that of %v", other, large)
		}
		d = large.Definition
		if d.ByCost = !d.ByCost; compile(t, d).ID != large.ID || d.Equal(large.Definition) {
			t.Errorf("a rule that differs from %+v by ByCost has another ID, or is equal", large.Definition)
		}
	}
}

// A Debit and a Credit are no ops of an in-flight rule.
func TestInFlight_OtherOps(t *testing.T) {
	for _, op := range []driver.Op{driver.Debit, driver.Credit} {
		for _, rule := range []*driver.Compiled{inFlight(t, 2), byCost(t, 2)} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("op %d of %v did not panic", op, rule.StateName)
					}
				}()
				(&key{rule: rule}).do(driver.Charge{Op: op, Cost: 1}, start)
			}()
		}
	}
}

// A part of a rule by cost, a soft limit and headroom count places as other rules count events.
func TestInFlight_Modified(t *testing.T) {
	for _, c := range []struct {
		name       string
		change     func(d *driver.Definition)
		part       int
		most, soft int // the largest cost, and the part of it that is beyond the limit
	}{
		{"plain", func(*driver.Definition) {}, 1, 90, 0},
		{"a third", func(*driver.Definition) {}, 3, 30, 0},
		{"soft", func(d *driver.Definition) { d.Soft = 10 }, 1, 99, 9},
		{"headroom", func(d *driver.Definition) { d.Headroom = 30 }, 1, 63, 0},
		{"headroom and soft", func(d *driver.Definition) { d.Headroom, d.Soft = 30, 10 }, 1, 63, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := byCost(t, 90).Definition
			c.change(&d)
			rule := compile(t, d).Divide(c.part)
			for _, cost := range []int{1, c.most - c.soft, c.most, c.most + 1} {
				k := key{rule: rule}
				v, _ := k.spend(cost, start)
				if v.Allowed != (cost <= c.most) || v.Soft != (v.Allowed && cost > c.most-c.soft) ||
					!v.Allowed && v.RetryAfter != driver.Never {
					t.Errorf("cost %d: got %+v", cost, v)
				}
				if want := max(0, c.most-c.soft-cost); v.Allowed && v.Remaining != want {
					t.Errorf("cost %d: got Remaining %d, expected %d", cost, v.Remaining, want)
				}
			}
		})
	}
}
