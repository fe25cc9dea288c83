package failover_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func reserveAtMost(t *testing.T, l *core.Limiter, n, want int) *core.Reservation {
	t.Helper()
	r, err := l.ReserveAtMost(t.Context(), "k", n)
	testkit.Must(t, err)
	if r.Cost() != want {
		t.Errorf("at most %d: got the cost %d, want %d: %v", n, r.Cost(), want, r.Decision())
	}
	return r
}

// If the primary fails after it has reduced the cost, the backup decides about the cost of the caller.
// The rest of a block is refunded on the store that charged it.
func TestStore_Take_AtMost(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		l := testkit.Limiter(t, p, core.FixedWindow("small", core.PerDay(10)))
		primary := reserveAtMost(t, l, 100, 10)
		p.set(lose)
		backup := reserveAtMost(t, l, 8, 8)
		testkit.Must(t, backup.Settle(t.Context(), 3))
		p.set()
		testkit.Must(t, primary.Settle(t.Context(), 6))
		reserveAtMost(t, l, 100, 4)
		p.leave()
		reserveAtMost(t, l, 100, 7)
		reserveAtMost(t, l, 100, 0)
	})
}

// A rule that fails open does not bound the cost, and is charged with the others.
func TestBackup_AtMostByRule(t *testing.T) {
	costs := make(map[string]int)
	behind := failover.New(absent(), memstore.New(), failover.FailOpenFor("open"), failover.Instances(2))
	defer behind.Close()
	s := &storetest.Fake{Store: behind}
	s.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		err := next(ctx, charges)
		for _, c := range charges {
			costs[c.Rule.Name] = c.Cost
		}
		return err
	})
	open, window := core.SlidingLog("open", core.PerDay(3)), core.FixedWindow("window", core.PerDay(10))
	reserveAtMost(t, testkit.Limiter(t, s, open, window), 100, 5)
	if costs["open"] != 5 || costs["window"] != 5 {
		t.Errorf("got the costs %v, want 5 of both", costs)
	}
	reserveAtMost(t, testkit.Limiter(t, s, open, window), 100, 0)
	reserveAtMost(t, testkit.Limiter(t, s, open), 100, 100)
}
