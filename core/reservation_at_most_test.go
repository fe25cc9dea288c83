package core_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func reserveAtMost(t *testing.T, l *core.Limiter, n int) *core.Reservation {
	t.Helper()
	r, err := l.ReserveAtMost(t.Context(), "k", n)
	testkit.Must(t, err)
	return r
}

func TestLimiter_ReserveAtMost_Errors(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.TokenBucket("bucket", core.PerHour(5)))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		key  string
		n    int
		want error
	}{
		{t.Context(), "k", 0, core.ErrInvalidAsk},
		{t.Context(), "k", -1, core.ErrNegativeCost},
		{t.Context(), "k", math.MinInt, core.ErrNegativeCost},
		{t.Context(), "", 1, core.ErrEmptyKey},
		{ended, "k", 1, context.Canceled},
	} {
		if r, err := l.ReserveAtMost(c.ctx, c.key, c.n); r != nil || !errors.Is(err, c.want) {
			t.Errorf("ReserveAtMost(%q, %d): got %v and %v, want %v", c.key, c.n, r, err, c.want)
		}
	}
	if left := testkit.Left(t, l, "k"); left != 5 {
		t.Errorf("after the errors: got %d left, want 5", left)
	}
}

// Limits that count nothing do not bound the cost.
func TestLimiter_ReserveAtMost_Plans(t *testing.T) {
	bucket := core.TokenBucket("bucket", core.PerHour(5)).Plan("staff", core.Unlimited).Plan("banned", core.Blocked).Plan("pro", core.PerHour(50))
	window := core.FixedWindow("window", core.PerHour(8)).Plan("banned", core.PerHour(8))
	shadow := core.SlidingLog("shadow", core.PerHour(3)).Shadow()
	for _, c := range []struct {
		name  string
		rules []core.Rule
		plan  string
		n     int
		want  []int // the Costs of calls one after the other
		retry time.Duration
	}{
		{"one rule", []core.Rule{bucket}, "", 4, []int{4, 1, 0}, 12 * time.Minute},
		{"the smallest", []core.Rule{window, bucket}, "", 100, []int{5, 0}, 12 * time.Minute},
		{"a larger plan", []core.Rule{window, bucket}, "pro", 100, []int{8, 0}, time.Hour},
		{"unlimited", []core.Rule{bucket}, "staff", math.MaxInt, []int{math.MaxInt, math.MaxInt}, 0},
		{"unlimited, and a limit", []core.Rule{bucket, window}, "staff", 100, []int{8, 0}, time.Hour},
		{"blocked", []core.Rule{window, bucket}, "banned", 100, []int{0}, core.Never},
		{"only a shadow", []core.Rule{shadow}, "", 2, []int{2, 2, 2}, 0},
		{"divided", []core.Rule{bucket.Divide(2)}, "", 100, []int{2, 0}, 12 * time.Minute}, // 2.5 an hour
		{"elastic", []core.Rule{core.TokenBucket("elastic", core.PerHour(10)).Elastic(func() float64 { return 1 }, 3)}, "", 100, []int{30, 0}, 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			l := testkit.Limiter(t, memstore.New(), c.rules...).Plan(c.plan)
			for i, want := range c.want {
				r := reserveAtMost(t, l, c.n)
				d := r.Decision()
				if r.Cost() != want || d.Allowed != (want > 0) {
					t.Errorf("%s, call %d: got the cost %d, want %d: %v", c.name, i, r.Cost(), want, d)
				}
				if !d.Allowed && d.RetryAfter != c.retry {
					t.Errorf("%s: got RetryAfter %v, want %v", c.name, d.RetryAfter, c.retry)
				}
			}
		})
	}
}

// The taken units of a queue are its next places, whose delay is that of AllowN.
func TestLimiter_ReserveAtMost_Delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := core.LeakyBucket("queue", core.PerSecond(10).WithBurst(7))
		l, other := testkit.Limiter(t, memstore.New(), rule), testkit.Limiter(t, memstore.New(), rule)
		for _, n := range []int{3, 100, 1} {
			r := reserveAtMost(t, l, n)
			want := testkit.Ask(t, other, "k", max(1, r.Cost()))
			if got := r.Decision(); got.Delay != want.Delay || got.Allowed != want.Allowed || got.RetryAfter != want.RetryAfter {
				t.Errorf("at most %d: got %v, want that of %d: %v", n, got, r.Cost(), want)
			}
		}
	})
}

// The Cost is that of the first ask, and zero unless something is charged for it.
func TestReservation_Cost(t *testing.T) {
	ctx := t.Context()
	store := memstore.New()
	requests := testkit.Limiter(t, store, core.TokenBucket("requests", core.PerHour(5)))
	tokens := testkit.Limiter(t, store, core.TokenBucket("tokens", core.PerHour(100)))
	expect := func(name string, r *core.Reservation, want int) {
		t.Helper()
		if got := r.Cost(); got != want {
			t.Errorf("%s: got Cost %d, want %d", name, got, want)
		}
	}
	expect("the zero Reservation", new(core.Reservation), 0)
	r, err := core.ReserveTogether(ctx, core.Ask{Limiter: requests, Key: "k"}, core.Ask{Limiter: tokens, Key: "k", Cost: 30})
	testkit.Must(t, err)
	expect("two asks", r, 1)
	testkit.Must(t, r.SettleFor(ctx, tokens, 50))
	expect("the second settled", r, 1)
	testkit.Must(t, r.Settle(ctx, 2))
	expect("both settled", r, 2)
	testkit.Must(t, r.Refund(ctx))
	expect("refunded", r, 0)
	expect("a Peek", testkit.Reserve(t, requests, "k", 0), 0)
	denied := testkit.Reserve(t, requests, "k", 6)
	testkit.Must(t, denied.Settle(ctx, 3))
	expect("denied, and settled", denied, 0)
	block := reserveAtMost(t, requests, 100)
	expect("all that is left", block, 5)
	testkit.Must(t, block.Settle(ctx, 7))
	expect("settled above the limit", block, 7)
	testkit.Must(t, block.Settle(ctx, 1))
	expect("the rest refunded", block, 1)
	if left := testkit.Left(t, requests, "k"); left != 4 {
		t.Errorf("after the refund of the rest: got %d left, want 4", left)
	}
}

// The Observer counts one decision.
func TestLimiter_ReserveAtMost_Observer(t *testing.T) {
	o := newObserver(memstore.New())
	l := testkit.Limiter(t, o, core.FixedWindow("window", core.PerDay(5)))
	reserveAtMost(t, l, 100)
	reserveAtMost(t, l, 100)
	if want := map[string]int{"window/ k allowed = allowed": 1, "window/ k denied = denied": 1}; !maps.Equal(o.counts, want) {
		t.Errorf("got %v, want %v", o.counts, want)
	}
}
