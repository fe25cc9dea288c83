package driver_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

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

// A weightStep is a charge of an in-flight rule by cost, and parts of its Verdict. Times are in milliseconds.
type weightStep struct {
	at    int64
	op    driver.Op
	cost  int
	place int // of the Receipt: the index of the admitted Spend, or -1 for none

	allowed, found     bool
	left               int
	retry, reset, span time.Duration
}

func TestInFlight_ByCost(t *testing.T) {
	const spend, peek, reset, undo, renew = driver.Spend, driver.Peek, driver.Reset, driver.Undo, driver.Renew
	const never = driver.Never / time.Millisecond
	for _, c := range []struct {
		name  string
		steps []weightStep
		// The Verdicts with Compiled.Lasting, if they differ.
		lasting []weightStep
	}{
		{"take, and lapse in the order of the events", []weightStep{
			{0, peek, 10, -1, true, false, 10, 0, 0, 0},
			{0, spend, 4, -1, true, false, 6, 0, 1000, 0},
			{200, spend, 3, -1, true, false, 3, 0, 1000, 0},
			{300, spend, 4, -1, false, false, 3, 700, 900, 700},
			{300, peek, 7, -1, false, false, 3, 700, 900, 700},
			{300, peek, 8, -1, false, false, 3, 900, 900, 900},
			{300, spend, 11, -1, false, false, 3, never, 900, 0},
			{300, spend, math.MaxInt, -1, false, false, 3, never, 900, 0},
			{300, spend, 3, -1, true, false, 0, 0, 1000, 0},
			{999, peek, 4, -1, false, false, 0, 1, 301, 1},
			{1000, peek, 4, -1, true, false, 4, 0, 300, 0},
			{1000, spend, 5, -1, false, false, 4, 200, 300, 200},
			{1000, spend, 4, -1, true, false, 0, 0, 1000, 0},
			{3000, peek, 10, -1, true, false, 10, 0, 0, 0},
		}, []weightStep{
			{0, spend, 4, -1, true, false, 6, 0, 1000, 0},
			{200, spend, 6, -1, true, false, 0, 0, 1000, 0},
			{300, spend, 1, -1, false, false, 0, 1000, 1000, 1000},
			{100_000_000, spend, 10, -1, false, false, 0, 1000, 1000, 1000},
			{100_000_000, spend, 11, -1, false, false, 0, never, 1000, 0},
			{100_000_000, undo, 4, 0, true, false, 4, 0, 1000, 0},
			{100_000_000, spend, 4, -1, true, false, 0, 0, 1000, 0},
		}},
		{"undo, renew and reset", []weightStep{
			{0, spend, 7, -1, true, false, 3, 0, 1000, 0},
			{0, spend, 3, -1, true, false, 0, 0, 1000, 0},
			{100, renew, 7, 0, true, true, 0, 0, 1000, 900}, // the other event lapses first now
			{150, renew, 3, 1, true, true, 0, 0, 1000, 950},
			{200, undo, 1, 0, true, false, 7, 0, 950, 0}, // frees all places of the event
			{200, undo, 6, 0, true, false, 7, 0, 950, 0},
			{200, renew, 7, 0, true, false, 7, 0, 950, 0},
			{200, renew, 7, -1, true, false, 7, 0, 950, 0},
			{300, reset, 1, -1, true, true, 10, 0, 0, 0},
			{300, reset, 1, -1, true, false, 10, 0, 0, 0},
			{300, renew, 3, 1, true, false, 10, 0, 0, 0},
		}, nil},
		{"events that have lapsed", []weightStep{
			{0, spend, 9, -1, true, false, 1, 0, 1000, 0},
			{999, renew, 9, 0, true, true, 1, 0, 1000, 0},
			{1000, spend, 1, -1, true, false, 0, 0, 1000, 0},
			{1999, undo, 9, 0, true, false, 9, 0, 1, 0},
			{1998, renew, 9, 0, true, false, 9, 0, 2, 0}, // it was removed
			{2000, renew, 1, 1, true, false, 10, 0, 0, 0},
		}, nil},
		{"steps back", []weightStep{
			{5000, spend, 6, -1, true, false, 4, 0, 1000, 0},
			{1000, spend, 4, -1, true, false, 0, 0, 1000, 0},
			{500, peek, 1, -1, false, false, 0, 1000, 1000, 1000}, // and corrects the State
			{1499, peek, 10, -1, false, false, 0, 1, 1, 1},
			{1499, undo, 6, 0, true, false, 6, 0, 1, 0},
			{100, renew, 4, 1, true, true, 6, 0, 1000, 0},
			{1100, peek, 10, -1, true, false, 10, 0, 0, 0},
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := byCost(t, 10)
			testWeights(t, rule, c.steps)
			if c.lasting != nil {
				testWeights(t, rule.Lasting, c.lasting)
			}
		})
	}
}

func testWeights(t *testing.T, rule *driver.Compiled, steps []weightStep) {
	t.Helper()
	k := key{rule: rule}
	var receipts []driver.Receipt
	for i, s := range steps {
		charge := driver.Charge{Op: s.op, Cost: s.cost}
		if s.place >= 0 {
			charge.Receipt = receipts[s.place]
		}
		want := driver.Verdict{
			Rule: rule, Allowed: s.allowed, Found: s.found, Remaining: s.left, RetryAfter: s.retry * time.Millisecond,
			ResetAfter: s.reset * time.Millisecond, Window: s.span * time.Millisecond,
		}
		if s.retry == driver.Never/time.Millisecond {
			want.RetryAfter = driver.Never
		}
		if got := k.charge(&charge, start+s.at*1000); got != want {
			t.Fatalf("step %d, op %d of %d at %d ms:\n got %+v\nwant %+v", i, s.op, s.cost, s.at, got, want)
		}
		if s.op == driver.Spend && s.allowed {
			receipts = append(receipts, charge.Receipt)
		}
		k.state = decoded(t, k.state)
	}
}

// The number of an event has its cost in the lowest 20 bits, and the lowest 43 bits of a time in the others. It is the
// time at which the event began, or the first later one that is free for that cost.
func TestInFlight_ByCost_Numbers(t *testing.T) {
	for _, base := range []int64{start, 1<<53 - 10, 1<<43*1000 - 1, 5} {
		k := key{rule: byCost(t, 1_000_000)}
		for _, s := range []struct {
			at   int64
			cost int
			want int64 // of the time
		}{
			{0, 1, 0}, {0, 1, 1}, {0, 2, 0}, {0, 1, 2}, {1, 2, 1}, {1, 1, 3},
			{-2, 1, -2}, {-2, 900_000, -2}, {-2, 1, -1}, {-2, 1, 4},
		} {
			want := receiptAt(k.rule, base+s.want, s.cost)
			if _, m := k.spend(s.cost, base+s.at); m != want || m.At <= 0 {
				t.Errorf("cost %d at %d: got the receipt %+v, expected %+v", s.cost, base+s.at, m, want)
			}
		}
	}
}

// A key has at most 1000 events, however many places are free, and the number of bytes of its State has a bound. The
// 1000th event leaves no place.
func TestInFlight_ByCost_MostEvents(t *testing.T) {
	for _, n := range []int{1000, 1001, 1_000_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			k := key{rule: byCost(t, n)}
			var taken []driver.Receipt
			for i := range 1000 {
				want := n - i - 1
				if i == 999 {
					want = 0
				}
				v, m := k.spend(1, start+int64(i))
				if !v.Allowed || v.Soft || v.Remaining != want {
					t.Fatalf("event %d: got %+v, expected Remaining %d", i, v, want)
				}
				taken = append(taken, m)
			}
			large := k.state.Size()
			if b := marshal(t, k.state); len(b) > 12_000 {
				t.Errorf("got %d bytes of 1000 events, expected at most 12,000", len(b))
			}
			full := k.state
			for _, c := range []struct{ cost, lapsed int }{{1, 1}, {2, 2}, {n - 999, 1}, {n - 998, 2}, {n, 1000}} {
				lapsed := max(1, c.cost+1000-n)
				v := k.do(driver.Charge{Op: driver.Spend, Cost: c.cost}, start+999)
				want := time.Second - time.Millisecond + time.Duration(lapsed)*time.Microsecond
				if v.Allowed || v.Remaining != 0 || v.RetryAfter != want {
					t.Errorf("one more event, of cost %d: got %+v, expected a denial until %d have lapsed", c.cost, v, lapsed)
				}
			}
			above := driver.Charge{Op: driver.Spend, Cost: n + 1}
			if v := k.do(above, start+999); v.RetryAfter != driver.Never || v.Remaining != 0 {
				t.Errorf("an event above the limit: got %+v, expected Never", v)
			}
			if k.state != full || k.state.Coarsen() != full {
				t.Error("denials and Coarsen changed the State")
			}
			for i, m := range taken {
				if v := k.do(driver.Charge{Op: driver.Undo, Cost: 1, Receipt: m}, start+999); v.Remaining != n-999+i {
					t.Fatalf("undo %d: got %+v, expected Remaining %d", i, v, n-999+i)
				}
				if i == 998 && k.state.Size() > large/20 {
					t.Errorf("got %d bytes for an event, expected at most %d", k.state.Size(), large/20)
				}
			}
			if k.state != (driver.State{}) {
				t.Errorf("got %+v without an event, expected the zero State", k.state)
			}
		})
	}
}

// A lower limit reads the weights that were taken under the other limit, and a rule without ByCost has the same States.
func TestInFlight_ByCost_Like(t *testing.T) {
	large := byCost(t, 500)
	d := large.Definition
	d.Events, d.Plan, d.Like = 200, "small", large
	small := compile(t, d)
	if small.ID != large.ID || small.Lasting.ID != large.ID || large.Divide(2).ID != large.ID || !large.Divide(2).ByCost {
		t.Errorf("got other IDs of %+v and %+v", small, large.Divide(2))
	}
	k := key{rule: large}
	for i := range int64(4) {
		k.spend(100, start+i*1000)
	}
	k.rule = small
	const ms = time.Millisecond
	for cost, want := range map[int]time.Duration{1: 998 * ms, 100: 998 * ms, 101: 999 * ms, 200: 999 * ms, 201: driver.Never} {
		v := k.do(driver.Charge{Op: driver.Peek, Cost: cost}, start+4000)
		if v.RetryAfter != want || v.Allowed || v.Remaining != 0 {
			t.Errorf("400 places of 200 are taken: got %+v for %d, expected a denial for %v", v, cost, want)
		}
	}
	d = large.Definition
	if d.ByCost = false; compile(t, d).ID != large.ID || d.Equal(large.Definition) {
		t.Error("a rule without ByCost has another ID, or is equal")
	}
}

// A part of a rule by cost, a soft limit and headroom count places as other rules count events.
func TestInFlight_ByCost_Modified(t *testing.T) {
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
