package core_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

// LeaveQueue refunds leaky buckets only, and only the last event of a queue.
func TestReservation_LeaveQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := testkit.Limiter(t, memstore.New(),
			core.LeakyBucket("queue", core.PerSecond(10).WithBurst(5)),
			core.TokenBucket("bucket", core.PerHour(9)),
			core.SlidingLog("log", core.PerHour(9)),
			core.FixedWindow("window", core.PerDay(9)),
		)
		first, second, third := testkit.Reserve(t, l, "k", 1), testkit.Reserve(t, l, "k", 2), testkit.Reserve(t, l, "k", 1)
		for _, step := range []struct {
			name          string
			call          func() error
			queue, others int // in use
		}{
			{"no step", func() error { return nil }, 4, 4},
			{"an event that is not the last leaves", func() error { return second.LeaveQueue(ctx) }, 4, 4},
			{"the last leaves", func() error { return third.LeaveQueue(ctx) }, 3, 4},
			{"it leaves again", func() error { return third.LeaveQueue(ctx) }, 3, 4},
			{"another comes", func() error {
				r, err := l.Reserve(ctx, "k", 1)
				if d := r.Decision().Delay; d != 300*time.Millisecond {
					t.Errorf("after an event has left: got a delay of %v, want 300ms", d)
				}
				return err
			}, 4, 5},
			{"a refund of the event that has left", func() error { return third.Refund(ctx) }, 4, 4},
			{"the first leaves after its departure", func() error { time.Sleep(time.Second); return first.LeaveQueue(ctx) }, 0, 4},
		} {
			if err := step.call(); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
			if got, want := testkit.Used(t, l, "k"), []int{step.queue, step.others, step.others, step.others}; !slices.Equal(got, want) {
				t.Errorf("%s: got %v in use, want %v", step.name, got, want)
			}
		}
	})
}

// After an error of the Store, which may have done the undo, LeaveQueue does not try again.
func TestReservation_LeaveQueue_StoreFails(t *testing.T) {
	var store storetest.Fake
	l := testkit.Limiter(t, &store, core.LeakyBucket("queue", core.PerHour(5)))
	r := testkit.Reserve(t, l, "k", 2)
	store.Set(storetest.Fail(core.ErrUnavailable))
	if err := r.LeaveQueue(t.Context()); err != core.ErrUnavailable {
		t.Errorf("got %v, want the error of the store", err)
	}
	store.Set()
	testkit.Must(t, r.LeaveQueue(t.Context()))
	if got := testkit.Used(t, l, "k")[0]; got != 2 {
		t.Errorf("got %d in use, want 2", got)
	}
}

// After the clock of the Store has stepped back, a refund frees no other events, even when the clock
// has the time of the reservation again.
func TestReservation_Refund_AfterClockStep(t *testing.T) {
	for _, rule := range []core.Rule{
		core.TokenBucket("r", core.PerMinute(10)),
		core.FixedWindow("r", core.PerMinute(10)),
		core.SlidingLog("r", core.PerMinute(10)),
		core.SlidingWindow("r", core.PerMinute(10)).SubWindows(2),
	} {
		t.Run(rule.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := time.Duration(0)
				l := testkit.Limiter(t, &storetest.Fake{Clock: func() int64 { return time.Now().Add(-behind).UnixMicro() }}, rule)
				r := testkit.Reserve(t, l, "k", 10)
				behind = 2 * time.Minute
				if d := testkit.Allow(t, l, "k"); d.Allowed {
					t.Fatalf("after the step: got %v, want a denial", d)
				}
				time.Sleep(behind)
				testkit.Reserve(t, l, "k", 10)
				testkit.Must(t, r.Refund(t.Context()))
				if got := testkit.Used(t, l, "k")[0]; got != 10 {
					t.Errorf("after a refund of events that have left: got %d in use, want 10", got)
				}
			})
		})
	}
}

// The charges of Extend are settled and refunded with the others. A denial leaves the others as they
// were.
func TestReservation_Extend(t *testing.T) {
	first := core.SlidingLog("first", core.PerHour(10))
	bucket := core.TokenBucket("bucket", core.PerHour(10))
	dry := core.SlidingLog("dry", core.PerHour(1)).Shadow()
	for _, c := range []struct {
		name    string
		limiter []core.Rule // of the ask that is added
		key     string
		cost    int
		allowed bool
		after   []int // in use: of first and key a, of bucket and key b
		settled []int // at 4
	}{
		{"admitted", []core.Rule{bucket}, "b", 3, true, []int{2, 3}, []int{4, 4}},
		{"denied", []core.Rule{bucket}, "b", 11, false, []int{2, 0}, []int{4, 0}},
		{"shadow denies", []core.Rule{bucket, dry}, "b", 3, true, []int{2, 3}, []int{4, 4}},
		{"same state", []core.Rule{first}, "a", 3, true, []int{5, 0}, []int{8, 0}},
		{"same state, denied", []core.Rule{first}, "a", 9, false, []int{2, 0}, []int{4, 0}},
		{"same and another", []core.Rule{bucket, first}, "a", 3, true, []int{5, 0}, []int{8, 0}},
		{"peek", []core.Rule{bucket}, "b", 0, true, []int{2, 0}, []int{4, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := memstore.New()
			a, b := core.Must(core.New(store, first)), core.Must(core.New(store, bucket))
			more := core.Must(core.New(store, c.limiter...))
			check := func(when string, want []int) {
				t.Helper()
				if got := []int{testkit.Used(t, a, "a")[0], testkit.Used(t, b, "b")[0]}; !slices.Equal(got, want) {
					t.Errorf("%s: got %v in use, want %v", when, got, want)
				}
			}
			r := testkit.Reserve(t, a, "a", 2)
			testkit.Must(t, r.Extend(t.Context(), core.Ask{Limiter: more, Key: c.key, Cost: c.cost, Peek: c.cost == 0}))
			d := r.Decision()
			if d.Allowed != c.allowed || d.Len() != 1+len(c.limiter) || d.State(0).Rule.Name() != "first" || !d.State(0).Allowed ||
				d.State(1).Rule.Name() != c.limiter[0].Name() || d.State(1).Allowed != c.allowed || d.RetryAfter != d.State(1).RetryAfter {
				t.Errorf("got %+v, want allowed %v and the States of both", d, c.allowed)
			}
			check("after Extend", c.after)
			testkit.Must(t, r.Settle(t.Context(), 4))
			check("after Settle", c.settled)
			testkit.Must(t, r.Refund(t.Context()))
			check("after Refund", []int{0, 0})
		})
	}
}

// A settled cost counts once for each of the asks for the same rule and key.
func TestReservation_Settle_MergedAsks(t *testing.T) {
	store := memstore.New()
	a := testkit.Limiter(t, store, core.SlidingLog("a", core.PerHour(100)))
	b := testkit.Limiter(t, store, core.TokenBucket("b", core.PerHour(100)))
	r, err := core.ReserveTogether(t.Context(), core.Ask{Limiter: a, Key: "k"}, core.Ask{Limiter: a, Key: "k"}, core.Ask{Limiter: b, Key: "k"})
	testkit.Must(t, err)
	for _, cost := range []int{5, 2, 0} {
		testkit.Must(t, r.Settle(t.Context(), cost))
		if a, b := testkit.Used(t, a, "k")[0], testkit.Used(t, b, "k")[0]; a != 2*cost || b != cost {
			t.Errorf("settled at %d: got %d and %d in use, expected %d and %d", cost, a, b, 2*cost, cost)
		}
	}
}

// A shadow rule that did not count the event is not charged by Settle.
func TestReservation_Settle_DeniedShadow(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.SlidingLog("log", core.PerHour(10)), core.SlidingLog("shadow", core.PerHour(2)).Shadow())
	r := testkit.Reserve(t, l, "k", 3)
	for _, cost := range []int{4, 1, 0} {
		testkit.Must(t, r.Settle(t.Context(), cost))
		if got := testkit.Used(t, l, "k"); got[0] != cost || got[1] != 0 {
			t.Errorf("settled at %d: got %v in use, expected %d and 0", cost, got, cost)
		}
	}
}

// After an error of Extend, the reservation is unchanged.
func TestReservation_Extend_Invalid(t *testing.T) {
	var store storetest.Fake
	l := core.Must(core.New(&store, core.SlidingLog("log", core.PerHour(5))))
	elsewhere := core.Must(core.New(memstore.New(), core.SlidingLog("log", core.PerHour(5))))
	r, denied := testkit.Reserve(t, l, "k", 1), testkit.Reserve(t, l, "k", 6)
	for name, c := range map[string]struct {
		r    *core.Reservation
		asks []core.Ask
		err  error // of the Store
		want error
	}{
		"other store":   {r, []core.Ask{{Limiter: elsewhere, Key: "k", Cost: 1}}, nil, core.ErrInvalidAsk},
		"no asks":       {r, nil, nil, core.ErrInvalidAsk},
		"no limiter":    {r, []core.Ask{{Key: "k", Cost: 1}}, nil, core.ErrInvalidAsk},
		"negative cost": {r, []core.Ask{{Limiter: l, Key: "k", Cost: -1}}, nil, core.ErrNegativeCost},
		"store fails":   {r, []core.Ask{{Limiter: l, Key: "k", Cost: 1}}, core.ErrUnavailable, core.ErrUnavailable},
		"denied":        {denied, []core.Ask{{Limiter: l, Key: "k", Cost: 1}}, nil, nil},
	} {
		if c.err != nil {
			store.Set(storetest.Fail(c.err))
		}
		before := c.r.Decision().Allowed
		if err := c.r.Extend(t.Context(), c.asks...); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		store.Set()
		if d := c.r.Decision(); d.Len() != 1 || d.Allowed != before || testkit.Used(t, l, "k")[0] != 1 {
			t.Errorf("%s: got %+v and %v in use, want one State as before and 1", name, d, testkit.Used(t, l, "k"))
		}
	}
}

func TestReservation_Extend_Concurrent(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("log", core.PerHour(1000))))
	r := testkit.Reserve(t, l, "k", 1)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			if err := r.Extend(t.Context(), core.Ask{Limiter: l, Key: strconv.Itoa(i % 8), Cost: 1}); err != nil {
				t.Error(err)
			}
			if err := r.Settle(t.Context(), 2); err != nil || !r.Decision().Allowed {
				t.Errorf("got %v, %+v, want an admission", err, r.Decision())
			}
		})
	}
	wg.Wait()
	if d := r.Decision(); d.Len() != 33 {
		t.Errorf("got %d States, want 33", d.Len())
	}
	testkit.Must(t, r.Settle(t.Context(), 3))
	for i := range 8 {
		if got := testkit.Used(t, l, strconv.Itoa(i))[0]; got != 12 {
			t.Errorf("key %d, charged four times: got %d in use, want 12", i, got)
		}
	}
}

// storetest.Fake returns an error for charges that break the contract, such as a cost below 1.
func TestReservation_Settle_SumAboveMaxInt(t *testing.T) {
	ctx := t.Context()
	l := testkit.Limiter(t, &storetest.Fake{Clock: func() int64 { return 1 << 50 }}, core.LeakyBucket("queue", core.PerSecond(10)))
	r := testkit.Reserve(t, l, "k", 1)
	for i, step := range []func() error{
		func() error { return r.Settle(ctx, math.MaxInt) },
		func() error { _, err := l.Reset(ctx, "k"); return err },
		func() error { return r.Extend(ctx, core.Ask{Limiter: l, Key: "k"}) },
		func() error { return r.LeaveQueue(ctx) },
	} {
		if err := step(); err != nil {
			t.Errorf("step %d: got %v, expected nil", i, err)
		}
	}
}

func TestReservation_EndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l := core.Must(core.New(memstore.New(), core.FixedWindow("r", core.PerDay(10)), core.LeakyBucket("queue", core.PerDay(10))))
	denied := testkit.Reserve(t, l, "k", 11)
	r := testkit.Reserve(t, l, "k", 2)
	for _, step := range []struct {
		name string
		call func() error
		want error
		used int // of the window
	}{
		{"refund of a denied event", func() error { return denied.Refund(ended) }, nil, 2},
		{"leaving no queue", func() error { return denied.LeaveQueue(ended) }, nil, 2},
		{"the same cost", func() error { return r.Settle(ended, 2) }, nil, 2},
		{"a raise", func() error { return r.Settle(ended, 5) }, context.Canceled, 2},
		{"the raise again", func() error { return r.Settle(t.Context(), 5) }, nil, 5},
		{"leaving a queue", func() error { return r.LeaveQueue(ended) }, context.Canceled, 5},
		{"a refund", func() error { return r.Refund(ended) }, context.Canceled, 5},
		{"the refund again", func() error { return r.Refund(t.Context()) }, nil, 0},
		{"a debit of nothing", func() error { return l.Debit(ended, "", 0) }, nil, 0},
	} {
		if err := step.call(); !errors.Is(err, step.want) || err != nil && step.want == nil {
			t.Errorf("%s: got %v, expected %v", step.name, err, step.want)
		}
		if got := testkit.Used(t, l, "k")[0]; got != step.used {
			t.Errorf("%s: got %d used, expected %d", step.name, got, step.used)
		}
	}
}

// A denied event has no charges to settle or refund.
func TestReservation_Settle_Denied(t *testing.T) {
	ctx := t.Context()
	l := testkit.Limiter(t, memstore.New(), core.FixedWindow("window", core.PerDay(3)))
	testkit.Admit(t, l, "k", 3)
	for _, cost := range []int{5, 0, 1} {
		r := testkit.Reserve(t, l, "k", 1)
		if r.Decision().Allowed {
			t.Fatal("got an admission of the fourth event, want a denial")
		}
		testkit.Must(t, r.Settle(ctx, cost))
		testkit.Must(t, r.LeaveQueue(ctx))
		if got := testkit.Used(t, l, "k")[0]; got != 3 {
			t.Errorf("after Settle(%d) of a denied event: got %d in use, expected 3", cost, got)
		}
	}
	testkit.Must(t, new(core.Reservation).Refund(ctx))
}
