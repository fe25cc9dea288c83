package denycache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/reference"
)

// An answer that is on its way when the key is reset is from before: a denial, and
// an admission that left nothing.
func TestAnswerFromBeforeAReset(t *testing.T) {
	for _, used := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			behind, store := far()
			l := limiter(t, denycache.New(store), core.TokenBucket("r", core.PerHour(1)))
			if used > 0 {
				ask(t, limiter(t, behind, l.Rules()...), "k", used)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if ask(t, l, "k", 1).Allowed != (used == 0) {
					t.Error("the first is not what it is meant to be")
				}
			})
			time.Sleep(trip + trip/2) // it is decided, and on its way back
			if asked := behind.Calls(); asked != 1+used {
				t.Fatalf("%d calls", asked)
			}
			if _, err := l.Reset(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if !ask(t, l, "k", 1).Allowed {
				t.Error("denied after the Reset")
			}
		})
	}
}

// Nothing that one process does is admitted differently, however many do it.
func TestTogether(t *testing.T) {
	clocks := newPair()
	behind := reference.New(clocks.now)
	type askedKey struct{}
	s := denycache.New(hook(behind, func(ctx context.Context, charges []driver.Charge) error {
		*ctx.Value(askedKey{}).(*bool) = true
		return behind.Take(ctx, charges)
	}), denycache.MaxAge(age))
	s.SetClock(clocks.localNow)
	var rules []core.Rule
	for i, make := range algorithms {
		rules = append(rules, make(fmt.Sprint("r", i), core.PerSecond(200)))
	}
	var here, there atomic.Int64
	for range 20 {
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for i := range 100 {
					rule := rules[(g+i)%len(rules)]
					charges := []driver.Charge{{Key: fmt.Sprint("k", i%2), Rule: rule.Compiled(), Cost: 1 + i%3}}
					if i%7 == 0 {
						next := rules[(g+i+1)%len(rules)]
						charges = append(charges, driver.Charge{Key: "k0", Rule: next.Compiled(), Cost: 2})
					}
					asked := false
					if err := s.Take(context.WithValue(t.Context(), askedKey{}, &asked), charges); err != nil {
						t.Error(err)
					}
					if asked {
						there.Add(1)
						continue
					}
					here.Add(1)
					for j := range charges {
						charges[j].Op = driver.Peek
					}
					// The clock stands still and nothing is given back: what fitted then fits now.
					if err := behind.Take(t.Context(), charges); err != nil || allowed(charges) {
						t.Errorf("denied here, and behind %+v, %v", charges, err)
					}
				}
			})
		}
		wg.Wait()
		clocks.pass(777 * time.Millisecond)
	}
	t.Logf("%d decided here, %d behind", here.Load(), there.Load())
	if here.Load() < 5000 || there.Load() < 1000 {
		t.Error("too few to have seen anything")
	}
}

// Who resets a key finds it free, whoever else is asking.
func TestResetAmongOthers(t *testing.T) {
	behind := reference.New(newPair().now)
	s := denycache.New(behind)
	l := limiter(t, s, core.SlidingLog("r", core.PerHour(5)))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				peek := []driver.Charge{{Key: "k", Rule: l.Rules()[0].Compiled(), Op: driver.Peek, Cost: 5}}
				_ = s.Take(ctx, peek)
			}
		})
	}
	for range 2000 {
		if !ask(t, l, "k", 5).Allowed {
			t.Fatal("denied after a Reset")
		}
		if _, err := l.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
}
