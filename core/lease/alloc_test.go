package lease_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// With the race detector sync.Pool drops values at random, hence the build tag.

func TestStore_Take_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	ctx := t.Context()
	s := lease.New(memstore.New())
	defer s.Close()
	for _, rule := range []core.Rule{
		core.TokenBucket("b", core.PerSecond(100_000_000)), core.FixedWindow("w", core.Per(1<<30, 24*time.Hour)),
	} {
		l := core.Must(core.New(s, rule))
		for range 20_000 { // the bundles grow
			_, _ = l.Allow(ctx, "k")
		}
		if n := testing.AllocsPerRun(2000, func() { _, _ = l.Allow(ctx, "k") }); n > 0 {
			t.Errorf("%v: expected decisions without an allocation, got %v", &rule, n)
		}
	}
}
