package driver_test

import (
	"fmt"
	"math"
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

// A placeStep is a charge of a rule of 10 places by cost, and parts of its Verdict. Times are in milliseconds.
type placeStep struct {
	at    int64
	op    driver.Op
	cost  int
	place int // of the Receipt: the index of the admitted Spend, or -1 for none

	allowed, found     bool
	left               int
	retry, reset, span time.Duration
}

func TestInFlight(t *testing.T) {
	const spend, peek, reset, undo, renew = driver.Spend, driver.Peek, driver.Reset, driver.Undo, driver.Renew
	const never = driver.Never / time.Millisecond
	for _, c := range []struct {
		name   string
		byCost bool // otherwise, two events take all places, as under a rule of two places
		steps  []placeStep
		// The Verdicts with Compiled.Lasting, if they differ.
		lasting []placeStep
	}{
		{"take, and lapse in the order of the places", false, []placeStep{
			{0, peek, 10, -1, true, false, 10, 0, 0, 0},
			{0, spend, 7, -1, true, false, 3, 0, 1000, 0},
			{200, spend, 3, -1, true, false, 0, 0, 1000, 0},
			{300, spend, 3, -1, false, false, 0, 700, 900, 700},
			{999, peek, 7, -1, false, false, 0, 1, 201, 1},
			{1000, peek, 7, -1, true, false, 7, 0, 200, 0},
			{1000, spend, 7, -1, true, false, 0, 0, 1000, 0},
			{3000, peek, 10, -1, true, false, 10, 0, 0, 0},
		}, []placeStep{
			{0, peek, 10, -1, true, false, 10, 0, 0, 0},
			{0, spend, 7, -1, true, false, 3, 0, 1000, 0},
			{200, spend, 3, -1, true, false, 0, 0, 1000, 0},
			{300, spend, 3, -1, false, false, 0, 1000, 1000, 1000},
			{1000, peek, 1, -1, false, false, 0, 1000, 1000, 1000},
			{100_000_000, spend, 10, -1, false, false, 0, 1000, 1000, 1000},
			{100_000_000, undo, 7, 0, true, false, 7, 0, 1000, 0},
			{100_000_000, spend, 7, -1, true, false, 0, 0, 1000, 0},
		}},
		{"events of other costs lapse in their order", true, []placeStep{
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
		}, []placeStep{
			{0, spend, 4, -1, true, false, 6, 0, 1000, 0},
			{200, spend, 6, -1, true, false, 0, 0, 1000, 0},
			{300, spend, 1, -1, false, false, 0, 1000, 1000, 1000},
			{100_000_000, spend, 10, -1, false, false, 0, 1000, 1000, 1000},
			{100_000_000, spend, 11, -1, false, false, 0, never, 1000, 0},
			{100_000_000, undo, 4, 0, true, false, 4, 0, 1000, 0},
			{100_000_000, spend, 4, -1, true, false, 0, 0, 1000, 0},
		}},
		{"undo, renew and reset", false, []placeStep{
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
		}, []placeStep{
			{0, spend, 7, -1, true, false, 3, 0, 1000, 0},
			{0, spend, 3, -1, true, false, 0, 0, 1000, 0},
			{5000, renew, 7, 0, true, true, 0, 0, 1000, 1000},
			{5000, undo, 1, 0, true, false, 7, 0, 1000, 0},
			{5000, undo, 7, 0, true, false, 7, 0, 1000, 0},
			{5000, renew, 7, 0, true, false, 7, 0, 1000, 0},
			{9000, reset, 1, -1, true, true, 10, 0, 0, 0},
			{9000, reset, 1, -1, true, false, 10, 0, 0, 0},
		}},
		{"events that have lapsed", false, []placeStep{
			{0, spend, 9, -1, true, false, 1, 0, 1000, 0},
			{999, renew, 9, 0, true, true, 1, 0, 1000, 0},
			{1000, spend, 1, -1, true, false, 0, 0, 1000, 0},
			{1999, undo, 9, 0, true, false, 9, 0, 1, 0},
			{1998, renew, 9, 0, true, false, 9, 0, 2, 0}, // it was removed
			{2000, renew, 1, 1, true, false, 10, 0, 0, 0},
			{1999, renew, 1, 1, true, false, 10, 0, 0, 0}, // as was this one
			{1999, peek, 10, -1, true, false, 10, 0, 0, 0},
		}, nil},
		{"steps back", false, []placeStep{
			{5000, spend, 6, -1, true, false, 4, 0, 1000, 0},
			{1000, spend, 4, -1, true, false, 0, 0, 1000, 0},
			{500, peek, 1, -1, false, false, 0, 1000, 1000, 1000}, // and corrects the State
			{1499, peek, 10, -1, false, false, 0, 1, 1, 1},
			{1499, undo, 6, 0, true, false, 6, 0, 1, 0},
			{100, renew, 4, 1, true, true, 6, 0, 1000, 0},
			{1100, peek, 10, -1, true, false, 10, 0, 0, 0},
		}, nil},
	} {
		rules := map[string]*driver.Compiled{"by cost": byCost(t, 10), "one place": inFlight(t, 2)}
		if c.byCost {
			delete(rules, "one place")
		}
		for name, rule := range rules {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				testPlaces(t, rule, c.steps)
				if c.lasting != nil {
					testPlaces(t, rule.Lasting, c.lasting)
				}
			})
		}
	}
}

// testPlaces makes the charges of steps. If rule is not by cost, each has the cost 1, and fewer than 10 places are those
// of one event.
func testPlaces(t *testing.T, rule *driver.Compiled, steps []placeStep) {
	t.Helper()
	k := key{rule: rule}
	var receipts []driver.Receipt
	for i, s := range steps {
		if !rule.ByCost {
			s.cost = 1
			switch s.left {
			case 0:
			case 10:
				s.left = 2
			default:
				s.left = 1
			}
		}
		charge := driver.Charge{Op: s.op, Cost: s.cost}
		if s.place >= 0 {
			charge.Receipt = receipts[s.place]
		}
		want := driver.Verdict{
			Rule: rule, Done: !s.op.Asks(), Allowed: s.allowed, Found: s.found, Remaining: s.left, RetryAfter: s.retry * time.Millisecond,
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

// A key has at most 1000 events, however many places are free, and the number of bytes of its State has a bound. The
// 1000th event leaves no place. The memory shrinks when places are freed, and Coarsen joins none.
func TestInFlight_MostEvents(t *testing.T) {
	for _, rule := range []*driver.Compiled{inFlight(t, 1000), byCost(t, 1000), byCost(t, 1001), byCost(t, 1_000_000)} {
		n := rule.Events
		t.Run(fmt.Sprintf("%d, by cost %t", n, rule.ByCost), func(t *testing.T) {
			k := key{rule: rule}
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
			if b := marshal(t, k.state); len(b) > 12_000 || k.state.Amount != 1000 {
				t.Errorf("got %d bytes of %d events, expected at most 12,000 of 1000", len(b), k.state.Amount)
			}
			full, costs := k.state, []int{1}
			if rule.ByCost {
				costs = []int{1, 2, n - 999, n - 998, n}
				if v := k.do(driver.Charge{Cost: n + 1}, start+999); v.RetryAfter != driver.Never || v.Remaining != 0 {
					t.Errorf("an event above the limit: got %+v, expected Never", v)
				}
			}
			for _, cost := range costs {
				lapsed := max(1, cost+1000-n)
				v := k.do(driver.Charge{Cost: cost}, start+999)
				want := time.Second - time.Millisecond + time.Duration(lapsed)*time.Microsecond
				if v.Allowed || v.Remaining != 0 || v.RetryAfter != want {
					t.Errorf("one more event, of cost %d: got %+v, expected a denial until %d have lapsed", cost, v, lapsed)
				}
			}
			if k.state != full || k.state.Coarsen() != full {
				t.Error("denials and Coarsen changed the State")
			}
			for i, m := range taken {
				if v := k.do(driver.Charge{Op: driver.Undo, Cost: 1, Receipt: m}, start+999); v.Remaining != n-999+i {
					t.Fatalf("undo %d: got %+v, expected Remaining %d", i, v, n-999+i)
				}
				if i == 998 && (k.state.Size() > large/20 || k.state.Amount != 1) {
					t.Errorf("got %d bytes for %d events, expected at most %d for 1", k.state.Size(), k.state.Amount, large/20)
				}
			}
			if k.state != (driver.State{}) {
				t.Errorf("got %+v without an event, expected the zero State", k.state)
			}
		})
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
