package lease_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
)

// Somebody who wants more than there is, or than there can be, neither holds up the
// others nor makes this process take what it does not need.
func TestGreed(t *testing.T) {
	for _, rule := range []core.Rule{core.TokenBucket("b", core.PerDay(1000)), core.FixedWindow("w", core.PerDay(1000))} {
		bubble(t, func(r *rig) {
			s := r.lease()
			l := r.limiter(s, rule)
			if !r.ask(r.limiter(r.behind, rule), 700).Allowed {
				t.Fatal("the 700 were denied")
			}
			r.ask(l, 1)
			var wg sync.WaitGroup
			for i, n := range []int{1, 400, 1, math.MaxInt, math.MaxInt, 1, 299, 1} {
				wg.Go(func() {
					begun := time.Now()
					d := r.ask(l, n)
					if want := n == 1; d.Allowed != want && n != 299 {
						t.Errorf("%v: %d: allowed %v", &rule, n, d.Allowed)
					}
					if never := d.RetryAfter == core.Never; never != (n > 1000) {
						t.Errorf("%v: %d: RetryAfter is %v", &rule, n, d.RetryAfter)
					}
					if took := time.Since(begun); took > 10*trip {
						t.Errorf("%v: asker %d, of %d, waited for %v", &rule, i, n, took)
					}
				})
				synctest.Wait() // they come one after the other
			}
			wg.Wait()
			if held := s.Stats().Held; held > 300/16 {
				t.Errorf("%v: %d are held", &rule, held)
			}
		})
	}
}

// Tokens of a bucket that refills within a round trip have expired when they arrive.
func TestFastBucket(t *testing.T) {
	bubble(t, func(r *rig) {
		rule := core.TokenBucket("b", core.PerSecond(1_000_000))
		l := r.limiter(r.lease(), rule)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				for range 20 {
					begun := time.Now()
					if d := r.ask(l, 1+i); !d.Allowed {
						t.Errorf("%d of a million were denied: %+v", 1+i, d.State(0))
					}
					if took := time.Since(begun); took > 8*trip {
						t.Errorf("it took %v", took)
					}
					time.Sleep(time.Duration(i) * time.Millisecond)
				}
			})
		}
		wg.Wait()
	})
}

// A panic of the Store is an error for those who wait, and not the end of the process.
func TestStorePanics(t *testing.T) {
	s := lease.New(new(panicking))
	defer s.Close()
	l := core.Must(core.New(s, hourly[0]))
	if _, err := l.Allow(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "oh no") {
		t.Errorf("got %v", err)
	}
}

type panicking struct{ _ int }

func (*panicking) Take(context.Context, []driver.Charge) error   { panic("oh no") }
func (*panicking) Adjust(context.Context, []driver.Charge) error { panic("oh no") }
