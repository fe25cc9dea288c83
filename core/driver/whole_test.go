package driver_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// The shortcuts for buckets have the results of the methods of Charge, for any state and cost.
func TestCompiled_shortcutsOfBuckets(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	pick := func(from ...int64) int64 { return from[rng.IntN(len(from))] }
	whole, allowed, denied, moved := 0, 0, 0, 0
	for range 100_000 {
		d := driver.Definition{
			Name: "r", Algorithm: driver.TokenBucket, Per: time.Duration(pick(1, 10, 1000, 1e6, 60e6)) * time.Microsecond,
			Events: int(pick(1, 2, 3, 10, 100)), Burst: int(pick(0, 0, 1, 5, 20)), Soft: float64(pick(0, 0, 0, 50)),
		}
		if rng.IntN(4) == 0 {
			d.Algorithm = driver.LeakyBucket
		}
		rule := compile(t, d)
		k := rule.Constants()
		cost := int(1 + rng.Int64N(pick(1, k.Capacity+2)))
		now := start + rng.Int64N(1000)
		until := now + pick(-5, 0, 1, rng.Int64N(k.Full.Micros+2), k.Full.Micros, k.Full.Micros+1, 2*k.Full.Micros) - pick(0, k.Unit.Micros)
		c := driver.Charge{Rule: rule, Op: driver.Op(rng.IntN(2)), Cost: cost}
		state := driver.StateOf(until, 0, 0)
		r := c.Read(state, now)
		next, changed := c.Commit(state, &r, now, true)
		c.Answer(&r, true)

		var v driver.Verdict
		rule.AnswerBucket(&v, r.Used, c.Op, cost)
		if c.Verdict.Rule = nil; v != c.Verdict {
			t.Fatalf("%v, op %d of %d at %d before %d: got %+v, expected %+v", d, c.Op, cost, now, until, v, c.Verdict)
		}
		used, after, fits, ok := rule.TakeWhole(until, now, cost)
		if !ok {
			if changed && !c.Verdict.Allowed {
				moved++
			}
			continue
		}
		whole++
		if changed = changed && c.Op == driver.Spend; fits != c.Verdict.Allowed || r.Used != (driver.Span{Micros: used}) ||
			changed && next != driver.StateOf(now+after, 0, 0) || changed != (fits && c.Op == driver.Spend) {
			t.Fatalf("%v, op %d of %d at %d before %d: got used %d, after %d, fits %t, expected %v, %v, %t",
				d, c.Op, cost, now, until, used, after, fits, r.Used, next, c.Verdict.Allowed)
		}
		if fits {
			allowed++
		} else {
			denied++
		}
	}
	if min(whole, allowed, denied, moved) < 1000 {
		t.Errorf("got %d whole buckets, %d allowed, %d denied, %d corrections, expected 1000 of each", whole, allowed, denied, moved)
	}
}
