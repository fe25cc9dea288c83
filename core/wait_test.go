package core_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

func waiting(rules ...core.Rule) *core.Limiter {
	return core.Must(core.New(memstore.New(), rules...))
}

// Who came first goes first, and everybody goes at the rate.
func TestWaitIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := waiting(core.TokenBucket("r", core.PerSecond(10).WithBurst(1)))
		begin := time.Now()
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := l.WaitN(t.Context(), "k", 1); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				if want := time.Duration(i) * 100 * time.Millisecond; time.Since(begin) != want {
					t.Errorf("waiter %d went after %v, want %v", i, time.Since(begin), want)
				}
			})
			synctest.Wait() // it stands in line
		}
		wg.Wait()
		for i, who := range order {
			if i != who {
				t.Fatalf("the order is %v", order)
			}
		}
	})
}

// A Delay is part of the wait.
func TestWaitHoldsALeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := waiting(core.LeakyBucket("q", core.PerSecond(10).WithBurst(3)))
		begin := time.Now()
		for i := range 5 {
			if err := l.Wait(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			if want := time.Duration(i) * 100 * time.Millisecond; time.Since(begin) != want {
				t.Errorf("departure %d after %v, want %v", i, time.Since(begin), want)
			}
		}
	})
}

// What waiting cannot change is said at once.
func TestWaitSaysNoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := waiting(core.SlidingLog("r", core.PerMinute(5)))
		begin := time.Now()
		if err := l.WaitN(t.Context(), "k", 6); !errors.Is(err, core.ErrNeverAdmitted) {
			t.Errorf("6 of 5: %v", err)
		}
		if err := l.WaitN(t.Context(), "k", -1); !errors.Is(err, core.ErrNegativeCost) {
			t.Errorf("-1: %v", err)
		}
		if err := l.WaitN(t.Context(), "k", 5); err != nil {
			t.Fatal(err)
		}
		near, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.Wait(near, "k"); !errors.Is(err, core.ErrDeadlineTooNear) {
			t.Errorf("a deadline that comes with the turn: %v", err)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("all that took %v", d)
		}
		if err := l.WaitN(t.Context(), "k", 0); err != nil || time.Since(begin) != 0 {
			t.Errorf("nothing: %v after %v", err, time.Since(begin))
		}
		enough, cancel := context.WithTimeout(t.Context(), time.Minute+time.Nanosecond)
		defer cancel()
		if err := l.Wait(enough, "k"); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("just enough: %v after %v", err, time.Since(begin))
		}
	})
}

// Callers that cannot be admitted before their deadline, because of those ahead of them in
// this process, are told so at once. The others are admitted.
func TestWait_DeadlineBehindOthers(t *testing.T) {
	for _, c := range []struct {
		name     string
		rules    []core.Rule
		cost     int
		deadline time.Duration
		want     int // of 100 callers
	}{
		{"token bucket", []core.Rule{core.TokenBucket("r", core.PerSecond(10))}, 1, time.Second, 19},
		{"token bucket, deadline with a turn", []core.Rule{core.TokenBucket("r", core.PerSecond(10))}, 1, 1100 * time.Millisecond, 20},
		{"token bucket of one", []core.Rule{core.TokenBucket("r", core.PerSecond(10).WithBurst(1))}, 1, 3 * time.Second, 30},
		{"token bucket, cost 3", []core.Rule{core.TokenBucket("r", core.PerSecond(10))}, 3, time.Second, 6},
		{"soft token bucket", []core.Rule{core.TokenBucket("r", core.PerSecond(10)).Soft(50)}, 1, time.Second, 24},
		{"odd rate", []core.Rule{core.TokenBucket("r", core.PerSecond(7).WithBurst(3))}, 2, 2 * time.Second, 8},
		{"leaky bucket", []core.Rule{core.LeakyBucket("r", core.PerSecond(10))}, 1, time.Second, 10},
		{"leaky bucket of one", []core.Rule{core.LeakyBucket("r", core.PerSecond(10).WithBurst(1))}, 1, 2 * time.Second, 20},
		{"leaky bucket, cost 3", []core.Rule{core.LeakyBucket("r", core.PerSecond(10))}, 3, time.Second, 4},
		{"fixed window", []core.Rule{core.FixedWindow("r", core.PerSecond(10))}, 1, 2500 * time.Millisecond, 30},
		{"sliding log", []core.Rule{core.SlidingLog("r", core.PerSecond(10))}, 1, 2500 * time.Millisecond, 30},
		{"sliding window", []core.Rule{core.SlidingWindow("r", core.PerSecond(10))}, 1, 2500 * time.Millisecond, 30},
		{"two rules", []core.Rule{core.TokenBucket("r", core.PerSecond(10)), core.SlidingLog("s", core.PerMinute(15))}, 1, 2 * time.Second, 15},
		{"shadow", []core.Rule{core.TokenBucket("r", core.PerSecond(10)), core.SlidingLog("s", core.PerMinute(5)).Shadow()}, 1, time.Second, 19},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := waiting(c.rules...)
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				begin := time.Now()
				var wg sync.WaitGroup
				var admitted atomic.Int64
				for range 100 {
					wg.Go(func() {
						switch err := l.WaitN(ctx, "k", c.cost); {
						case err == nil:
							admitted.Add(1)
						case !errors.Is(err, core.ErrDeadlineTooNear):
							t.Errorf("after %v: got %v, want ErrDeadlineTooNear", time.Since(begin), err)
						case time.Since(begin) > 0:
							t.Errorf("told after %v, want at once: %v", time.Since(begin), err)
						}
					})
					synctest.Wait() // until it stands in line, or has its answer
				}
				wg.Wait()
				if got := int(admitted.Load()); got != c.want {
					t.Errorf("%d callers were admitted within %v, want %d", got, c.deadline, c.want)
				}
			})
		})
	}
}

// An empty key would be one state for everybody whose key is empty by mistake.
func TestLimiter_EmptyKey(t *testing.T) {
	ctx, l := t.Context(), waiting(core.TokenBucket("r", core.PerSecond(1)))
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Allow", func() error { _, err := l.Allow(ctx, ""); return err }},
		{"AllowN", func() error { _, err := l.AllowN(ctx, "", 0); return err }},
		{"Peek", func() error { _, err := l.Peek(ctx, ""); return err }},
		{"Reserve", func() error { _, err := l.Reserve(ctx, "", 1); return err }},
		{"Reset", func() error { _, err := l.Reset(ctx, ""); return err }},
		{"Credit", func() error { return l.Credit(ctx, "", 1) }},
		{"Debit", func() error { return l.Debit(ctx, "", 1) }},
		{"Wait", func() error { return l.Wait(ctx, "") }},
		{"AllowTogether", func() error {
			_, err := core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "k", Cost: 1}, core.Ask{Limiter: l, Cost: 1})
			return err
		}},
	} {
		if err := c.call(); !errors.Is(err, core.ErrEmptyKey) {
			t.Errorf("%s: got %v, want ErrEmptyKey", c.name, err)
		}
	}
	if d, err := l.Peek(ctx, "k"); err != nil || d.State(0).Remaining != 1 {
		t.Errorf("the other key of the decision: got %v, %v, want 1 left", d, err)
	}
}

// Who leaves takes nothing, and holds nobody up.
func TestWaitLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := waiting(core.TokenBucket("r", core.PerSecond(1)))
		if err := l.Wait(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 3)
		for _, ctx := range []context.Context{ctx, ctx, t.Context()} {
			go func() { results <- l.Wait(ctx, "k") }()
			synctest.Wait()
		}
		time.Sleep(500 * time.Millisecond)
		cancel()
		for range 2 {
			if err := <-results; !errors.Is(err, context.Canceled) {
				t.Errorf("one who left: %v", err)
			}
		}
		if err := <-results; err != nil || time.Since(begin) != time.Second {
			t.Errorf("one who stayed: %v after %v", err, time.Since(begin))
		}
		time.Sleep(time.Second)
		if d, _ := l.Peek(t.Context(), "k"); d.State(0).Remaining != 1 {
			t.Errorf("%d are left, want 1", d.State(0).Remaining)
		}
	})
}

// The line is bounded, and one key does not wait for another.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := waiting(core.TokenBucket("r", core.PerHour(1)))
		if err := l.Wait(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range core.MaxWaiters {
			wg.Go(func() {
				if err := l.Wait(ctx, "k"); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := l.Wait(t.Context(), "k"); !errors.Is(err, core.ErrTooManyWaiters) {
			t.Errorf("one more: %v", err)
		}
		cancel()
		wg.Wait()
		begin := time.Now()
		if err := l.Wait(t.Context(), "another"); err != nil || time.Since(begin) != 0 {
			t.Errorf("another key: %v after %v", err, time.Since(begin))
		}
	})
}

// Who leaves while its event is held leaves nothing taken, as long as it is the last
// of the queue.
func TestWaitGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := waiting(core.LeakyBucket("queue", core.PerSecond(1).WithBurst(10)), core.SlidingLog("day", core.PerDay(100)))
		if err := l.Wait(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				time.Sleep(time.Millisecond)
				cancel()
			}()
			if err := l.Wait(ctx, "k"); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait: %v", err)
			}
		}
		d, err := l.Peek(t.Context(), "k")
		if err != nil || d.State(0).Remaining != 9 || d.State(1).Remaining != 99 {
			t.Errorf("%+v, %v: want 9 places and 99 events left", d, err)
		}
	})
}
