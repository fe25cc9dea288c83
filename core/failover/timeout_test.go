package failover

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// The store may return the error of the timeout's own context, which the caller does not know. The
// error of the call names the deadline instead.
func TestTimeout_ErrorNamesDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Fake)
		s.Set(storetest.Block(nil))
		timeout := newTimeout(s, time.Second)
		testkit.Concurrently(1000, func(int) {
			if err := timeout.call(context.Background(), driver.Store.Take, nil); err != timeout.expired || !errors.Is(err, core.ErrUnavailable) {
				t.Errorf("got %v, expected %v", err, timeout.expired)
			}
		})
		synctest.Wait()
		if n := timeout.hanging.Load(); n != 0 {
			t.Errorf("hanging calls: got %d, expected 0", n)
		}
	})
}

// A caller that has left before the call begins is not charged.
func TestTimeout_EndedContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Fake)
		timeout := newTimeout(s, time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := timeout.call(ctx, driver.Store.Take, nil); err != context.Canceled {
			t.Errorf("got %v, expected %v", err, context.Canceled)
		}
		if synctest.Wait(); s.Calls() != 0 || timeout.hanging.Load() != 0 {
			t.Errorf("got %d calls, of which %d hang, expected none", s.Calls(), timeout.hanging.Load())
		}
	})
}

// A store that ends the goroutine of a call has failed.
func TestTimeout_Goexit(t *testing.T) {
	s := new(storetest.Fake)
	s.Set(func(context.Context, []driver.Charge, storetest.Call) error { runtime.Goexit(); return nil })
	if err := newTimeout(s, time.Minute).call(t.Context(), driver.Store.Take, nil); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("got %v, expected %v", err, core.ErrUnavailable)
	}
}
