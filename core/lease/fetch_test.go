package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// Callers of a new key share one call, and callers that come during that call share another.
func TestFetch_WaitersShareACall(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		l := x.limiter(x.lease(), rule)
		calls := x.calls(func() {
			testkit.Concurrently(64, func(i int) { testkit.Admit(x, l, "k", 1+i%3) })
		})
		x.expect(1, 2, calls, "calls for 64 callers")
	})
}

// If callers want more than the limit, all of the limit is admitted, however they share calls.
func TestFetch_MoreWaitersThanTokens(t *testing.T) {
	bubbleEach(t, bucketAndWindow(core.PerDay(200)), func(x *fixture, rule core.Rule) {
		l := x.limiter(x.lease(), rule)
		var admitted atomic.Int64
		testkit.Concurrently(300, func(int) {
			if x.ask(l, 1).Allowed {
				admitted.Add(1)
			}
		})
		x.expect(200, 200, int(admitted.Load()), "events")
	})
}

// A key has one call at a time: no prefetch joins a fetch for a caller with a large cost.
func TestFetch_OneAtATime(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		x.admit(l, 1000)
		synctest.Wait()
		held := int(s.Stats().Held)
		blocked, done := make(chan struct{}), make(chan core.Decision)
		x.behind.Set(storetest.Block(blocked))
		go func() { done <- x.ask(l, held+1) }()
		synctest.Wait()
		x.admit(l, held)
		synctest.Wait()
		x.expect(1, 1, x.behind.Active(), "call")
		close(blocked)
		if d := <-done; !d.Allowed {
			x.Errorf("expected an admission, got %+v", d)
		}
	})
}

// A caller with a cost above the remaining tokens, or above the capacity, neither delays others
// nor makes this process lease more.
func TestFetch_CostAboveRemainingTokens(t *testing.T) {
	bubbleEach(t, bucketAndWindow(core.PerDay(1000)), func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		testkit.Must(x, x.limiter(x.memory, rule).Debit(x.Context(), "k", 700))
		x.ask(l, 1)
		costs := []int{1, 400, 1, math.MaxInt, math.MaxInt, 1, 299, 1}
		testkit.Concurrently(len(costs), func(i int) {
			time.Sleep(time.Duration(i)) // one after the other
			begun, n := time.Now(), costs[i]
			d := x.ask(l, n)
			if want := n == 1; d.Allowed != want && n != 299 || (d.RetryAfter == core.Never) != (n > 1000) {
				x.Errorf("cost %d: expected allowed %v, RetryAfter Never above 1000, got %+v", n, want, d)
			}
			if took := time.Since(begun); took > 10*trip {
				x.Errorf("cost %d: expected a decision within %v, got %v", n, 10*trip, took)
			}
		})
		x.expect(0, 300/16, int(s.Stats().Held), "tokens that are held")
	})
}

// A caller with a large cost is served in time while others take small ones.
func TestFetch_LargeCostAmongSmallOnes(t *testing.T) {
	bubble(t, func(x *fixture) {
		x.behind.Set(storetest.Delay(20*time.Millisecond, 0))
		rule := core.TokenBucket("r", core.PerSecond(1000))
		l := x.limiter(x.lease(), rule)
		testkit.Must(x, x.limiter(x.memory, rule).Debit(x.Context(), "k", 900))
		var done atomic.Bool
		testkit.Concurrently(9, func(i int) {
			for ; i < 8 && !done.Load(); time.Sleep(time.Duration(7+i) * time.Millisecond) {
				x.ask(l, 1)
			}
			if i < 8 {
				return
			}
			defer done.Store(true)
			time.Sleep(500 * time.Millisecond)
			for range 100 {
				begun := time.Now()
				x.ask(l, 60)
				if took := time.Since(begun); took > 200*time.Millisecond {
					x.Fatalf("expected a decision within 200 ms, got %v", took)
				}
			}
		})
	})
}

// Callers of a key in debt share a few calls, and a denycache beneath answers later callers.
func TestFetch_KeyInDebt(t *testing.T) {
	bubble(t, func(x *fixture) {
		rule := core.TokenBucket("r", core.PerSecond(1000))
		testkit.Must(x, x.limiter(x.memory, rule).Debit(x.Context(), "k", 5000))
		for _, s := range []*lease.Store{x.lease(), x.overDenycache()} {
			l := x.limiter(s, rule)
			x.expect(1, 2, x.calls(func() { testkit.Concurrently(100, func(int) { x.ask(l, 1) }) }), "calls for 100 callers")
		}
		l := x.limiter(x.overDenycache(), rule)
		calls := x.calls(func() {
			for range 100 {
				x.ask(l, 1)
			}
		})
		x.expect(1, 1, calls, "calls for 100 events in turn")
	})
}

// A caller whose context ends leaves at once, and its call goes on. The tokens of the call are
// held for other callers.
func TestFetch_CallerLeaves(t *testing.T) {
	bubble(t, func(x *fixture) {
		x.behind.Set(storetest.Delay(100*time.Millisecond, 100*time.Millisecond))
		s := x.lease()
		l := x.limiter(s, hourly[0])
		ctx, cancel := context.WithTimeout(x.Context(), 10*time.Millisecond)
		defer cancel()
		begun, stays := time.Now(), make(chan core.Decision)
		go func() {
			time.Sleep(time.Millisecond)
			stays <- x.ask(l, 1)
		}()
		if _, err := l.AllowN(ctx, "k", 500); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 10*time.Millisecond {
			x.Errorf("expected %v after 10 ms, got %v after %v", context.DeadlineExceeded, err, time.Since(begun))
		}
		if d := <-stays; !d.Allowed || time.Since(begun) != 200*time.Millisecond {
			x.Errorf("expected the other caller to be admitted after 200 ms, got %v after %v", d, time.Since(begun))
		}
		time.Sleep(5 * time.Second)
		x.expect(400, 500, int(s.Stats().Held), "tokens of the call, some of which have expired")
		x.expect(0, 0, x.calls(func() { x.admit(l, 100) }), "calls")
	})
}

// An error of the Store behind reaches all callers that wait, and no later ones. Tokens that are
// held are spent meanwhile.
func TestFetch_StoreFails(t *testing.T) {
	down := errors.New("down")
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		fails := func(callers int) {
			x.behind.Set(storetest.Delay(trip, 0), storetest.Fail(down))
			testkit.Concurrently(callers, func(int) {
				if _, err := l.Allow(x.Context(), "k"); !errors.Is(err, down) {
					x.Errorf("expected the error %q, got %v", down, err)
				}
			})
		}
		fails(10)
		x.behind.Set(storetest.Delay(trip, trip))
		x.admit(l, 500)
		x.behind.Set(storetest.Fail(down))
		stats := s.Stats()
		x.expect(50, 500, int(stats.Held), "tokens that are held")
		x.admit(l, int(stats.Held))
		fails(1)
		if leased := s.Stats().Leased; leased != stats.Leased {
			x.Errorf("expected %d leased tokens as before, got %d", stats.Leased, leased)
		}
		x.behind.Set()
		x.admit(l, 10)
	})
}

// A call that is lost after the Store behind has taken the tokens admits nothing.
func TestFetch_ReplyIsLost(t *testing.T) {
	bubbleEach(t, daily, func(x *fixture, rule core.Rule) {
		s, lost := x.lease(), errors.New("lost")
		l := x.limiter(s, rule)
		x.hold(s, rule)
		x.behind.Set(storetest.Lose(lost))
		admitted := 0
		for err := error(nil); err == nil; admitted++ {
			_, err = l.Allow(x.Context(), "k")
		}
		x.behind.Set()
		used, held := 1600-x.left(rule), int(s.Stats().Held)
		if held != 0 || used <= 20+admitted {
			x.Errorf("expected no token and those of the lost call to be used, got %d held, %d used", held, used)
		}
	})
}

// A call ends within Timeout if its Store behind has no deadline.
func TestFetch_Timeout(t *testing.T) {
	bubble(t, func(x *fixture) {
		x.behind.Set(storetest.Block(nil))
		l := x.limiter(x.lease(lease.Timeout(50*time.Millisecond)), hourly[0])
		begun := time.Now()
		if _, err := l.Allow(x.Context(), "k"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 50*time.Millisecond {
			x.Errorf("expected %v after 50 ms, got %v after %v", context.DeadlineExceeded, err, time.Since(begun))
		}
	})
}

// A panic of the Store behind is an error for the callers that wait.
func TestFetch_StorePanics(t *testing.T) {
	bubble(t, func(x *fixture) {
		x.behind.Set(func(context.Context, []driver.Charge, storetest.Call) error { panic("out of order") })
		_, err := x.limiter(x.lease(), hourly[0]).Allow(x.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), "out of order") {
			x.Errorf("expected an error with the text of the panic, got %v", err)
		}
	})
}

// A key with a call under way is not evicted, or it would have two.
func TestFetch_KeyIsNotEvicted(t *testing.T) {
	bubble(t, func(x *fixture) {
		rule := core.TokenBucket("r", core.PerSecond(1000))
		var fetches atomic.Int64
		x.behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			if charges[0].Key == "k" {
				if n := fetches.Add(1); n > 1 {
					x.Errorf("expected one call at a time, got %d", n)
				}
				defer fetches.Add(-1)
				time.Sleep(10 * time.Millisecond)
			}
			return next(ctx, charges)
		})
		l := x.limiter(x.lease(lease.MaxKeys(1)), rule)
		testkit.Concurrently(20, func(i int) {
			time.Sleep(time.Duration(i)) // one after the other
			testkit.Admit(x, l, []string{"k", "other"}[i%2], 1)
		})
	})
}

// A decision waits for one call that hangs, and no longer.
func TestStore_Take_StoreHangs(t *testing.T) {
	const keys = 100
	log, other := core.SlidingLog("log", core.PerHour(1000)), core.FixedWindow("other", core.PerDay(100_000))
	bubbleEach(t, hangRules, func(x *fixture, hot core.Rule) {
		for _, tt := range []struct {
			name    string
			rules   []core.Rule
			timeout time.Duration // of the caller
			longest time.Duration
		}{
			{"one rule", []core.Rule{hot}, time.Hour, hangDeadline},
			{"two rules", []core.Rule{hot, log}, time.Hour, hangDeadline},
			{"three rules", []core.Rule{log, hot, other}, time.Hour, hangDeadline},
			{"two rules, context of 10ms", []core.Rule{hot, log}, 10 * time.Millisecond, 10 * time.Millisecond},
		} {
			s := x.lease()
			x.holdMany(s, hot, keys, 40)
			l := x.limiter(s, tt.rules...)
			x.hang()
			testkit.Concurrently(32, func(g int) {
				for i := range 40 {
					ctx, cancel := context.WithTimeout(x.Context(), tt.timeout)
					begun := time.Now()
					_, _ = l.Allow(ctx, fmt.Sprint("k", (i*32+g)%keys))
					if took := time.Since(begun); took > tt.longest {
						x.Errorf("%s: expected decisions of %v at most, got one of %v", tt.name, tt.longest, took)
					}
					cancel()
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
	})
}

// All callers of one key share its call, so each has the error of that call when it ends.
func TestStore_Take_StoreHangsOneKey(t *testing.T) {
	bubble(t, func(x *fixture) {
		l := x.limiter(x.lease(), hangRules[0])
		x.hang()
		testkit.Concurrently(200, func(i int) {
			time.Sleep(time.Duration(i) * time.Millisecond)
			begun := time.Now()
			if _, err := l.Allow(x.Context(), "k"); !errors.Is(err, errHangs) || time.Since(begun) > hangDeadline {
				x.Errorf("expected the error %q within %v, got %v after %v", errHangs, hangDeadline, err, time.Since(begun))
			}
		})
	})
}

// Bundles that expire, and bundles that are all but spent, make few goroutines.
func TestFetch_GoroutinesWhileStoreHangs(t *testing.T) {
	const keys = 100 // above maxPrefetches
	for _, rule := range hangRules {
		bubble(t, func(x *fixture) {
			s := x.lease(lease.Lifetime(200 * time.Millisecond))
			x.holdMany(s, rule, keys, 40)
			before := x.goroutines()
			x.hang()
			for range 60 {
				time.Sleep(10 * time.Millisecond)
				if n := x.goroutines() - before; n > 8 {
					x.Fatalf("%s: expected 8 goroutines or fewer while bundles expire, got %d", rule.Name(), n)
				}
			}
		})
		bubble(t, func(x *fixture) {
			s := x.lease()
			each := x.holdMany(s, rule, keys, 200)
			before := x.goroutines()
			x.hang()
			l := x.limiter(s, rule)
			begun := time.Now()
			for i := range keys {
				testkit.Admit(x, l, fmt.Sprint("k", i), each*4/5)
			}
			if took := time.Since(begun); took > 0 {
				x.Errorf("%s: expected decisions that do not wait, got %v", rule.Name(), took)
			}
			synctest.Wait()
			x.expect(1, 72, x.goroutines()-before, "goroutines when bundles are spent")
		})
	}
}
