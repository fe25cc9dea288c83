package failover_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/reference"
	"github.com/weir-go/weir/core/storetest"
)

func TestConformance(t *testing.T) {
	t.Run("primary guarded", conformance(func(_ *testing.T, c *clocked) core.Store { return c }))
	t.Run("primary direct", conformance(func(_ *testing.T, c *clocked) core.Store { return &prompt{c} }))
	t.Run("backup", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) *storetest.Harness {
			c := newClocked()
			return &storetest.Harness{Store: unsigned{away(t, c)}, Now: c.now, Advance: c.advance}
		})
	})
	// A failover Store as the primary of another.
	t.Run("nested", conformance(func(t *testing.T, c *clocked) core.Store { return &prompt{unsigned{away(t, c)}} }))
}

// away is a Store that has left its primary for good.
func away(t *testing.T, backup core.Store) *failover.Store {
	s := failover.New(absent{}, backup)
	t.Cleanup(func() { s.Close() })
	rule := core.TokenBucket("until", core.PerSecond(1))
	for s.State() != failover.Backup {
		if err := s.Take(t.Context(), []driver.Charge{{Key: "until", Rule: rule.Compiled(), Op: driver.Peek, Cost: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func conformance(under func(*testing.T, *clocked) core.Store) func(t *testing.T) {
	return func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) *storetest.Harness {
			c := newClocked()
			s := failover.New(under(t, c), failover.FailClosed, failover.Deadline(time.Minute))
			t.Cleanup(func() { s.Close() })
			return &storetest.Harness{Store: s, Now: c.now, Advance: c.advance}
		})
	}
}

// An unsigned store is one that is always on its backup, for the suite, which
// compares receipts with those of a store that is not made of others.
type unsigned struct{ *failover.Store }

func (u unsigned) Take(ctx context.Context, charges []driver.Charge) error {
	defer u.origin(charges, 0)
	return u.Store.Take(ctx, charges)
}

func (u unsigned) Adjust(ctx context.Context, charges []driver.Charge) error {
	defer u.origin(charges, 0)
	for i := range charges {
		if charges[i].Op == driver.Undo {
			u.origin(charges[i:i+1], 1)
		}
	}
	return u.Store.Adjust(ctx, charges)
}

func (unsigned) origin(charges []driver.Charge, o int) {
	for i := range charges {
		if m := charges[i].Receipt; m != nil {
			m.Origin = o
		}
	}
}

// A clocked store has a clock that stands still.
type clocked struct {
	*reference.Store
	us int64
}

func newClocked() *clocked {
	c := &clocked{us: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()}
	c.Store = reference.New(func() int64 { return c.us })
	return c
}

func (s *clocked) now() time.Time          { return time.UnixMicro(s.us) }
func (s *clocked) advance(d time.Duration) { s.us += d.Microseconds() }
