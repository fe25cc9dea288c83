//go:build !race

package denycache_test

import (
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/internal/testkit"
)

// The race detector makes sync.Pool drop what it is given, hence the build tag.

func TestStore_Take_allocations(t *testing.T) {
	rule, ctx := core.TokenBucket("r", core.PerHour(1)), t.Context()
	for _, c := range []struct {
		name   string
		behind core.Store
	}{{"hit", new(no)}, {"miss", new(yes)}} {
		l := testkit.Limiter(t, denycache.New(c.behind), rule)
		if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "k") }); n > 0 {
			t.Errorf("%s: got %v allocations, want 0", c.name, n)
		}
	}
}
