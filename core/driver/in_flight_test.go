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

// A placeStep is a charge of an in-flight rule, and parts of its Verdict. Times are in milliseconds.
type placeStep struct {
	at    int64
	op    driver.Op
	place int // of the Receipt: the index of the Spend, or -1 for none

	allowed, found     bool
	left               int
	retry, reset, span time.Duration
}

func TestInFlight(t *testing.T) {
	const spend, peek, reset, undo, renew = driver.Spend, driver.Peek, driver.Reset, driver.Undo, driver.Renew
	for _, c := range []struct {
		name  string
		steps []placeStep
		// The Verdicts with Compiled.Lasting, if they differ.
		lasting []placeStep
	}{
		{"take, and lapse in the order of the places", []placeStep{
			{0, peek, -1, true, false, 2, 0, 0, 0},
			{0, spend, -1, true, false, 1, 0, 1000, 0},
			{200, spend, -1, true, false, 0, 0, 1000, 0},
			{300, spend, -1, false, false, 0, 700, 900, 700},
			{999, peek, -1, false, false, 0, 1, 201, 1},
			{1000, peek, -1, true, false, 1, 0, 200, 0},
			{1000, spend, -1, true, false, 0, 0, 1000, 0},
			{3000, peek, -1, true, false, 2, 0, 0, 0},
		}, []placeStep{
			{0, peek, -1, true, false, 2, 0, 0, 0},
			{0, spend, -1, true, false, 1, 0, 1000, 0},
			{200, spend, -1, true, false, 0, 0, 1000, 0},
			{300, spend, -1, false, false, 0, 1000, 1000, 1000},
			{1000, peek, -1, false, false, 0, 1000, 1000, 1000},
			{100_000_000, spend, -1, false, false, 0, 1000, 1000, 1000},
			{100_000_000, undo, 0, true, false, 1, 0, 1000, 0},
			{100_000_000, spend, -1, true, false, 0, 0, 1000, 0},
		}},
		{"undo, renew and reset", []placeStep{
			{0, spend, -1, true, false, 1, 0, 1000, 0},
			{0, spend, -1, true, false, 0, 0, 1000, 0},
			{100, renew, 0, true, true, 0, 0, 1000, 900}, // the other place lapses first now
			{200, undo, 0, true, false, 1, 0, 800, 0},
			{200, undo, 0, true, false, 1, 0, 800, 0},
			{200, renew, 0, true, false, 1, 0, 800, 0},
			{200, renew, -1, true, false, 1, 0, 800, 0},
			{300, reset, -1, true, true, 2, 0, 0, 0},
			{300, reset, -1, true, false, 2, 0, 0, 0},
			{300, renew, 1, true, false, 2, 0, 0, 0},
		}, []placeStep{
			{0, spend, -1, true, false, 1, 0, 1000, 0},
			{0, spend, -1, true, false, 0, 0, 1000, 0},
			{5000, renew, 0, true, true, 0, 0, 1000, 1000},
			{5000, undo, 0, true, false, 1, 0, 1000, 0},
			{5000, undo, 0, true, false, 1, 0, 1000, 0},
			{5000, renew, 0, true, false, 1, 0, 1000, 0},
			{9000, reset, -1, true, true, 2, 0, 0, 0},
			{9000, reset, -1, true, false, 2, 0, 0, 0},
		}},
		{"a place that has lapsed", []placeStep{
			{0, spend, -1, true, false, 1, 0, 1000, 0},
			{999, renew, 0, true, true, 1, 0, 1000, 0},
			{1999, renew, 0, true, false, 2, 0, 0, 0},
			{1998, renew, 0, true, false, 2, 0, 0, 0}, // it was removed
			{1998, peek, -1, true, false, 2, 0, 0, 0},
		}, nil},
		{"steps back", []placeStep{
			{5000, spend, -1, true, false, 1, 0, 1000, 0},
			{1000, spend, -1, true, false, 0, 0, 1000, 0},
			{500, peek, -1, false, false, 0, 1000, 1000, 1000}, // and corrects the State
			{1499, peek, -1, false, false, 0, 1, 1, 1},
			{1499, undo, 0, true, false, 1, 0, 1, 0},
			{100, renew, 1, true, true, 1, 0, 1000, 0},
			{1100, peek, -1, true, false, 2, 0, 0, 0},
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := inFlight(t, 2)
			testPlaces(t, rule, c.steps)
			if c.lasting != nil {
				testPlaces(t, rule.Lasting, c.lasting)
			}
		})
	}
}

func testPlaces(t *testing.T, rule *driver.Compiled, steps []placeStep) {
	t.Helper()
	k := key{rule: rule}
	var receipts []driver.Receipt
	for i, s := range steps {
		charge := driver.Charge{Op: s.op, Cost: 1}
		if s.place >= 0 {
			charge.Receipt = receipts[s.place]
		}
		want := driver.Verdict{
			Rule: rule, Allowed: s.allowed, Found: s.found, Remaining: s.left, RetryAfter: s.retry * time.Millisecond,
			ResetAfter: s.reset * time.Millisecond, Window: s.span * time.Millisecond,
		}
		if got := k.charge(&charge, start+s.at*1000); got != want {
			t.Fatalf("step %d, op %d at %d ms:\n got %+v\nwant %+v", i, s.op, s.at, got, want)
		}
		if s.op == driver.Spend && s.allowed {
			receipts = append(receipts, charge.Receipt)
		}
	}
}

// The number of a place is the time at which it was taken, or the first later one that is free, before the cost.
func TestInFlight_Numbers(t *testing.T) {
	k := key{rule: inFlight(t, 10)}
	for _, s := range []struct{ at, want int64 }{{0, 0}, {0, 1}, {0, 2}, {1, 3}, {-2, -2}, {-2, -1}, {-2, 4}, {9, 9}} {
		want := (start+s.want)&(1<<43-1)<<20 | 1
		if _, m := k.spend(1, start+s.at); m != (driver.Receipt{At: want}) {
			t.Errorf("at %d: got the receipt %+v, expected %d", s.at, m, want)
		}
	}
}

// A rule and its Lasting share States, and differ in nothing but the lapse of places.
func TestCompiled_Lasting(t *testing.T) {
	c := inFlight(t, 2)
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

// A rule for fewer events reads the places that were taken under the other rule.
func TestInFlight_Like(t *testing.T) {
	large := inFlight(t, 5)
	d := large.Definition
	d.Events, d.Plan, d.Like = 2, "small", large
	small, err := d.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if small.ID != large.ID || small.Lasting.ID != large.ID || large.Divide(2).ID != large.ID {
		t.Errorf("got other IDs of %+v and %+v", small, large.Divide(2))
	}
	k := key{rule: large}
	for i := range int64(4) {
		k.spend(1, start+i*1000)
	}
	k.rule = small
	if v := k.do(driver.Charge{Op: driver.Peek, Cost: 1}, start+4000); v.Allowed || v.RetryAfter != 998*time.Millisecond || v.Remaining != 0 {
		t.Errorf("4 places of 2 are taken: got %+v, expected a denial until the third has lapsed", v)
	}
	d.Hold = time.Minute
	if other, err := d.Compile(); err == nil {
		t.Errorf("got %v for another Hold than that of %v", other, large)
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

// The memory of a key shrinks when places are freed, and Coarsen joins no places.
func TestInFlight_Size(t *testing.T) {
	k := key{rule: inFlight(t, 1000)}
	var taken []driver.Receipt
	for range 1000 {
		_, m := k.spend(1, start)
		taken = append(taken, m)
	}
	large := k.state.Size()
	if k.state.Amount != 1000 || k.state.Coarsen() != k.state {
		t.Errorf("got %+v of Coarsen, expected %+v", k.state.Coarsen(), k.state)
	}
	for i, m := range taken[:999] {
		k.do(driver.Charge{Op: driver.Undo, Cost: 1, Receipt: m}, start+int64(i))
	}
	if got := k.state.Size(); got > large/20 || k.state.Amount != 1 {
		t.Errorf("got %d bytes for %d places, expected at most %d for 1", got, k.state.Amount, large/20)
	}
	if k.do(driver.Charge{Op: driver.Undo, Cost: 1, Receipt: taken[999]}, start); k.state != (driver.State{}) {
		t.Errorf("got %+v without a place, expected the zero State", k.state)
	}
}
