package denycache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// Adjust removes the denials of its keys, and no others, even if it returns an error.
func TestStore_Adjust(t *testing.T) {
	lost := errors.New("lost")
	for _, c := range []struct {
		name    string
		adjust  func(ctx context.Context, l *core.Limiter, r *core.Reservation) error
		allowed bool
		err     error
	}{
		{"reset", func(ctx context.Context, l *core.Limiter, _ *core.Reservation) error {
			_, err := l.Reset(ctx, "k")
			return err
		}, true, nil},
		{"credit", func(ctx context.Context, l *core.Limiter, _ *core.Reservation) error { return l.Credit(ctx, "k", 1) }, true, nil},
		{"undo", func(ctx context.Context, _ *core.Limiter, r *core.Reservation) error { return r.Refund(ctx) }, true, nil},
		{"debit", func(ctx context.Context, l *core.Limiter, _ *core.Reservation) error { return l.Debit(ctx, "k", 1) }, false, nil},
		{"error", func(ctx context.Context, l *core.Limiter, _ *core.Reservation) error { return l.Credit(ctx, "k", 1) }, true, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
				l := f.limiter(rule("r", core.PerHour(3)))
				r := testkit.Reserve(f, l, "k", 3)
				f.miss(l, "other", 3)
				before := f.hit(l, "k", 1)
				if c.err != nil {
					f.behind.Set(storetest.Lose(c.err))
				}
				if err := c.adjust(f.Context(), l, r); !errors.Is(err, c.err) {
					f.Fatalf("got the error %v, want %v", err, c.err)
				}
				f.behind.Set()
				if d := f.miss(l, "k", 1); d.Allowed != c.allowed || d.RetryAfter < before.RetryAfter && !c.allowed {
					f.Errorf("got %v, want allowed %v", d, c.allowed)
				}
				f.hit(l, "other", 1)
			})
		})
	}
}

// An answer that is under way during a Reset is not cached: neither a denial, nor that nothing
// remains.
func TestStore_Adjust_duringTake(t *testing.T) {
	for name, used := range map[string]int{"denied": 1, "the last event": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := new(storetest.Fake)
				l := testkit.Limiter(t, denycache.New(behind), core.TokenBucket("r", core.PerHour(1)))
				if used > 0 {
					testkit.Admit(t, testkit.Limiter(t, behind, l.Rules()...), "k", used)
				}
				behind.Set(storetest.Delay(0, 100*time.Millisecond))
				var wg sync.WaitGroup
				wg.Go(func() {
					if got, want := testkit.Allow(t, l, "k").Allowed, used == 0; got != want {
						t.Errorf("before the Reset: got allowed %v, want %v", got, want)
					}
				})
				synctest.Wait()
				behind.Set()
				_, err := l.Reset(t.Context(), "k")
				testkit.Must(t, err)
				wg.Wait()
				testkit.Admit(t, l, "k", 1)
			})
		})
	}
}

// A caller that resets a key finds it free, while others ask about it.
func TestStore_Adjust_amongOthers(t *testing.T) {
	s := denycache.New(&storetest.Fake{Clock: new(storetest.Clock).Micros})
	l := testkit.Limiter(t, s, core.SlidingLog("r", core.PerHour(5)))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = s.Take(ctx, []driver.Charge{{Key: "k", Rule: testkit.Compiled(l.Rules()[0]), Op: driver.Peek, Cost: 5}})
			}
		})
	}
	for range 1000 {
		testkit.Admit(t, l, "k", 5)
		_, err := l.Reset(t.Context(), "k")
		testkit.Must(t, err)
	}
	cancel()
	wg.Wait()
}

// A denial is forgotten after an Adjust that panics, too, because the Store may have applied its charges.
func TestStore_Adjust_Panic(t *testing.T) {
	behind := &storetest.Fake{Store: memstore.New()}
	l := testkit.Limiter(t, denycache.New(behind), core.FixedWindow("r", core.PerDay(1)))
	testkit.Admit(t, l, "k", 1)
	behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		testkit.Must(t, next(ctx, charges))
		panic("after the charges")
	})
	testkit.Panics(t, "after the charges", func() { _, _ = l.Reset(t.Context(), "k") })
	behind.Set()
	testkit.Admit(t, l, "k", 1)
}
