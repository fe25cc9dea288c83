package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/internal/unexported"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

var inner = unexported.Get[*core.Limiter, *core.Reservation, core.Rule]()

// extend calls r.Extend, and checks its Decision.
func extend(ctx context.Context, r *core.Reservation, asks ...core.Ask) error {
	d, err := r.Extend(ctx, asks...)
	if err == nil && d.String() != r.Decision().String() {
		err = fmt.Errorf("Extend returned %v, and Decision %v", d, r.Decision())
	}
	return err
}

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
			{"an event that is not the last leaves", func() error { return inner.LeaveQueue(second, ctx) }, 4, 4},
			{"the last leaves", func() error { return inner.LeaveQueue(third, ctx) }, 3, 4},
			{"it leaves again", func() error { return inner.LeaveQueue(third, ctx) }, 3, 4},
			{"another comes", func() error {
				r, err := l.Reserve(ctx, "k", 1)
				if d := r.Decision().Delay; d != 300*time.Millisecond {
					t.Errorf("after an event has left: got a delay of %v, want 300ms", d)
				}
				return err
			}, 4, 5},
			{"a refund of the event that has left", func() error { return third.Refund(ctx) }, 4, 4},
			{"the first leaves after its departure", func() error { time.Sleep(time.Second); return inner.LeaveQueue(first, ctx) }, 0, 4},
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
	if err := inner.LeaveQueue(r, t.Context()); err != core.ErrUnavailable {
		t.Errorf("got %v, want the error of the store", err)
	}
	store.Set()
	testkit.Must(t, inner.LeaveQueue(r, t.Context()))
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
			testkit.Must(t, extend(t.Context(), r, core.Ask{Limiter: more, Key: c.key, Cost: c.cost, Peek: c.cost == 0}))
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

// SettleFor settles the asks of one limiter, under any plan. A cost counts once for each of its asks.
func TestReservation_SettleFor(t *testing.T) {
	ctx := t.Context()
	requests := core.SlidingLog("requests", core.PerHour(100)).Plan("staff", core.Unlimited)
	tokens := core.TokenBucket("tokens", core.PerHour(1000)).Plan("pro", core.PerHour(2000))
	queue := core.LeakyBucket("queue", core.PerHour(1000))
	dry := core.SlidingLog("dry", core.PerHour(2)).Shadow() // does not count the event
	type step struct {
		limiter string // requests, tokens, or another one; empty for Settle; "leave" for LeaveQueue
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
		{"after LeaveQueue", func(r, t *core.Limiter) []core.Ask {
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
					err = inner.LeaveQueue(r, ctx)
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
	r, err := core.ReserveTogether(ctx, core.Ask{Limiter: a, Key: "k", Cost: 2}, core.Ask{Limiter: b, Key: "k", Cost: 3})
	testkit.Must(t, err)
	testkit.Must(t, extend(ctx, r, core.Ask{Limiter: b, Key: "k", Cost: 4}, core.Ask{Limiter: a, Key: "k"}))
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

// Extend of the zero Reservation is ReserveTogether, also after an error.
func TestReservation_Extend_Zero(t *testing.T) {
	ctx := t.Context()
	var store storetest.Fake
	l := testkit.Limiter(t, &store, core.SlidingLog("log", core.PerHour(5)))
	two := testkit.Limiter(t, &store, core.SlidingLog("log", core.PerHour(5)), core.LeakyBucket("queue", core.PerHour(5)).Shadow())
	elsewhere := testkit.Limiter(t, memstore.New(), core.SlidingLog("log", core.PerHour(5)))
	for name, asks := range map[string][]core.Ask{
		"no asks": nil, "no limiter": {{Key: "k"}}, "no key": {{Limiter: l}}, "lost": {{Limiter: l, Key: "away"}}, "two, lost": {{Limiter: two, Key: "away"}},
	} {
		for _, first := range [][]core.Ask{{{Limiter: l, Key: name, Cost: 2}}, {{Limiter: two, Key: name, Cost: 2}}, {{Limiter: elsewhere, Key: name, Cost: 2}}} {
			r := new(core.Reservation)
			store.Set(storetest.Lose(core.ErrUnavailable))
			if err := extend(ctx, r, asks...); err == nil {
				t.Errorf("%s: got no error", name)
			}
			store.Set()
			for _, err := range []error{r.Settle(ctx, 3), r.Refund(ctx), inner.LeaveQueue(r, ctx)} {
				testkit.Must(t, err)
			}
			if d := r.Decision(); d.Len() != 0 || d.Allowed {
				t.Errorf("%s: after an error: got %v, want the zero Decision", name, d)
			}
			testkit.Must(t, extend(ctx, r, first...))
			testkit.Must(t, extend(ctx, r, first...))
			for _, cost := range []int{2, 0} {
				testkit.Must(t, r.Settle(ctx, cost))
				if got := testkit.Used(t, first[0].Limiter, name)[0]; got != 2*cost || r.Decision().Len() != 2*len(first[0].Limiter.Rules()) {
					t.Errorf("%s: settled at %d: got %d in use, want %d; %v", name, cost, got, 2*cost, r.Decision())
				}
			}
		}
	}
	denied := new(core.Reservation)
	testkit.Must(t, extend(ctx, denied, core.Ask{Limiter: l, Key: "k", Cost: 6}))
	testkit.Must(t, extend(ctx, denied, core.Ask{Limiter: l, Key: "k"}))
	if d := denied.Decision(); d.Allowed || d.Len() != 1 {
		t.Errorf("got %v, want the first denial", d)
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
		if err := extend(t.Context(), c.r, c.asks...); !errors.Is(err, c.want) {
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
			if d, err := r.Extend(t.Context(), core.Ask{Limiter: l, Key: strconv.Itoa(i % 8), Cost: 1}); err != nil || !d.Allowed {
				t.Errorf("got %v, %v, want an admission", d, err)
			}
			if err := r.SettleFor(t.Context(), l, 2); err != nil || !r.Decision().Allowed {
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
		func() error { return extend(ctx, r, core.Ask{Limiter: l, Key: "k"}) },
		func() error { return inner.LeaveQueue(r, ctx) },
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
		{"leaving no queue", func() error { return inner.LeaveQueue(denied, ended) }, nil, 2},
		{"the same cost", func() error { return r.Settle(ended, 2) }, nil, 2},
		{"a raise", func() error { return r.Settle(ended, 5) }, context.Canceled, 2},
		{"the raise again", func() error { return r.Settle(t.Context(), 5) }, nil, 5},
		{"leaving a queue", func() error { return inner.LeaveQueue(r, ended) }, context.Canceled, 5},
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
		testkit.Must(t, inner.LeaveQueue(r, ctx))
		if got := testkit.Used(t, l, "k")[0]; got != 3 {
			t.Errorf("after Settle(%d) of a denied event: got %d in use, expected 3", cost, got)
		}
	}
	testkit.Must(t, new(core.Reservation).Refund(ctx))
}

func TestReservation_SettleAsk(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.SlidingLog("r", core.PerMinute(100)))
	r, err := core.ReserveTogether(t.Context(), core.Ask{Limiter: l, Key: "a", Cost: 3}, core.Ask{Limiter: l, Key: "b", Cost: 4}, core.Ask{Limiter: l, Key: "a", Cost: 5})
	testkit.Must(t, err)
	for i, c := range []struct {
		ask, cost, a, b int
		err             error
	}{
		{1, 9, 8, 9, nil},
		{0, 0, 5, 9, nil},
		{2, 6, 6, 9, nil},
		{3, 1, 6, 9, core.ErrInvalidAsk},
		{-1, 1, 6, 9, core.ErrInvalidAsk},
		{0, -1, 6, 9, core.ErrNegativeCost},
	} {
		err := inner.SettleAsk(r, t.Context(), c.ask, c.cost)
		if a, b := testkit.Used(t, l, "a")[0], testkit.Used(t, l, "b")[0]; !errors.Is(err, c.err) || a != c.a || b != c.b {
			t.Errorf("call %d: got %v with %d and %d in use, want %v with %d and %d", i, err, a, b, c.err, c.a, c.b)
		}
	}
}

// Charges of several Extends to one rule and key are settled together, and the newest is undone first:
// only the last event of a queue can leave it.
func TestReservation_Extend_SameKey(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name     string
		first    int
		more     []int
		settle   int
		used     int
		adjusted int // calls of the Store for Settle
	}{
		{"raised", 1, []int{1}, 3, 6, 1},
		{"mixed, the same sum", 5, []int{1}, 3, 6, 0},
		{"lowered", 4, []int{4}, 1, 2, 2},
		{"of four", 1, []int{1, 1, 1}, 3, 12, 1},
	} {
		var store storetest.Fake
		l := testkit.Limiter(t, &store, core.LeakyBucket("queue", core.PerHour(20)))
		r := testkit.Reserve(t, l, "k", c.first)
		for _, n := range c.more {
			testkit.Must(t, extend(ctx, r, core.Ask{Limiter: l, Key: "k", Cost: n}))
		}
		before := store.Calls()
		testkit.Must(t, r.Settle(ctx, c.settle))
		if got := store.Calls() - before; got != c.adjusted {
			t.Errorf("%s: got %d calls, want %d", c.name, got, c.adjusted)
		}
		if got := testkit.Used(t, l, "k")[0]; got != c.used {
			t.Errorf("%s: got %d in use, want %d", c.name, got, c.used)
		}
		testkit.Must(t, r.Refund(ctx))
		if got := testkit.Used(t, l, "k")[0]; got != 0 {
			t.Errorf("%s: got %d in use after the refund, want 0", c.name, got)
		}
	}
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
