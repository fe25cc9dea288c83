package failover_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

// A prompt store is one that need not be watched.
type prompt struct{ core.Store }

func (prompt) Deadline() time.Duration { return 0 }

// absent cannot decide.
type absent struct{}

func (absent) Take(context.Context, []driver.Charge) error   { return errAbsent }
func (absent) Adjust(context.Context, []driver.Charge) error { return errAbsent }

var errAbsent = errors.New("connection refused")

func BenchmarkTake(b *testing.B) {
	rule := core.TokenBucket("bench", core.PerSecond(1<<30))
	away := failover.New(absent{}, memstore.New())
	defer away.Close()
	shared := failover.New(absent{}, memstore.New(), failover.Instances(4))
	defer shared.Close()
	for _, bench := range []struct {
		name  string
		store core.Store
		state failover.State
	}{
		{"bare", memstore.New(), failover.Primary},
		{"prompt", failover.New(&prompt{memstore.New()}, memstore.New()), failover.Primary},
		{"guarded", failover.New(memstore.New(), memstore.New()), failover.Primary},
		{"away", away, failover.Backup},
		{"away-share", shared, failover.Backup},
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
