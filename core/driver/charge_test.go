package driver_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// MaxDelay is rounded down to microseconds, and 0 is no bound.
func TestCharge_MaxDelay(t *testing.T) {
	queue := compile(t, driver.Definition{Name: "r", Algorithm: driver.LeakyBucket, Events: 1_000_000, Per: time.Second, Burst: 10_000_000})
	for _, c := range []struct {
		op    driver.Op
		delay time.Duration
		ahead int // events, each of which takes a microsecond
		want  bool
	}{
		{driver.Spend, 0, 2_000_000, true},
		{driver.Peek, 1999, 1, true},
		{driver.Peek, 1999, 2, false},
		{driver.Spend, 1, 0, true},
		{driver.Spend, 1, 1, false},
		{driver.Spend, time.Second, 1_000_000, true},
		{driver.Spend, time.Second, 1_000_001, false},
	} {
		k := key{rule: queue}
		if c.ahead > 0 {
			k.spend(c.ahead, start)
		}
		charge := driver.Charge{Rule: queue, Op: c.op, MaxDelay: c.delay, Cost: 1}
		r := charge.Read(k.state, start)
		if got := charge.Fits(&r); got != c.want {
			t.Errorf("op %d with %v behind %d: got %v, expected %v", c.op, c.delay, c.ahead, got, c.want)
		}
	}
}

// Commit charges a Spend that fits if the decision is admitted. It then writes the receipt. An event of a pause
// takes nothing.
func TestCharge_Commit(t *testing.T) {
	for _, c := range rules(t) {
		if c.Algorithm == driver.Pause {
			continue
		}
		for _, step := range []struct {
			name     string
			op       driver.Op
			more     int // than the capacity
			admitted bool
			want     bool
		}{
			{"a Spend that fits", driver.Spend, 0, true, true},
			{"a Spend that is too large", driver.Spend, 1, true, false}, // as for a shadow rule
			{"a Spend of a denied decision", driver.Spend, 0, false, false},
			{"a Peek", driver.Peek, 0, true, false},
		} {
			k := key{rule: c}
			charge := driver.Charge{Rule: c, Op: step.op, Cost: int(c.Constants.Capacity) + step.more}
			if takesOne(c) {
				if charge.Cost = 1; step.more > 0 {
					continue
				}
			}
			r := charge.Read(k.state, start)
			if got := charge.Fits(&r); got != (step.more == 0) {
				t.Errorf("%v: %s: got %v of Fits", c, step.name, got)
			}
			state, changed := charge.Commit(k.state, &r, start, step.admitted)
			if changed != step.want || (state == driver.State{}) == step.want {
				t.Errorf("%v: %s: got %+v, %v, expected a change: %v", c, step.name, state, changed, step.want)
			}
			if wrote := charge.Receipt == receiptAt(c, start, charge.Cost); wrote != step.want {
				t.Errorf("%v: %s: got the receipt %+v", c, step.name, charge.Receipt)
			}
		}
	}
}

// Decide does in one step the same as Read, Commit and Answer, whatever the State and the clock are.
func TestCharge_Decide(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	denied, moved := 0, 0
	for _, c := range rules(t) {
		var one, steps driver.State
		now := start
		for i := range 2000 {
			now += rng.Int64N(2*span(c)) / (1 + rng.Int64N(40))
			if rng.IntN(20) == 0 {
				now -= rng.Int64N(span(c)) + 1
				moved++
			}
			got := driver.Charge{
				Rule: c, Op: driver.Op(rng.IntN(2)), Cost: 1 + rng.IntN(12),
				MaxDelay: time.Duration(rng.IntN(3) * rng.IntN(2_000_000)),
			}
			if takesOne(c) {
				got.Cost = 1
			} else if c.Algorithm != driver.InFlight && rng.IntN(10) == 0 { // a debt
				debit := driver.Charge{Rule: c, Op: driver.Debit, Cost: 1 + rng.IntN(30), Pause: time.Duration(rng.Int64N(span(c))) * time.Microsecond}
				r, again := debit.Read(one, now), debit
				second := r
				one, steps = debit.Apply(one, &r, now), again.Apply(steps, &second, now)
				continue
			}
			want := got
			r := want.Read(steps, now)
			var changed, wantChanged bool
			steps, wantChanged = want.Commit(steps, &r, now, true)
			want.Answer(&r, true)
			if one, changed = got.Decide(one, now); got != want || changed != wantChanged {
				t.Fatalf("%v, charge %d:\n\tgot  %+v, changed %v\n\twant %+v, changed %v", c, i, got, changed, want, wantChanged)
			}
			if !bytes.Equal(marshal(t, one), marshal(t, steps)) {
				t.Fatalf("%v, charge %d: got the state %+v, want %+v", c, i, one, steps)
			}
			if !got.Verdict.Allowed {
				denied++
			}
		}
	}
	if denied < 1000 || moved < 1000 {
		t.Errorf("got %d denials and %d steps back, want more", denied, moved)
	}
}

// Reduce chooses the largest cost that fits the charges of all enforced rules, or 1.
func TestReduce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	several, reduced := 0, 0
	for range 20_000 {
		var charges []driver.Charge
		var readings []driver.Reading
		most := int(1 + rng.Int64N([]int64{5, 100, math.MaxInt32}[rng.IntN(3)]))
		for range 1 + rng.IntN(3) {
			d := driver.Definition{
				Algorithm: algorithms[rng.IntN(len(algorithms))],
				Events:    1 + rng.IntN([]int{3, 1000, 1_000_003}[rng.IntN(3)]), Per: time.Duration(1+rng.IntN(1_000_000)) * time.Microsecond,
				Soft: float64(rng.IntN(2) * 30), Shadow: rng.IntN(4) == 0,
			}
			if d.Algorithm == driver.SlidingWindow {
				d.SubWindows = 1 + rng.IntN(10)
			}
			op, elapsed := driver.Debit, rng.Int64N(d.Per.Microseconds())
			if d.Algorithm == driver.InFlight {
				d.Events, d.Per, d.Hold, d.ByCost, op = min(d.Events, 700_000), 0, time.Second, true, driver.Spend
			}
			c := driver.Charge{Rule: compile(t, d), Op: op, Cost: 1 + rng.IntN(d.Events*3/2+1)}
			var state driver.State
			if rng.IntN(5) > 0 {
				k := key{rule: c.Rule}
				k.do(c, start)
				state = k.state
			}
			c = driver.Charge{Rule: c.Rule, AtMost: true, Cost: most}
			charges, readings = append(charges, c), append(readings, c.Read(state, start+elapsed))
		}
		fits := func(cost int) bool {
			for i, c := range charges {
				if c.Cost = cost; !c.Rule.Shadow && !c.Fits(&readings[i]) {
					return false
				}
			}
			return true
		}
		driver.Reduce(charges, func(i int) driver.Reading { return readings[i] })
		cost := charges[0].Cost
		for _, c := range charges {
			if c.Cost != cost {
				t.Fatalf("got different costs: %+v", charges)
			}
		}
		if cost < 1 || cost > most || cost > 1 && !fits(cost) || cost < most && fits(cost+1) {
			t.Fatalf("got the cost %d of at most %d, want the largest that fits: %+v with %+v", cost, most, charges, readings)
		}
		if 1 < cost && cost < most {
			if reduced++; len(charges) > 1 {
				several++
			}
		}
	}
	if reduced < 1000 || several < 1000 {
		t.Errorf("got %d reduced costs, %d of several rules, want 1000 of both", reduced, several)
	}
}
