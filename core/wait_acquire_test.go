package core_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// acquireN waits for n places of the key "k", and fails the test on an error.
func acquireN(t *testing.T, l *core.Limiter, n int) *core.Reservation {
	t.Helper()
	r, err := l.AcquireN(t.Context(), "k", n)
	testkit.Must(t, err)
	return r
}

// Callers get their places in the order of their calls, as soon as enough are free. Those behind the first one wait, too,
// although theirs are free.
func TestLimiter_AcquireN(t *testing.T) {
	type caller struct{ n, minute int } // in which the caller gets its places, for a minute
	for name, c := range map[string]struct {
		rule    core.Rule
		callers []caller
	}{
		"one place": {core.InFlight("exports", 2),
			[]caller{{1, 0}, {1, 0}, {1, 1}, {1, 1}, {1, 2}, {1, 2}, {1, 3}, {1, 3}, {1, 4}, {1, 4}}},
		"by cost": {tokens(10), []caller{{8, 0}, {9, 1}, {1, 1}, {2, 2}, {8, 2}, {1, 3}, {9, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				l := testkit.Limiter(t, s, c.rule, core.TokenBucket("rate", core.PerSecond(1000)))
				all, begun := testkit.Left(t, l, "k"), time.Now()
				var wg sync.WaitGroup
				for i, c := range c.callers {
					wg.Go(func() {
						r := acquireN(t, l, c.n)
						if took := time.Since(begun); took != time.Duration(c.minute)*time.Minute {
							t.Errorf("caller %d: got its %d places after %v, want %d minutes", i, c.n, took, c.minute)
						}
						time.Sleep(time.Minute)
						if err := r.Release(t.Context()); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				if wg.Wait(); testkit.Left(t, l, "k") != all {
					t.Errorf("got %d places left at the end, want %d", testkit.Left(t, l, "k"), all)
				}
			})
		})
	}
}

// A place that another limiter has freed, as another process does, is found within a second.
func TestLimiter_Acquire_OtherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		mine, other := testkit.Limiter(t, s, core.InFlight("exports", 1)), testkit.Limiter(t, s, core.InFlight("exports", 1))
		r := reserve(t, other, "k")
		released := make(chan time.Time, 1)
		time.AfterFunc(10*time.Minute, func() {
			released <- time.Now()
			_ = r.Release(context.Background())
		})
		got, err := mine.Acquire(t.Context(), "k")
		if testkit.Must(t, err); time.Since(<-released) > time.Second {
			t.Error("got the place more than a second after its release")
		}
		testkit.Must(t, got.Release(t.Context()))
	})
}

// Acquire returns the errors of Wait.
func TestLimiter_Acquire_Errors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, newRemote(),
			core.InFlight("exports", 1).Plan("banned", core.Blocked).Plan("staff", core.Unlimited), core.FixedWindow("rate", core.Per(3, time.Hour)))
		r := reserve(t, l, "k")
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := l.Acquire(short, "k"); got != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no place until the deadline: got %v, %v", got, err)
		}
		if got, err := l.Acquire(short, "k"); got != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("context that has ended: got %v, %v", got, err)
		}
		if got, err := l.Plan("banned").Acquire(t.Context(), "k"); got != nil || !errors.Is(err, core.ErrNeverAdmitted) {
			t.Errorf("blocked: got %v, %v", got, err)
		}
		staff, err := l.Plan("staff").Acquire(t.Context(), "k")
		if testkit.Must(t, err); staff.Lost() != nil {
			t.Error("an unlimited caller has a place")
		}
		testkit.Must(t, r.Release(t.Context()))
		testkit.Must(t, reserve(t, l, "k").Release(t.Context()))
		short, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got, err := l.Acquire(short, "k"); got != nil || !errors.Is(err, core.ErrDeadlineTooNear) {
			t.Errorf("the rate denies for longer: got %v, %v", got, err)
		}
	})
}

// While callers of AcquireN wait, Reserve gets no places that they need.
func TestLimiter_AcquireN_Reserve(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, tokens(10))
		first := acquireN(t, l, 5)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := l.AcquireN(ctx, "k", 6)
			failed <- err
		}()
		synctest.Wait()
		if d := testkit.Reserve(t, l, "k", 1).Decision(); d.Allowed || d.RetryAfter <= 0 || testkit.Left(t, l, "k") != 0 {
			t.Errorf("got %v, and %d left", d, testkit.Left(t, l, "k"))
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter got %v", err)
		}
		second := testkit.Reserve(t, l, "k", 5)
		if !second.Decision().Allowed {
			t.Errorf("got %v", second.Decision())
		}
		testkit.Must(t, first.Release(t.Context()))
		testkit.Must(t, acquireN(t, l, 5).Release(t.Context())) // no caller waits any more
		testkit.Must(t, second.Release(t.Context()))
	})
}

func TestLimiter_AcquireN_Errors(t *testing.T) {
	rate := core.FixedWindow("rate", core.PerHour(4))
	for name, c := range map[string]struct {
		rules []core.Rule
		plan  string
		ended bool
		n     int
		want  error
	}{
		"0":                    {n: 0, want: core.ErrInvalidAsk},
		"negative":             {n: -1, want: core.ErrNegativeCost},
		"the smallest int":     {n: math.MinInt, want: core.ErrNegativeCost},
		"above the limit":      {n: 11, want: core.ErrNeverAdmitted},
		"the largest int":      {n: math.MaxInt, want: core.ErrNeverAdmitted},
		"all":                  {n: 10},
		"of a soft limit":      {rules: []core.Rule{tokens(10).Soft(50)}, n: 15},
		"above a soft limit":   {rules: []core.Rule{tokens(10).Soft(50)}, n: 16, want: core.ErrNeverAdmitted},
		"above a rate":         {rules: []core.Rule{tokens(10), rate}, n: 5, want: core.ErrNeverAdmitted},
		"above a shadow":       {rules: []core.Rule{tokens(10).Shadow()}, n: 50},
		"of a plan":            {rules: []core.Rule{tokens(10).Plan("pro", core.Limit{Events: 1_000_000})}, plan: "pro", n: 1_000_000},
		"above a plan":         {rules: []core.Rule{tokens(10).Plan("free", core.Limit{Events: 5})}, plan: "free", n: 6, want: core.ErrNeverAdmitted},
		"unlimited":            {rules: []core.Rule{tokens(10).Plan("staff", core.Unlimited)}, plan: "staff", n: math.MaxInt},
		"blocked":              {rules: []core.Rule{tokens(10).Plan("banned", core.Blocked)}, plan: "banned", n: 1, want: core.ErrNeverAdmitted},
		"a context that ended": {ended: true, n: 1, want: context.Canceled},
		"ended, and 0":         {ended: true, n: 0, want: context.Canceled},
		"above the moment":     {rules: []core.Rule{tokens(10).Elastic(func() float64 { return 0 }, 0.2)}, n: 3, want: core.ErrNeverAdmitted},
		"not by cost":          {rules: []core.Rule{core.InFlight("exports", 2)}, n: 50},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				if c.rules == nil {
					c.rules = []core.Rule{tokens(10)}
				}
				l := testkit.Limiter(t, s, c.rules...).Plan(c.plan)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.ended {
					cancel()
				}
				begun := time.Now()
				r, err := l.AcquireN(ctx, "k", c.n)
				if !errors.Is(err, c.want) || (r == nil) != (c.want != nil) || time.Since(begun) > 0 {
					t.Fatalf("got %v, %v after %v, want %v at once", r, err, time.Since(begun), c.want)
				}
				if r != nil {
					testkit.Must(t, r.Release(t.Context()))
				}
				for i, used := range testkit.Used(t, l, "k") {
					if used > 0 && c.rules[i].Algorithm() == core.AlgorithmInFlight {
						t.Errorf("%d places are taken at the end", used)
					}
				}
			})
		})
	}
}

// A caller with a deadline waits for places until then, also if those before it need more places than there are.
func TestLimiter_AcquireN_Deadline(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, tokens(10))
		first := acquireN(t, l, 10)
		var wg sync.WaitGroup
		for _, c := range []struct {
			n       int
			timeout time.Duration
			want    error
		}{{9, time.Hour, nil}, {8, 2 * time.Minute, context.DeadlineExceeded}, {7, time.Hour, nil}, {3, time.Hour, nil}, {11, time.Hour, core.ErrNeverAdmitted}} {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
				defer cancel()
				begun := time.Now()
				r, err := l.AcquireN(ctx, "k", c.n)
				if took := time.Since(begun); !errors.Is(err, c.want) || errors.Is(c.want, context.DeadlineExceeded) && took != c.timeout {
					t.Errorf("%d: got %v after %v, want %v", c.n, err, took, c.want)
				}
				if err == nil {
					time.Sleep(3 * time.Minute)
					err = r.Release(context.Background())
				}
				if c.want == nil && err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		testkit.Must(t, first.Release(t.Context()))
		wg.Wait()
		if testkit.Left(t, l, "k") != 10 {
			t.Errorf("got %d places left at the end", testkit.Left(t, l, "k"))
		}
	})
}
