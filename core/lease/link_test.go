package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
)

var bg = context.Background()

// A link is the way to a Store.
type link struct {
	driver.Store
	delay  time.Duration
	before func(charges []driver.Charge) error
	after  func(charges []driver.Charge) error
	n      atomic.Int64
	now    atomic.Int64
	most   atomic.Int64
}

func (l *link) Take(ctx context.Context, ch []driver.Charge) error { return l.do(ctx, ch) }

func (l *link) Adjust(ctx context.Context, ch []driver.Charge) error { return l.do(ctx, ch) }

func (l *link) do(ctx context.Context, ch []driver.Charge) error {
	l.n.Add(1)
	if k := l.now.Add(1); k > l.most.Load() {
		l.most.Store(k)
	}
	defer l.now.Add(-1)
	if l.delay > 0 {
		time.Sleep(l.delay)
	}
	if l.before != nil {
		if err := l.before(ch); err != nil {
			return err
		}
	}
	err := storetest.Do(ctx, l.Store, ch)
	if err == nil && l.after != nil {
		err = l.after(ch)
	}
	return err
}

func take(t *testing.T, s driver.Store, r core.Rule, op driver.Op, cost int) driver.Verdict {
	t.Helper()
	var m driver.Receipt
	ch := []driver.Charge{{Key: "k", Rule: r.Compiled(), Op: op, Cost: cost, Receipt: &m}}
	if err := storetest.Do(bg, s, ch); err != nil {
		t.Fatal(err)
	}
	return ch[0].Verdict
}

// warm spends until something is held.
func warm(t *testing.T, s *Store, r core.Rule) {
	t.Helper()
	for i := 0; i < 400; i++ {
		take(t, s, r, driver.Spend, 1)
		if s.Stats().Held > 0 && i > 20 {
			return
		}
	}
	t.Fatal("nothing held")
}
