package failover

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A polite store leaves when its context ends, and says so.
type polite struct{ driver.Store }

func (polite) Take(ctx context.Context, _ []driver.Charge) error {
	<-ctx.Done()
	return ctx.Err()
}

// The store may say that its context has ended before the timeout sees it. Nobody but
// the timeout knows of that context.
func TestTimeout_ErrorNamesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timeout := newTimeout(polite{}, time.Second)
		var wg sync.WaitGroup
		for range 2000 {
			wg.Go(func() {
				if err := timeout.call(context.Background(), take, nil); err != timeout.expired || !errors.Is(err, core.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if n := timeout.hanging.Load(); n != 0 {
			t.Errorf("%d calls hang", n)
		}
	})
}

// Who has left before the call began is not charged.
func TestTimeout_EndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(counter)
		timeout := newTimeout(s, time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := timeout.call(ctx, take, nil); err != context.Canceled {
			t.Error(err)
		}
		if synctest.Wait(); s.calls != 0 || timeout.hanging.Load() != 0 {
			t.Errorf("%d calls, %d hang", s.calls, timeout.hanging.Load())
		}
	})
}

type counter struct {
	driver.Store
	calls int
}

func (c *counter) Take(context.Context, []driver.Charge) error {
	c.calls++
	return nil
}
