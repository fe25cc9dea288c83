package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

var bg = context.Background()

// A link is the way to a Store.
type link struct {
	core.Store
	delay  time.Duration
	before func(charges []core.Charge) error
	after  func(charges []core.Charge) error
	n      atomic.Int64
	now    atomic.Int64
	most   atomic.Int64
}

func (l *link) Take(ctx context.Context, ch []core.Charge) error {
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
	err := l.Store.Take(ctx, ch)
	if err == nil && l.after != nil {
		err = l.after(ch)
	}
	return err
}

func take(t *testing.T, s core.Store, r core.Rule, op core.Op, cost int) core.State {
	t.Helper()
	var m core.Receipt
	ch := []core.Charge{{Key: "k", Rule: r, Op: op, Cost: cost, Receipt: &m}}
	if err := s.Take(bg, ch); err != nil {
		t.Fatal(err)
	}
	return ch[0].State
}

// warm spends until something is held.
func warm(t *testing.T, s *Store, r core.Rule) {
	t.Helper()
	for i := 0; i < 400; i++ {
		take(t, s, r, core.Spend, 1)
		if s.Stats().Held > 0 && i > 20 {
			return
		}
	}
	t.Fatal("nothing held")
}
