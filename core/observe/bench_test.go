package observe_test

import (
	"log/slog"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/internal/testkit"
)

// BenchmarkAllow measures one decision without and with a Store of this package, in turn in one run.
func BenchmarkAllow(b *testing.B) {
	for _, decision := range []struct {
		name  string
		limit core.Limit
	}{{"admitted", core.PerSecond(1_000_000_000)}, {"denied", core.PerDay(1)}, {"blocked", core.Blocked}} {
		for _, c := range []struct {
			name string
			over func(core.Store) core.Store
		}{
			{"off", func(s core.Store) core.Store { return s }},
			{"counters", func(s core.Store) core.Store { return observe.New(s) }},
			{"near", func(s core.Store) core.Store { return observe.New(s, observe.Near(0.8)) }},
			{"everything", func(s core.Store) core.Store {
				return observe.New(s, observe.TopKeys(10), observe.Logger(slog.New(slog.DiscardHandler)))
			}},
		} {
			b.Run(decision.name+"/"+c.name, func(b *testing.B) {
				l := core.Must(core.New(c.over(memstore.New()), core.TokenBucket("api", decision.limit)))
				ctx := b.Context()
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.Allow(ctx, "user:ann"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

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
