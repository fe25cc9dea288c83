//go:build !race

package core_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// The race detector makes sync.Pool drop what it is given, hence the build tag.
func TestLimiter_Allow_AllocationsOneRule(t *testing.T) {
	ctx := context.Background()
	for _, rule := range []core.Rule{
		core.TokenBucket("bucket", core.PerSecond(1_000_000)),
		core.TokenBucket("denied", core.PerDay(1)),
		core.SlidingLog("log", core.PerHour(5)),
	} {
		l := core.Must(core.New(memstore.New(), rule))
		for range 10 {
			_, _ = l.Allow(ctx, "key")
		}
		if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "key") }); n != 0 {
			t.Errorf("%v: %v allocations a decision, want 0", &rule, n)
		}
	}
}

func TestLimiter_Allow_AllocationsTwoRules(t *testing.T) {
	ctx := context.Background()
	l := core.Must(core.New(memstore.New(), core.TokenBucket("second", core.PerSecond(10)), core.TokenBucket("hour", core.PerHour(500))))
	if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "key") }); n > 1 {
		t.Errorf("%v allocations a decision, want 1", n)
	}
}
