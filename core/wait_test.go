package core_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// Callers are admitted in the order of their calls, at the rate of the rule.
func TestLimiter_Wait_InOrderOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerSecond(10).WithBurst(1)))
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
					t.Errorf("caller %d: got admitted after %v, want %v", i, time.Since(begin), want)
				}
			})
			synctest.Wait() // until it waits
		}
		wg.Wait()
		if !slices.IsSorted(order) {
			t.Fatalf("got the order %v, want that of the calls", order)
		}
	})
}

// Wait lasts until the Delay is over.
func TestLimiter_Wait_LeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.LeakyBucket("q", core.PerSecond(10).WithBurst(3)))
		begin := time.Now()
		for i := range 5 {
			testkit.Must(t, l.Wait(t.Context(), "k"))
			if want := time.Duration(i) * 100 * time.Millisecond; time.Since(begin) != want {
				t.Errorf("departure %d: got %v, want %v", i, time.Since(begin), want)
			}
		}
	})
}

// WaitN returns an error at once if waiting cannot help.
func TestLimiter_WaitN_Errors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := testkit.Limiter(t, memstore.New(), core.SlidingLog("r", core.PerMinute(5)))
		for _, step := range []struct {
			name    string
			cost    int
			timeout time.Duration
			want    error
			took    time.Duration
		}{
			{"6 of 5", 6, time.Hour, core.ErrNeverAdmitted, 0},
			{"a negative cost", -1, time.Hour, core.ErrNegativeCost, 0},
			{"5 of 5", 5, time.Hour, nil, 0},
			{"a deadline at the time of admission", 1, time.Minute, core.ErrDeadlineTooNear, 0},
			{"no cost", 0, time.Minute, nil, 0},
			{"a deadline just after the time of admission", 1, time.Minute + time.Nanosecond, nil, time.Minute},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), step.timeout)
			defer cancel()
			err := l.WaitN(ctx, "k", step.cost)
			if took := time.Since(begin); !errors.Is(err, step.want) || err != nil && step.want == nil || took != step.took {
				t.Errorf("%s: got %v after %v, want %v after %v", step.name, err, took, step.want, step.took)
			}
		}
	})
}

// Callers that cannot be admitted before their deadline, because of the callers ahead of them, get an
// error at once. The others are admitted.
func TestLimiter_Wait_DeadlineBehindOthers(t *testing.T) {
	for _, c := range []struct {
		name     string
		rules    []core.Rule
		cost     int
		deadline time.Duration
		want     int // of 100 callers
	}{
		{"token bucket", []core.Rule{core.TokenBucket("r", core.PerSecond(10))}, 1, time.Second, 19},
		{"token bucket, deadline at an admission", []core.Rule{core.TokenBucket("r", core.PerSecond(10))}, 1, 1100 * time.Millisecond, 20},
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
				l := testkit.Limiter(t, memstore.New(), c.rules...)
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
							t.Errorf("got %v after %v, want it at once", err, time.Since(begin))
						}
					})
					synctest.Wait() // until it waits, or has its answer
				}
				wg.Wait()
				if got := int(admitted.Load()); got != c.want {
					t.Errorf("got %d callers admitted within %v, want %d", got, c.deadline, c.want)
				}
			})
		})
	}
}

func TestLimiter_EmptyKey(t *testing.T) {
	ctx, l := t.Context(), testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerSecond(1)))
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
	if got := testkit.Left(t, l, "k"); got != 1 {
		t.Errorf("the other key of the decision: got %d left, want 1", got)
	}
}

// A cancelled caller is charged nothing, and does not delay the callers behind it.
func TestLimiter_Wait_Cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerSecond(1)))
		testkit.Must(t, l.Wait(t.Context(), "k"))
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
				t.Errorf("a cancelled caller: got %v, want context.Canceled", err)
			}
		}
		if err := <-results; err != nil || time.Since(begin) != time.Second {
			t.Errorf("the other caller: got %v after %v, want nil after 1s", err, time.Since(begin))
		}
		time.Sleep(time.Second)
		if got := testkit.Left(t, l, "k"); got != 1 {
			t.Errorf("got %d left, want 1", got)
		}
	})
}

// A caller that waits for many units, while calls of Allow take each one, gets an error after a minute, and ten times as long
// as the limit takes to fill up.
func TestLimiter_WaitN_amongAllow(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  core.Rule
		pause time.Duration // between two calls of Allow
		cost  int
		want  error
		most  time.Duration
		more  []core.Rule
	}{
		{"token bucket", core.TokenBucket("r", core.PerSecond(10)), 50 * time.Millisecond, 10, core.ErrTooManyWaiters, 62 * time.Second, nil},
		{
			"beside longer rules that do not deny", core.TokenBucket("r", core.PerSecond(10)), 50 * time.Millisecond, 10, core.ErrTooManyWaiters, 62 * time.Second,
			[]core.Rule{core.FixedWindow("day", core.PerDay(1_000_000)), core.FixedWindow("trial", core.PerDay(10)).Shadow()},
		},
		{
			"beside an unlimited rule", core.TokenBucket("r", core.PerSecond(10)), 50 * time.Millisecond, 10, core.ErrTooManyWaiters, 62 * time.Second,
			[]core.Rule{core.FixedWindow("day", core.Unlimited)},
		},
		{"sliding log", core.SlidingLog("r", core.PerMinute(10)), 50 * time.Millisecond, 10, core.ErrTooManyWaiters, 12 * time.Minute, nil},
		{"sliding window", core.SlidingWindow("r", core.PerMinute(10)), 50 * time.Millisecond, 10, core.ErrTooManyWaiters, 12 * time.Minute, nil},
		{"one unit", core.TokenBucket("r", core.PerSecond(10)), 97 * time.Millisecond, 1, nil, time.Minute, nil},
		{"half of the rate", core.TokenBucket("r", core.PerSecond(10)), 200 * time.Millisecond, 10, nil, time.Minute, nil},
		{"a debt", core.TokenBucket("r", core.PerSecond(10)), 0, 10, nil, time.Hour, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), append(c.more, c.rule)...)
				ctx, stop := context.WithCancel(t.Context())
				var others sync.WaitGroup
				if c.pause == 0 {
					testkit.Must(t, l.Debit(ctx, "k", 10_000)) // 1000 s
				} else {
					for range 10 {
						testkit.Admit(t, l, "k", 1)
						time.Sleep(c.rule.Limit().Per / 11)
					}
					others.Go(func() {
						for ctx.Err() == nil {
							testkit.Allow(t, l, "k")
							time.Sleep(c.pause)
						}
					})
				}
				begin := time.Now()
				if err, took := l.WaitN(t.Context(), "k", c.cost), time.Since(begin); !errors.Is(err, c.want) || err != nil && c.want == nil || took > c.most {
					t.Errorf("got %v after %v, want %v within %v", err, took, c.want, c.most)
				}
				stop()
				others.Wait()
			})
		})
	}
}

// The number of callers of all keys is bounded. Callers of one key do not wait for those of another.
func TestLimiter_Wait_TooManyWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerHour(1)))
		testkit.Must(t, l.Wait(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() {
				if err := l.Wait(ctx, "k"); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := l.Wait(t.Context(), "k"); !errors.Is(err, core.ErrTooManyWaiters) {
			t.Errorf("one more: got %v, want ErrTooManyWaiters", err)
		}
		cancel()
		wg.Wait()
		begin := time.Now()
		if err := l.Wait(t.Context(), "another"); err != nil || time.Since(begin) != 0 {
			t.Errorf("another key: got %v after %v, want nil at once", err, time.Since(begin))
		}
	})
}

// A cancelled caller of a delayed event is refunded if the event is the last of the queue.
func TestLimiter_Wait_CancelledInQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.LeakyBucket("queue", core.PerSecond(1).WithBurst(10)), core.SlidingLog("day", core.PerDay(100)))
		testkit.Must(t, l.Wait(t.Context(), "k"))
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				time.Sleep(time.Millisecond)
				cancel()
			}()
			if err := l.Wait(ctx, "k"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		}
		if got := testkit.Used(t, l, "k"); got[0] != 1 || got[1] != 1 {
			t.Errorf("got %v in use, want 1 of each rule", got)
		}
	})
}

// A caller whose event would depart after its deadline is not charged.
func TestLimiter_Wait_DepartureAfterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.LeakyBucket("r", core.PerSecond(1).WithBurst(5)))
		testkit.Admit(t, l, "k", 3)
		begin := time.Now()
		for _, step := range []struct {
			timeout time.Duration
			want    error
			took    time.Duration
			left    int
		}{{2500 * time.Millisecond, core.ErrDeadlineTooNear, 0, 2}, {3500 * time.Millisecond, nil, 3 * time.Second, 4}} {
			ctx, cancel := context.WithTimeout(t.Context(), step.timeout)
			defer cancel()
			err := l.Wait(ctx, "k")
			if took := time.Since(begin); !errors.Is(err, step.want) || took != step.took {
				t.Errorf("a departure in 3s, a deadline in %v: got %v after %v, want %v after %v", step.timeout, err, took, step.want, step.took)
			}
			if got := testkit.Left(t, l, "k"); got != step.left {
				t.Errorf("a deadline in %v: got %d left, want %d", step.timeout, got, step.left)
			}
		}
	})
}

// Callers of all plans wait in one line. Callers whose plan is Unlimited do not wait, and Blocked is
// never admitted.
func TestLimiter_Wait_Plans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerMinute(10)).
			Plan("pro", core.PerMinute(60)).Plan("staff", core.Unlimited).Plan("banned", core.Blocked).Plan("hour", core.PerHour(5)))
		testkit.Admit(t, l, "k", 10)
		begin := time.Now()
		var wg sync.WaitGroup
		for _, c := range []struct {
			plan string
			want time.Duration
			err  error
		}{
			{"", 6 * time.Second, nil}, {"pro", 7 * time.Second, nil}, {"", 13 * time.Second, nil}, {"hour", 13 * time.Second, nil},
			{"staff", 0, nil}, {"banned", 0, core.ErrNeverAdmitted}, {"pro", 14 * time.Second, nil},
		} {
			wg.Go(func() {
				if err := l.Plan(c.plan).Wait(t.Context(), "k"); !errors.Is(err, c.err) || time.Since(begin) != c.want {
					t.Errorf("plan %q: got %v after %v, want %v after %v", c.plan, err, time.Since(begin), c.err, c.want)
				}
			})
			synctest.Wait() // until it waits
		}
		wg.Wait()
	})
}

// A caller that had no limit when it called Wait, and has one when it is charged, waits.
func TestLimiter_Wait_BecomesLimited(t *testing.T) {
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), a.Rule("r", core.PerMinute(1)).Plan("staff", core.Unlimited))
				testkit.Admit(t, l, "k", 1)
				testkit.Must(t, l.Plan("staff").Debit(t.Context(), "k", 9))
				calls := 0
				chosen := l.Choose(func(context.Context, string) (*core.Limiter, error) {
					if calls++; calls == 1 {
						return l.Plan("staff"), nil
					}
					return nil, nil
				})
				begin := time.Now()
				if err := chosen.Wait(t.Context(), "k"); err != nil || time.Since(begin) < time.Second {
					t.Errorf("got %v after %v, want nil after a wait", err, time.Since(begin))
				}
				if got := testkit.Left(t, l, "k"); got != 0 {
					t.Errorf("got %d left, want 0", got)
				}
			})
		})
	}
}

// Callers of a faster plan with a state of its own do not make the estimate for a caller too long.
func TestLimiter_Wait_OtherPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerHour(10)).Plan("fast", core.PerSecond(1)))
		for range 21 {
			go func() { _ = l.Plan("fast").Wait(t.Context(), "k") }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if err := l.Wait(ctx, "k"); err != nil || time.Since(begin) != 20*time.Second {
			t.Errorf("got %v after %v, want nil after 20s", err, time.Since(begin))
		}
	})
}
