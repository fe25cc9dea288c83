package denycache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
)

// Who waits for an answer that does not come goes on without it: when its own
// context ends, when its patience does, and when the other call fails.
func TestWaitersLeave(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		first func(release <-chan struct{}) error // what becomes of the call that is waited for
		want  time.Duration                       // how long the others take
	}{
		"hangs":  {func(release <-chan struct{}) error { <-release; return nil }, 10*time.Millisecond + 2*trip},
		"fails":  {func(<-chan struct{}) error { time.Sleep(time.Millisecond); return broken }, time.Millisecond + 2*trip},
		"panics": {func(<-chan struct{}) error { time.Sleep(time.Millisecond); panic(broken) }, time.Millisecond + 2*trip},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, store := far()
				var first atomic.Pointer[func(<-chan struct{}) error]
				release := make(chan struct{})
				s := denycache.New(hook(store, func(ctx context.Context, charges []driver.Charge) error {
					if f := first.Swap(nil); f != nil {
						if err := (*f)(release); err != nil {
							return err
						}
					}
					return store.Take(ctx, charges)
				}))
				l := limiter(t, s, core.TokenBucket("r", core.PerSecond(1)))
				ask(t, l, "k", 1)
				time.Sleep(ask(t, l, "k", 1).RetryAfter)
				first.Store(&c.first)
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { _ = recover() }()
					_, _ = l.Allow(t.Context(), "k")
				})
				synctest.Wait()
				start := time.Now()
				var admitted atomic.Int64
				for range 5 {
					wg.Go(func() {
						if ask(t, l, "k", 1).Allowed {
							admitted.Add(1)
						}
						if took := time.Since(start); took > c.want {
							t.Errorf("after %v, want %v", took, c.want)
						}
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
				defer cancel()
				wg.Go(func() {
					if _, err := l.Allow(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 100*time.Microsecond {
						t.Errorf("%v after %v", err, time.Since(start))
					}
				})
				time.Sleep(100 * time.Millisecond)
				close(release)
				wg.Wait()
				if s.Probes() != 0 {
					t.Errorf("%d keys are still waited for", s.Probes())
				}
				if admitted.Load() != 1 {
					t.Errorf("%d of the others were admitted, want 1", admitted.Load())
				}
				if ask(t, l, "k", 1).Allowed {
					t.Error("more than the limit")
				}
			})
		})
	}
}
