package testkit

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// Joint waits until s, a Store of package redisstore without a Cluster, decides about several keys in one script. It
// begins to do so when it has found in the background that its server has all hash slots, and until then a charge that
// only peeks is not corrected in a decision that another key denies.
func Joint(t testing.TB, s driver.Store) {
	t.Helper()
	rule := Compiled(core.TokenBucket("joint", core.PerDay(1)))
	begun := time.Now()
	for n := splits(s); ; n = splits(s) {
		Must(t, s.Take(t.Context(), []driver.Charge{
			{Key: "a", Rule: rule, Op: driver.Peek, Cost: 1}, {Key: "b", Rule: rule, Op: driver.Peek, Cost: 1},
		}))
		if splits(s) == n {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("a decision about two keys takes two scripts")
		}
	}
}

// splits returns the number of decisions of s that took several scripts.
func splits(s driver.Store) float64 {
	for _, m := range s.(interface{ Measures() []driver.Measure }).Measures() {
		if m.Name == "weir.redis.split" {
			return m.Value
		}
	}
	panic("the Store has no measure weir.redis.split")
}
