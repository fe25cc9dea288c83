package failover

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
)

// A polite store leaves when its context ends, and says so.
type polite struct{}

func (polite) Take(ctx context.Context, _ []core.Charge) error {
	<-ctx.Done()
	return ctx.Err()
}

// The store may say that its context has ended before the guard sees it. Nobody but
// the guard knows of that context.
func TestGuardNamesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(polite{}, time.Second)
		var wg sync.WaitGroup
		for range 2000 {
			wg.Go(func() {
				if err := g.call(context.Background(), take, nil); err != g.silent || !errors.Is(err, core.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if n := g.hanging.Load(); n != 0 {
			t.Errorf("%d calls hang", n)
		}
	})
}

// Who has left before the call began is not charged.
func TestGuardOfAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(counter)
		g := newGuard(s, time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := g.call(ctx, take, nil); err != context.Canceled {
			t.Error(err)
		}
		if synctest.Wait(); s.calls != 0 || g.hanging.Load() != 0 {
			t.Errorf("%d calls, %d hang", s.calls, g.hanging.Load())
		}
	})
}

type counter struct{ calls int }

func (c *counter) Take(context.Context, []core.Charge) error {
	c.calls++
	return nil
}
