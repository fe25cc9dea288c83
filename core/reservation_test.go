package core_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/unexported"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

var inner = unexported.Core.(interface {
	ChooseFor(l *core.Limiter, pick func(ctx context.Context, key string) (*core.Limiter, time.Duration, error)) *core.Limiter
	ReplaceAll(rules map[*core.Limiter][]core.Rule, then func()) error
	Key(*core.Reservation, *core.Limiter) (key string, n int)
	Forget(r *core.Reservation, l *core.Limiter, key string)
	HasPlaces(*core.Reservation) (has, local bool)
	RefundDelayed(*core.Reservation, context.Context) error
})

// RefundDelayed refunds leaky buckets only, and only the last event of a queue.
func TestReservation_RefundDelayed(t *testing.T) {
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
			{"an event that is not the last leaves", func() error { return inner.RefundDelayed(second, ctx) }, 4, 4},
			{"the last leaves", func() error { return inner.RefundDelayed(third, ctx) }, 3, 4},
			{"it leaves again", func() error { return inner.RefundDelayed(third, ctx) }, 3, 4},
			{"another comes", func() error {
				r, err := l.Reserve(ctx, "k", 1)
				if d := r.Decision().Delay; d != 300*time.Millisecond {
					t.Errorf("after an event has left: got a delay of %v, want 300ms", d)
				}
				return err
			}, 4, 5},
			{"a refund of the event that has left", func() error { return third.Refund(ctx) }, 4, 4},
			{"the first leaves after its departure", func() error { time.Sleep(time.Second); return inner.RefundDelayed(first, ctx) }, 0, 4},
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

// After an error of the Store, which may have done the undo, RefundDelayed does not try again.
func TestReservation_RefundDelayed_StoreFails(t *testing.T) {
	var store storetest.Fake
	l := testkit.Limiter(t, &store, core.LeakyBucket("queue", core.PerHour(5)))
	r := testkit.Reserve(t, l, "k", 2)
	store.Set(storetest.Fail(core.ErrUnavailable))
	if err := inner.RefundDelayed(r, t.Context()); err != core.ErrUnavailable {
		t.Errorf("got %v, want the error of the store", err)
	}
	store.Set()
	testkit.Must(t, inner.RefundDelayed(r, t.Context()))
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

// SettleFor settles the asks of one limiter, under any plan. A cost counts once for each of its asks.
func TestReservation_SettleFor(t *testing.T) {
	ctx := t.Context()
	requests := core.SlidingLog("requests", core.PerHour(100)).Plan("staff", core.Unlimited)
	tokens := core.TokenBucket("tokens", core.PerHour(1000)).Plan("pro", core.PerHour(2000))
	queue := core.LeakyBucket("queue", core.PerHour(1000))
	dry := core.SlidingLog("dry", core.PerHour(2)).Shadow() // does not count the event
	type step struct {
		limiter string // requests, tokens, or another one; empty for Settle; "leave" for RefundDelayed
		cost    int
		want    []int // in use of requests, tokens, queue
	}
	for _, c := range []struct {
		name  string
		asks  func(requests, tokens *core.Limiter) []core.Ask
		steps []step
	}{
		{"two limiters", func(r, t *core.Limiter) []core.Ask {
			return []core.Ask{{Limiter: r, Key: "k"}, {Limiter: t, Key: "k", Cost: 500}}
		}, []step{
			{"tokens", 800, []int{1, 800, 800}}, {"tokens", 800, []int{1, 800, 800}}, {"tokens", 3, []int{1, 3, 3}},
			{"requests", 0, []int{0, 3, 3}}, {"requests", 2, []int{2, 3, 3}}, {"tokens", 0, []int{2, 0, 0}}, {"", 7, []int{7, 7, 7}},
		}},
		{"one limiter twice", func(r, t *core.Limiter) []core.Ask {
			return []core.Ask{{Limiter: t, Key: "k", Cost: 3}, {Limiter: r, Key: "k"}, {Limiter: t, Key: "k", Cost: 4}}
		}, []step{{"tokens", 5, []int{1, 10, 10}}, {"requests", 5, []int{5, 10, 10}}, {"tokens", 0, []int{5, 0, 0}}}},
		{"views", func(r, t *core.Limiter) []core.Ask {
			return []core.Ask{{Limiter: r.Plan("other"), Key: "k"}, {Limiter: t.Choose(func(context.Context, string) (*core.Limiter, error) { return nil, nil }), Key: "k"}}
		}, []step{{"tokens", 9, []int{1, 9, 9}}, {"requests", 0, []int{0, 9, 9}}}},
		{"peeks", func(r, t *core.Limiter) []core.Ask {
			return []core.Ask{{Limiter: r, Key: "k", Peek: true}, {Limiter: t, Key: "k", Peek: true}}
		}, []step{{"tokens", 6, []int{0, 6, 6}}, {"requests", 0, []int{0, 6, 6}}}},
		{"unlimited", func(r, t *core.Limiter) []core.Ask {
			return []core.Ask{{Limiter: r, Key: "k", Plan: "staff"}, {Limiter: t, Key: "k"}}
		}, []step{{"requests", 9, []int{0, 1, 1}}, {"tokens", 2, []int{0, 2, 2}}, {"", 3, []int{0, 3, 3}}}},
		{"denied", func(r, t *core.Limiter) []core.Ask {
			return []core.Ask{{Limiter: r, Key: "k", Cost: 101}, {Limiter: t, Key: "k"}}
		}, []step{{"tokens", 9, []int{0, 0, 0}}, {"requests", 9, []int{0, 0, 0}}}},
		{"another limiter", func(r, t *core.Limiter) []core.Ask { return []core.Ask{{Limiter: r, Key: "k"}} }, []step{
			{"tokens", 9, nil}, {"tokens", 0, nil}, {"nil", 0, nil}, {"requests", -1, nil}, {"requests", 2, []int{2, 0, 0}},
		}},
		{"after RefundDelayed", func(r, t *core.Limiter) []core.Ask {
			return []core.Ask{{Limiter: r, Key: "k"}, {Limiter: t, Key: "k", Cost: 5}}
		}, []step{{"leave", 0, []int{1, 5, 0}}, {"requests", 2, []int{2, 5, 0}}, {"tokens", 6, []int{2, 6, 6}}, {"leave", 0, []int{2, 6, 0}}, {"", 0, []int{0, 0, 0}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := memstore.New()
			limiters := map[string]*core.Limiter{
				"requests": testkit.Limiter(t, store, requests), "tokens": testkit.Limiter(t, store, tokens, queue, dry), "nil": nil,
			}
			testkit.Admit(t, testkit.Limiter(t, store, dry), "k", 2)
			r, err := core.ReserveTogether(ctx, c.asks(limiters["requests"], limiters["tokens"])...)
			testkit.Must(t, err)
			for i, s := range c.steps {
				switch s.limiter {
				case "":
					err = r.Settle(ctx, s.cost)
				case "leave":
					err = inner.RefundDelayed(r, ctx)
				default:
					err = r.SettleFor(ctx, limiters[s.limiter], s.cost)
				}
				if s.want == nil {
					if !errors.Is(err, core.ErrInvalidAsk) && !errors.Is(err, core.ErrNegativeCost) {
						t.Errorf("step %d: got %v, want an error", i, err)
					}
					continue
				}
				testkit.Must(t, err)
				got := slices.Concat(testkit.Used(t, limiters["requests"], "k"), testkit.Used(t, limiters["tokens"], "k"))
				if want := append(s.want, 2); !slices.Equal(got, want) {
					t.Errorf("step %d, %s at %d: got %v in use, want %v", i, s.limiter, s.cost, got, want)
				}
			}
		})
	}
	testkit.Must(t, new(core.Reservation).SettleFor(ctx, testkit.Limiter(t, memstore.New(), queue), 5))
}

// A rule of two limiters has the sum of the costs of both.
func TestReservation_SettleFor_SharedRule(t *testing.T) {
	ctx, store := t.Context(), memstore.New()
	shared := core.SlidingLog("shared", core.PerHour(100))
	a := testkit.Limiter(t, store, shared, core.SlidingLog("a", core.PerHour(100)))
	b := testkit.Limiter(t, store, core.SlidingLog("b", core.PerHour(100)), shared)
	r, err := core.ReserveTogether(ctx, core.Ask{Limiter: a, Key: "k", Cost: 2}, core.Ask{Limiter: b, Key: "k", Cost: 3},
		core.Ask{Limiter: b, Key: "k", Cost: 4}, core.Ask{Limiter: a, Key: "k"})
	testkit.Must(t, err)
	for i, c := range []struct {
		limiter *core.Limiter
		cost    int
		want    []int // in use of shared, a, b
	}{{a, 2, []int{11, 4, 7}}, {b, 10, []int{24, 4, 20}}, {a, 0, []int{20, 0, 20}}, {a, 1, []int{22, 2, 20}}, {b, 0, []int{2, 2, 0}}} {
		testkit.Must(t, r.SettleFor(ctx, c.limiter, c.cost))
		if got := append(testkit.Used(t, a, "k"), testkit.Used(t, b, "k")[0]); !slices.Equal(got, c.want) {
			t.Errorf("step %d: got %v in use, want %v", i, got, c.want)
		}
	}
	for i, s := range []int{0, 0, 1, 1, 2, 2, 3, 3} { // the asks of the States
		if got := r.Decision().State(i).Ask; got != s {
			t.Errorf("State %d: got the ask %d, want %d", i, got, s)
		}
	}
}

// If the context had ended, SettleFor can be repeated. If the Store failed, it is not repeated.
func TestReservation_SettleFor_Errors(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var store storetest.Fake
	a := testkit.Limiter(t, &store, core.SlidingLog("a", core.PerHour(100)))
	b := testkit.Limiter(t, &store, core.SlidingLog("b", core.PerHour(100)))
	r, err := core.ReserveTogether(t.Context(), core.Ask{Limiter: a, Key: "k"}, core.Ask{Limiter: b, Key: "k"})
	testkit.Must(t, err)
	for i, c := range []struct {
		ctx     context.Context
		limiter *core.Limiter
		cost    int
		hook    storetest.Hook
		want    error
		used    []int
	}{
		{ended, a, 5, nil, context.Canceled, []int{1, 1}},
		{ended, b, 1, nil, nil, []int{1, 1}}, // no change
		{t.Context(), a, 5, nil, nil, []int{5, 1}},
		{t.Context(), b, 9, storetest.Fail(core.ErrUnavailable), core.ErrUnavailable, []int{5, 1}},
		{t.Context(), b, 9, nil, nil, []int{5, 1}},
		{t.Context(), a, 3, storetest.Lose(core.ErrUnavailable), core.ErrUnavailable, []int{3, 1}},
		{t.Context(), a, 3, nil, nil, []int{3, 1}},
		{t.Context(), a, 4, nil, nil, []int{4, 1}},
	} {
		if store.Set(); c.hook != nil {
			store.Set(c.hook)
		}
		if err := r.SettleFor(c.ctx, c.limiter, c.cost); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("step %d: got %v, want %v", i, err, c.want)
		}
		store.Set()
		if got := append(testkit.Used(t, a, "k"), testkit.Used(t, b, "k")...); !slices.Equal(got, c.used) {
			t.Errorf("step %d: got %v in use, want %v", i, got, c.used)
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
		func() error { _, err := l.Allow(ctx, "k"); return err },
		func() error { return inner.RefundDelayed(r, ctx) },
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
		{"leaving no queue", func() error { return inner.RefundDelayed(denied, ended) }, nil, 2},
		{"the same cost", func() error { return r.Settle(ended, 2) }, nil, 2},
		{"a raise", func() error { return r.Settle(ended, 5) }, context.Canceled, 2},
		{"the raise again", func() error { return r.Settle(t.Context(), 5) }, nil, 5},
		{"leaving a queue", func() error { return inner.RefundDelayed(r, ended) }, context.Canceled, 5},
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
		testkit.Must(t, inner.RefundDelayed(r, ctx))
		if got := testkit.Used(t, l, "k")[0]; got != 3 {
			t.Errorf("after Settle(%d) of a denied event: got %d in use, expected 3", cost, got)
		}
	}
	testkit.Must(t, new(core.Reservation).Refund(ctx))
}

// An event that is used again has no Verdict of an earlier decision.
func TestLimiter_Allow_UnsetVerdict(t *testing.T) {
	queue := testkit.Limiter(t, memstore.New(), core.LeakyBucket("queue", core.PerHour(20)))
	store := new(storetest.Fake).Set(func(context.Context, []driver.Charge, storetest.Call) error { return nil })
	l := testkit.Limiter(t, store, core.TokenBucket("bucket", core.PerHour(20)))
	for range 100 {
		testkit.Allow(t, queue, "k")
		if d := testkit.Allow(t, l, "k"); d.Allowed || d.State(0).Rule.Name() != "bucket" || d.State(0).Remaining != 0 {
			t.Fatalf("got %v from a Store that sets nothing, want a denial", d)
		}
	}
}

// Key returns the key of a limiter, whatever view was asked, and Forget makes Refund and Settle leave the
// charges of that limiter as they are.
func TestReservation_Forget(t *testing.T) {
	ctx, store := t.Context(), memstore.New()
	l := testkit.Limiter(t, store, core.SlidingLog("log", core.PerMinute(100)).Plan("pro", core.PerMinute(200)), core.FixedWindow("window", core.PerDay(100)))
	other := testkit.Limiter(t, store, core.SlidingLog("other", core.PerMinute(100)))
	r, err := core.ReserveTogether(ctx, core.Ask{Limiter: other, Key: "a", Cost: 2}, core.Ask{Limiter: l, Key: "b", Cost: 3, Plan: "pro"})
	testkit.Must(t, err)
	testkit.Must(t, r.Settle(ctx, 5))
	if a, n := inner.Key(r, other); a != "a" || n != 1 {
		t.Errorf("the key of other is %q, %d, want a", a, n)
	}
	if b, n := inner.Key(r, l.Plan("pro")); b != "b" || n != 1 {
		t.Errorf("the key of l is %q, %d, want b", b, n)
	}
	if key, n := inner.Key(r, testkit.Limiter(t, store, core.SlidingLog("third", core.PerMinute(1)))); n != 0 {
		t.Errorf("the key of a limiter that was not asked is %q", key)
	}
	if _, err := l.Reset(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	inner.Forget(r, l, "a") // another key
	inner.Forget(r, l, "b")
	testkit.Admit(t, l, "b", 7)
	for _, cost := range []int{1, 0} {
		testkit.Must(t, r.SettleFor(ctx, other, cost))
		testkit.Must(t, r.Refund(ctx))
		if used, a := testkit.Used(t, l, "b"), testkit.Used(t, other, "a")[0]; used[0] != 7 || used[1] != 7 || a != 0 {
			t.Errorf("after a refund, %d are in use of l and %d of other, want 7, 7 and 0", used, a)
		}
	}
	inner.Forget(new(core.Reservation), l, "b")
}

// Reserve fills a zero Reservation, which stays zero after an error.
func TestReservation_Reserve(t *testing.T) {
	ctx, store := t.Context(), new(storetest.Fake)
	l := testkit.Limiter(t, store, core.SlidingLog("log", core.PerMinute(2)))
	ask := core.Ask{Limiter: l, Key: "k"}
	var r core.Reservation
	for _, c := range []struct {
		asks []core.Ask
		err  error // of the Store
		want error
	}{
		{nil, nil, core.ErrInvalidAsk},
		{[]core.Ask{{Limiter: l}}, nil, core.ErrEmptyKey},
		{[]core.Ask{ask, {}}, nil, core.ErrInvalidAsk},
		{[]core.Ask{ask}, core.ErrUnavailable, core.ErrUnavailable},
		{[]core.Ask{ask, ask}, nil, nil},
		{[]core.Ask{ask}, nil, core.ErrInvalidAsk},
	} {
		store.Set()
		if c.err != nil {
			store.Set(storetest.Fail(c.err))
		}
		before := r.Decision().Len()
		d, err := r.Reserve(ctx, c.asks...)
		if !errors.Is(err, c.want) || (err == nil) != d.Allowed || err != nil && r.Decision().Len() != before {
			t.Errorf("%+v: got %v, %v, want %v; then the Reservation has %d States", c.asks, d, err, c.want, r.Decision().Len())
		}
	}
	if d := r.Decision(); d.Len() != 2 || testkit.Used(t, l, "k")[0] != 2 {
		t.Errorf("the decision is %v", d)
	}
	testkit.Must(t, r.Refund(ctx))
	if used := testkit.Used(t, l, "k")[0]; used != 0 {
		t.Errorf("after a refund %d are in use", used)
	}
}

// A steadyStore says that its clock never steps back.
type steadyStore struct{ *storetest.Fake }

func (steadyStore) Describe() driver.Description { return driver.Description{Steady: true} }

// The clock of a steady store may step for quotas, which follow the wall clock. A refund of an event from
// before a step back then frees nothing, because another event may have its units.
func TestReservation_Refund_QuotaOfSteadyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64 // microseconds
		s := steadyStore{&storetest.Fake{Clock: func() int64 { return time.Now().UnixMicro() - back.Load() }}}
		l := testkit.Limiter(t, s, core.Quota("calls", core.Monthly(5)))
		time.Sleep(10 * 24 * time.Hour)
		r := testkit.Reserve(t, l, "k", 2)
		time.Sleep(2 * time.Hour)
		back.Store(time.Hour.Microseconds())
		testkit.Must(t, r.Refund(t.Context()))
		if used := testkit.Used(t, l, "k")[0]; used != 2 {
			t.Errorf("after a step of the clock and a refund %d are in use, want 2", used)
		}
		r = testkit.Reserve(t, l, "k", 1)
		testkit.Must(t, r.Refund(t.Context()))
		if used := testkit.Used(t, l, "k")[0]; used != 2 {
			t.Errorf("after a refund without a step %d are in use, want 2", used)
		}
	})
}
