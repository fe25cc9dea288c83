package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// until returns a view of l that uses the rules until a time, and l afterwards.
func until(t testing.TB, l *core.Limiter, end time.Time, rules ...core.Rule) *core.Limiter {
	t.Helper()
	v, err := l.Variant(rules...)
	testkit.Must(t, err)
	return inner.ChooseFor(l, func(context.Context, string) (*core.Limiter, time.Duration, error) {
		if left := time.Until(end); left > 0 {
			return v, left, nil
		}
		return nil, 0, nil
	})
}

// A Blocked rule of a choice that ends denies until then, unless it is Blocked without the choice, too.
func TestChooseFor_States(t *testing.T) {
	const end = 5 * time.Second
	rule := func(name string, l core.Limit) core.Rule { return core.SlidingLog(name, l) }
	hour := core.PerHour(9)
	for name, c := range map[string]struct {
		own, chosen []core.Rule
		plan        string
		ends        time.Duration
		want        time.Duration   // of the decision
		states      []time.Duration // RetryAfter, or zero
	}{
		"one rule":            {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Blocked)}, "", end, end, []time.Duration{end}},
		"a nanosecond":        {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Blocked)}, "", 1, 1, []time.Duration{1}},
		"no end":              {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Blocked)}, "", core.Never, core.Never, []time.Duration{core.Never}},
		"one of two rules":    {[]core.Rule{rule("a", hour), rule("b", hour)}, []core.Rule{rule("b", core.Blocked)}, "", end, end, []time.Duration{0, end}},
		"blocked before":      {[]core.Rule{rule("a", core.Blocked)}, []core.Rule{rule("a", core.Blocked)}, "", end, core.Never, []time.Duration{core.Never}},
		"one blocked before":  {[]core.Rule{rule("a", hour), rule("b", core.Blocked)}, []core.Rule{rule("a", core.Blocked)}, "", end, core.Never, []time.Duration{end, core.Never}},
		"a shadow before":     {[]core.Rule{rule("a", core.Blocked).Shadow()}, []core.Rule{rule("a", core.Blocked)}, "", end, end, []time.Duration{end}},
		"a shadow":            {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Blocked).Shadow()}, "", end, 0, []time.Duration{end}},
		"a shadow, then one":  {[]core.Rule{rule("a", core.Blocked)}, []core.Rule{rule("a", core.Blocked).Shadow()}, "", end, 0, []time.Duration{core.Never}},
		"a plan":              {[]core.Rule{rule("a", core.Blocked).Plan("pro", hour)}, []core.Rule{rule("a", core.Blocked)}, "pro", end, end, []time.Duration{end}},
		"a blocked plan":      {[]core.Rule{rule("a", hour).Plan("pro", core.Blocked)}, []core.Rule{rule("a", core.Blocked)}, "pro", end, core.Never, []time.Duration{core.Never}},
		"an unknown plan":     {[]core.Rule{rule("a", hour).Plan("pro", core.Blocked)}, []core.Rule{rule("a", core.Blocked)}, "none", end, end, []time.Duration{end}},
		"unlimited in a plan": {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Unlimited)}, "", end, 0, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(storetest.Fake)
				l := testkit.Limiter(t, store, c.own...)
				v, err := l.Variant(c.chosen...)
				testkit.Must(t, err)
				view := inner.ChooseFor(l, func(context.Context, string) (*core.Limiter, time.Duration, error) { return v, c.ends, nil })
				asks := map[string]core.Ask{
					"the plan of the ask":     {Limiter: view, Key: "k", Plan: c.plan},
					"the plan of the limiter": {Limiter: view.Plan(c.plan), Key: "k"},
					"a peek":                  {Limiter: view, Key: "k", Plan: c.plan, Peek: true},
				}
				for name, ask := range asks {
					r, err := core.ReserveTogether(t.Context(), ask)
					testkit.Must(t, err)
					for range 2 { // the Decision of a Reservation does not change
						d := r.Decision()
						if d.Allowed != (c.want == 0) || d.Blocked() != (c.want > 0) || d.RetryAfter != c.want {
							t.Errorf("%s: got %v, blocked: %t, want RetryAfter %v", name, d, d.Blocked(), c.want)
						}
						for i, s := range d.States() {
							reset := c.states[i]
							if reset == core.Never {
								reset = 0
							}
							if want := c.states[i]; s.RetryAfter != want || want > 0 && (s.Window != want || s.ResetAfter != reset || s.Remaining != 0) {
								t.Errorf("%s: got the state %+v, want RetryAfter %v", name, s, want)
							}
						}
					}
				}
				if n := store.Calls(); c.want > 0 && n != 0 {
					t.Errorf("got %d calls of the store, want none", n)
				}
			})
		})
	}
}

// A decision about several blocks lasts until the last of them ends. No block outlives its decision.
func TestChooseFor_Together(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store, now := t.Context(), memstore.New(), time.Now()
		plain := testkit.Limiter(t, store, core.SlidingLog("a", core.PerHour(9)))
		ever := core.Must(plain.Variant(core.SlidingLog("a", core.Blocked)))
		short := until(t, plain, now.Add(2*time.Second), core.SlidingLog("a", core.Blocked))
		long := until(t, testkit.Limiter(t, store, core.SlidingLog("b", core.PerHour(9))), now.Add(7*time.Second), core.SlidingLog("b", core.Blocked))
		for i, c := range []struct {
			after time.Duration
			asks  []core.Ask
			want  string
		}{
			{0, []core.Ask{{Limiter: short, Key: "k"}, {Limiter: long, Key: "k"}}, `denied, retry after 7s: "a" blocked, "b" blocked`},
			{0, []core.Ask{{Limiter: ever, Key: "k"}}, `denied for ever: "a" blocked`},
			{0, []core.Ask{{Limiter: ever, Key: "j"}, {Limiter: long, Key: "k"}}, `denied for ever: "a" blocked, "b" blocked`},
			{time.Second, []core.Ask{{Limiter: short, Key: "k"}}, `denied, retry after 1s: "a" blocked`},
			{time.Second - 1, []core.Ask{{Limiter: plain, Key: "k"}, {Limiter: short, Key: "j"}}, `denied, retry after 1ns: "a" unknown, "a" blocked`},
			{1, []core.Ask{{Limiter: short, Key: "k"}}, `allowed: "a" 8 of 9 left`},
			{0, []core.Ask{{Limiter: short, Key: "k"}, {Limiter: long, Key: "k"}}, `denied, retry after 5s: "a" unknown, "b" blocked`},
			{5 * time.Second, []core.Ask{{Limiter: short, Key: "k"}, {Limiter: long, Key: "k"}}, `allowed: "a" 7 of 9 left, "b" 8 of 9 left`},
		} {
			time.Sleep(c.after)
			d, err := core.AllowTogether(ctx, c.asks...)
			if testkit.Must(t, err); d.String() != c.want {
				t.Errorf("step %d: got %v, want %s", i, d, c.want)
			}
		}
	})
}

// The decision of a Reservation stays that of its time.
func TestReservation_Decision_BlockWithEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.SlidingLog("a", core.PerHour(9)))
		blocked := until(t, l, time.Now().Add(time.Second), core.SlidingLog("a", core.Blocked))
		r, err := core.ReserveTogether(t.Context(), core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: blocked, Key: "j"})
		testkit.Must(t, err)
		time.Sleep(time.Minute)
		if got, want := r.Decision().String(), `denied, retry after 1s: "a" unknown, "a" blocked`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Wait waits for the end of a block, and then for the rule.
func TestLimiter_Wait_BlockWithEnd(t *testing.T) {
	const end = 5 * time.Second
	for name, c := range map[string]struct {
		rule    core.Rule
		cost    int
		timeout time.Duration
		callers int
		want    []time.Duration // for each caller, until its event is admitted or denied
		err     error           // of the last caller
	}{
		"one caller":                   {core.TokenBucket("r", core.PerSecond(1)), 1, time.Hour, 1, []time.Duration{end}, nil},
		"in order":                     {core.TokenBucket("r", core.PerSecond(1)), 1, time.Hour, 3, []time.Duration{end, end + time.Second, end + 2*time.Second}, nil},
		"a deadline at the end":        {core.TokenBucket("r", core.PerSecond(1)), 1, end, 1, []time.Duration{0}, core.ErrDeadlineTooNear},
		"a deadline after the end":     {core.TokenBucket("r", core.PerSecond(1)), 1, end + 1, 1, []time.Duration{end}, nil},
		"a deadline behind others":     {core.TokenBucket("r", core.PerSecond(1)), 1, end, 2, []time.Duration{0, 0}, core.ErrDeadlineTooNear},
		"a cost above the later limit": {core.TokenBucket("r", core.PerSecond(1)), 2, time.Hour, 1, []time.Duration{end}, core.ErrNeverAdmitted},
		"blocked afterwards, too":      {core.TokenBucket("r", core.Blocked), 1, time.Hour, 1, []time.Duration{0}, core.ErrNeverAdmitted},
		"unlimited afterwards":         {core.TokenBucket("r", core.Unlimited), 1, time.Hour, 2, []time.Duration{end, end}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				l := until(t, testkit.Limiter(t, memstore.New(), c.rule), begin.Add(end), core.TokenBucket("r", core.Blocked))
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				var wg sync.WaitGroup
				for i := range c.callers {
					wg.Go(func() {
						err := l.WaitN(ctx, "k", c.cost)
						want := c.err
						if took := time.Since(begin); !errors.Is(err, want) || err != nil && want == nil || took != c.want[i] {
							t.Errorf("caller %d: got %v after %v, want %v after %v", i, err, took, want, c.want[i])
						}
					})
					synctest.Wait()
				}
				wg.Wait()
			})
		})
	}
}

// A second block with another end follows the first one.
func TestLimiter_Wait_LongerBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerSecond(1)))
		v := core.Must(l.Variant(core.TokenBucket("r", core.Blocked)))
		calls := 0
		view := inner.ChooseFor(l, func(context.Context, string) (*core.Limiter, time.Duration, error) {
			calls++
			for _, end := range []time.Duration{2 * time.Second, 7 * time.Second} {
				if left := time.Until(begin.Add(end)); left > 0 {
					return v, left, nil
				}
			}
			return nil, 0, nil
		})
		if err := view.Wait(t.Context(), "k"); err != nil || time.Since(begin) != 7*time.Second || calls > 4 {
			t.Errorf("got %v after %v and %d calls, want nil after 7s and at most 4 calls", err, time.Since(begin), calls)
		}
	})
}

// An error of the function is that of Choose.
func TestChooseFor_Errors(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerSecond(1)))
	failed := errors.New("failed")
	view := inner.ChooseFor(l, func(context.Context, string) (*core.Limiter, time.Duration, error) { return nil, time.Second, failed })
	for name, call := range map[string]func() error{
		"Allow": func() error { _, err := view.Allow(t.Context(), "k"); return err },
		"Wait":  func() error { return view.Wait(t.Context(), "k") },
	} {
		if err := call(); !errors.Is(err, failed) || !errors.Is(err, core.ErrInvalidAsk) {
			t.Errorf("%s: got %v, want %v", name, err, fmt.Errorf("%w of %w", core.ErrInvalidAsk, failed))
		}
	}
}
