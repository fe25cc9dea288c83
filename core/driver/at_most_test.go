package driver_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

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
				Algorithm: []driver.Algorithm{driver.TokenBucket, driver.LeakyBucket, driver.FixedWindow, driver.SlidingLog, driver.SlidingWindow, driver.InFlight}[rng.IntN(6)],
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
