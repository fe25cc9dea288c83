//go:build !race

package core_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// The build tag is here because sync.Pool drops objects at random under the race detector.
func TestLimiter_Allow_Allocations(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		rules []core.Rule
		want  float64
	}{
		{[]core.Rule{core.TokenBucket("bucket", core.PerSecond(1_000_000))}, 0},
		{[]core.Rule{core.TokenBucket("denied", core.PerDay(1))}, 0},
		{[]core.Rule{core.SlidingLog("log", core.PerHour(5))}, 0},
		{[]core.Rule{core.TokenBucket("second", core.PerSecond(10)), core.TokenBucket("hour", core.PerHour(500))}, 1},
	} {
		l := core.Must(core.New(memstore.New(), c.rules...))
		for range 10 {
			_, _ = l.Allow(ctx, "key")
		}
		if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "key") }); n > c.want {
			t.Errorf("%v: got %v allocations in a decision, want %v", c.rules, n, c.want)
		}
	}
}
