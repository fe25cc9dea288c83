package driver_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A caller that alternates between rates of one length gains less than a microsecond of refill with
// each change to a rate with a larger denominator.
func TestBucket_alternatingRates(t *testing.T) {
	const second = 1e6
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 5))
		rules := make([]*driver.Compiled, 3)
		for i := range rules {
			rules[i] = compile(t, driver.Definition{
				Name: "r", Algorithm: driver.TokenBucket, Events: 100_000 + rng.IntN(900_000), Per: time.Second,
			})
		}
		var s driver.State
		var last int
		var gains int64 // gains is the number of changes to a larger denominator
		all := 0.0      // the microseconds in which the admitted events refill
		for now := int64(1); now < 20_000; {
			i := rng.IntN(len(rules))
			c := driver.Charge{Key: "k", Rule: rules[i], Cost: 1}
			r := c.Read(s, now)
			if c.Answer(&r, false); c.Verdict.Remaining > 100 { // the first charges empty the bucket
				c.Cost = c.Verdict.Remaining
			} else if !c.Verdict.Allowed {
				now += c.Verdict.RetryAfter.Microseconds()
				continue
			}
			s, _ = c.Commit(s, &r, now, true)
			if rules[i].Constants.Denominator > rules[last].Constants.Denominator {
				gains++
			}
			last = i
			refill := second * float64(c.Cost) / float64(rules[i].Constants.Capacity)
			all += refill
			const rounding = 1e-3 // of floating-point numbers
			if bound := second + float64(now+gains) + rounding; all > bound {
				t.Fatalf("seed %d: at %d us, after %d changes, the events refill in %v us, want at most %v", seed, now, gains, all, bound)
			}
		}
	}
}
