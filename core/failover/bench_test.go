package failover_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

func BenchmarkTake(b *testing.B) {
	rule := core.TokenBucket("bench", core.PerSecond(1<<30))
	away := failover.New(absent(), memstore.New())
	defer away.Close()
	divided := failover.New(absent(), memstore.New(), failover.Instances(4))
	defer divided.Close()
	for _, bench := range []struct {
		name  string
		store core.Store
		state failover.State
	}{
		{"bare", memstore.New(), failover.Primary},
		{"direct", failover.New(&deadliner{memstore.New()}, memstore.New()), failover.Primary},
		{"timeout", failover.New(memstore.New(), memstore.New()), failover.Primary},
		{"away", away, failover.Backup},
		{"away, divided", divided, failover.Backup},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := core.Must(core.New(bench.store, rule))
			ctx := context.Background()
			if f, ok := bench.store.(*failover.Store); ok {
				for f.State() != bench.state {
					l.Allow(ctx, "key")
				}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if d, err := l.Allow(ctx, "key"); err != nil || !d.Allowed {
						b.Error(d, err)
						return
					}
				}
			})
		})
	}
}
