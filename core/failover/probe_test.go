package failover_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

// A reader is a Store that answers Peeks and refuses writes while it is told to.
type reader struct {
	*memstore.Store
	refuses atomic.Bool
	peeks   atomic.Int64
}

func (r *reader) Take(ctx context.Context, charges []driver.Charge) error {
	if charges[0].Op == driver.Peek {
		r.peeks.Add(1)
	} else if r.refuses.Load() {
		return fmt.Errorf("%w: it refuses writes", core.ErrUnavailable)
	}
	return r.Store.Take(ctx, charges)
}

// A probedReader can be asked whether it refuses writes.
type probedReader struct{ reader }

func (r *probedReader) Probe(context.Context, []driver.Charge) error {
	if r.refuses.Load() {
		return fmt.Errorf("%w: it refuses writes", core.ErrUnavailable)
	}
	return nil
}

// A primary that can be probed is left once, however well it answers reads. It
// is not peeked at.
func TestStore_ProberPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := &probedReader{reader: reader{Store: memstore.New()}}
		var h history
		s := failover.New(primary, memstore.New(), failover.OnChange(h.add))
		defer s.Close()
		l := limiter(t, s, perHour)
		primary.refuses.Store(true)
		for range 500 {
			allow(t, l, "k")
			time.Sleep(20 * time.Millisecond)
		}
		synctest.Wait()
		if got := h.String(); got != "primary-backup" || primary.peeks.Load() != 0 {
			t.Errorf("in 10 s the changes are %q and the primary was peeked at %d times, want one outage and no Peek", got, primary.peeks.Load())
		}
		primary.refuses.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := h.String(); got != oneOutage {
			t.Errorf("2 s after the primary accepts writes again the changes are %q, want %q", got, oneOutage)
		}
	})
}

// A primary that cannot be probed is peeked at. Every decision is made.
func TestStore_PeekedPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := &reader{Store: memstore.New()}
		s := failover.New(primary, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour)
		primary.refuses.Store(true)
		for range 500 {
			if d := allow(t, l, "k"); !d.Allowed {
				t.Fatalf("denied: %+v", d)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if stats := s.Stats(); stats.Probes == 0 || int64(stats.Probes) != primary.peeks.Load() {
			t.Errorf("%d probes and %d Peeks, want as many Peeks as probes", stats.Probes, primary.peeks.Load())
		}
		primary.refuses.Store(false)
		time.Sleep(5 * time.Second)
		if s.State() != failover.Primary {
			t.Errorf("the state is %v, want primary", s.State())
		}
	})
}
