package observe_test

import (
	"log/slog"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/internal/testkit"
)

func TestStore_Allocations(t *testing.T) {
	for _, limit := range []core.Limit{core.PerSecond(1_000_000), core.PerDay(1), core.Blocked} {
		s := observe.New(memstore.New(), observe.TopKeys(10), observe.Logger(slog.New(slog.DiscardHandler)))
		l := testkit.Limiter(t, s, core.TokenBucket("api", limit))
		ctx := t.Context()
		if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "k") }); n != 0 {
			t.Errorf("%v: got %v allocations, want 0", limit, n)
		}
	}
}
