package core_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// An event takes as many places as its cost, or none, and frees them at its end.
func TestRule_ByCost(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, tokens(10), core.FixedWindow("rate", core.PerHour(50)))
		var held []*core.Reservation
		for i, c := range []struct {
			cost      int
			allowed   bool
			remaining int
			never     bool
		}{
			{4, true, 6, false}, {7, false, 6, false}, {11, false, 6, true}, {math.MaxInt, false, 6, true}, {0, true, 6, false},
			{6, true, 0, false}, {1, false, 0, false}, {0, false, 0, false}, {11, false, 0, true},
		} {
			r := testkit.Reserve(t, l, "k", c.cost)
			d := r.Decision()
			st := d.State(0)
			if d.Allowed != c.allowed || st.Remaining != c.remaining || st.Used() != 10-c.remaining {
				t.Errorf("event %d of cost %d: got %v with %+v", i, c.cost, d, st)
			}
			estimate := !c.allowed && !c.never
			if st.Estimate != estimate || (st.RetryAfter == core.Never) != c.never || (d.RetryAfter == core.Never) != c.never ||
				estimate && (d.RetryAfter <= 0 || d.RetryAfter > defaultHold) {
				t.Errorf("event %d of cost %d: got %v with %+v, want an estimate: %t", i, c.cost, d, st, estimate)
			}
			held = append(held, r)
		}
		if other := testkit.Reserve(t, l, "other", 10); !other.Decision().Allowed {
			t.Errorf("got %v for another key", other.Decision())
		} else {
			testkit.Must(t, other.Release(t.Context()))
		}
		for _, end := range []struct{ i, left int }{{5, 6}, {5, 6}, {0, 10}, {1, 10}} { // one of them twice, and one that was denied
			if testkit.Must(t, held[end.i].Release(t.Context())); left(t, l, "k") != end.left {
				t.Errorf("event %d has ended: got %d places left, want %d", end.i, left(t, l, "k"), end.left)
			}
		}
		if d := testkit.Peek(t, l, "k"); d.State(0).Remaining != 10 || d.State(1).Remaining != 40 {
			t.Errorf("got %v at the end: the rate keeps the charges of released events", d)
		}
	})
}

// The estimate of a denial is the time after which enough places have lapsed.
func TestRule_ByCost_Estimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, newRemote(), tokens(10))
		for _, cost := range []int{4, 5} { // which are not renewed
			ctx, cancel := context.WithCancel(t.Context())
			_, err := l.Reserve(ctx, "k", cost)
			testkit.Must(t, err)
			cancel()
			time.Sleep(7 * time.Second)
		}
		for cost, want := range map[int]time.Duration{1: 0, 2: defaultHold - 14*time.Second, 5: defaultHold - 14*time.Second, 6: defaultHold - 7*time.Second, 10: defaultHold - 7*time.Second} {
			ask := core.Ask{Limiter: l, Key: "k", Cost: cost, Peek: true}
			if d, err := core.AllowTogether(t.Context(), ask); err != nil || d.RetryAfter != want || d.State(0).Window != want && want > 0 || d.State(0).Remaining != 1 {
				t.Errorf("a cost of %d: got %v, %v, want %v", cost, d, err, want)
			}
		}
		time.Sleep(defaultHold - 14*time.Second)
		if got := left(t, l, "k"); got != 5 {
			t.Errorf("got %d places left after the first ones have lapsed, want 5", got)
		}
		time.Sleep(time.Minute) // until no renewal is due
	})
}

// ReserveAtMost takes the free places, as many as it can.
func TestRule_ByCost_ReserveAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		rules []core.Rule
		n     int
		want  []int // the costs of calls one after the other
		next  bool  // an event of cost 1 is admitted after the first call has settled 1
	}{
		"some and the rest": {[]core.Rule{tokens(10)}, 4, []int{4, 4, 2, 0}, false},
		"more than all":     {[]core.Rule{tokens(10)}, math.MaxInt, []int{10, 0}, false},
		"soft":              {[]core.Rule{tokens(10).Soft(50)}, 100, []int{15, 0}, false},
		"a smaller rate":    {[]core.Rule{tokens(10), core.FixedWindow("rate", core.PerDay(7))}, 5, []int{5, 2, 0}, true},
		"a larger rate":     {[]core.Rule{core.FixedWindow("rate", core.PerDay(70)), tokens(10)}, 50, []int{10, 0}, false},
		"two kinds":         {[]core.Rule{tokens(10), core.InFlight("slots", 6).ByCost()}, 50, []int{6, 0}, false},
		"shadow":            {[]core.Rule{tokens(10).Shadow()}, 8, []int{8, 8, 8}, true},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				l := testkit.Limiter(t, s, c.rules...)
				before := testkit.Used(t, l, "k")
				var held []*core.Reservation
				for i, want := range c.want {
					r := reserveAtMost(t, l, c.n)
					if d := r.Decision(); r.Cost() != want || d.Allowed != (want > 0) || !d.Allowed && d.RetryAfter == core.Never {
						t.Errorf("call %d: got %d and %v, want %d", i, r.Cost(), d, want)
					}
					held = append(held, r)
				}
				testkit.Must(t, held[0].Settle(t.Context(), 1)) // places stay
				held = append(held, testkit.Reserve(t, l, "k", 1))
				if d := held[len(held)-1].Decision(); d.Allowed != c.next {
					t.Errorf("settled: got %v", d)
				}
				for _, r := range held {
					testkit.Must(t, r.Refund(t.Context()))
				}
				if used := testkit.Used(t, l, "k"); name != "shadow" && !slices.Equal(used, before) {
					t.Errorf("refunded: %v are in use", used)
				}
			})
		})
	}
	l := testkit.Limiter(t, memstore.New(), tokens(10), core.InFlight("requests", 5))
	if r, err := l.ReserveAtMost(t.Context(), "k", 3); r != nil || !errors.Is(err, core.ErrInvalidAsk) {
		t.Errorf("beside places that are not by cost: got %v, %v", r, err)
	}
}

// The costs of two asks with one rule and one key add up, and their places are freed together.
func TestRule_ByCost_Together(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l, other := testkit.Limiter(t, s, tokens(10)), testkit.Limiter(t, s, core.InFlight("requests", 3), core.FixedWindow("rate", core.PerDay(9)))
		ask := func(costs ...int) []core.Ask {
			asks := []core.Ask{{Limiter: other, Key: "k"}}
			for _, n := range costs {
				asks = append(asks, core.Ask{Limiter: l, Key: "k", Cost: n})
			}
			return asks
		}
		for _, c := range []struct {
			costs     []int
			admitted  bool
			remaining int
			retry     time.Duration // above zero, or Never
		}{
			{[]int{3, 4}, true, 3, 0},
			{[]int{6, 5}, false, 10, core.Never},
			{[]int{9, 0}, true, 0, 0}, // the Cost 0 of an Ask stands for 1
			{[]int{1, 2, 3}, true, 4, 0},
			{[]int{math.MaxInt, math.MaxInt}, false, 10, core.Never},
		} {
			r, err := core.ReserveTogether(t.Context(), ask(c.costs...)...)
			testkit.Must(t, err)
			d := r.Decision()
			if d.Allowed != c.admitted || left(t, l, "k") != c.remaining || d.RetryAfter != c.retry {
				t.Errorf("%v: got %v, and %d places left", c.costs, d, left(t, l, "k"))
			}
			if c.admitted { // no other event has places meanwhile
				if used := testkit.Used(t, other, "k")[0]; used != 1 {
					t.Errorf("%v: %d places of the other rule are taken", c.costs, used)
				}
				testkit.Must(t, r.SettleFor(t.Context(), l, 1))
				if left(t, l, "k") != c.remaining {
					t.Errorf("%v, settled: %d places left", c.costs, left(t, l, "k"))
				}
			}
			if testkit.Must(t, r.Release(t.Context())); left(t, l, "k") != 10 {
				t.Errorf("%v, released: %d places left", c.costs, left(t, l, "k"))
			}
		}
		if used := testkit.Used(t, other, "k"); !slices.Equal(used, []int{0, 3}) {
			t.Errorf("%v of the other limiter are in use", used)
		}
	})
}

// A key with 1000 events has no place left. Each end of an event makes room for one more.
func TestRule_ByCost_Most(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), tokens(1_000_000).Plan("small", core.Limit{Events: 10_000}))
	var held []*core.Reservation
	for range 1000 {
		held = append(held, testkit.Reserve(t, l, "k", 2))
	}
	for _, l := range []*core.Limiter{l, l.Plan("small")} {
		if d := testkit.Reserve(t, l, "k", 1).Decision(); d.Allowed || !d.State(0).Estimate || d.State(0).Remaining != 0 || d.RetryAfter == core.Never {
			t.Errorf("got %v of 1001 events", d)
		}
		if r := reserveAtMost(t, l, 5); r.Decision().Allowed {
			t.Errorf("got %d places of 1001 events", r.Cost())
		}
	}
	testkit.Must(t, held[500].Release(t.Context()))
	if got := left(t, l, "k"); got != 1_000_000-1998 {
		t.Errorf("got %d places left of 999 events", got)
	}
	if r := reserveAtMost(t, l, 1_000_000); r.Cost() != 1_000_000-1998 {
		t.Errorf("got %d places, want all others", r.Cost())
	}
	runtime.KeepAlive(held)
}

// A shadow takes as many places as the cost if they are free, and otherwise none.
func TestRule_ByCost_Shadow(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, tokens(10), core.InFlight("trial", 5).ByCost().Shadow())
		small, large := testkit.Reserve(t, l, "k", 3), testkit.Reserve(t, l, "k", 7)
		if d := large.Decision(); !d.Allowed || d.State(1).Allowed || d.State(1).RetryAfter != core.Never || d.RetryAfter != 0 {
			t.Errorf("got %v with %+v", d, d.State(1))
		}
		for i, want := range [][]int{{10, 3}, {3, 3}, {0, 0}} {
			if i > 0 {
				testkit.Must(t, []*core.Reservation{large, small}[i-1].Release(t.Context()))
			}
			if used := testkit.Used(t, l, "k"); !slices.Equal(used, want) {
				t.Errorf("after the end of %d events: %v are in use, want %v", i, used, want)
			}
		}
	})
}

// After a Release that has failed, another one frees all places, also those of a smaller cost that was settled.
func TestRule_ByCost_ReleaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := testkit.Limiter(t, s, tokens(10), core.FixedWindow("rate", core.PerHour(50)))
		for name, end := range map[string]func(r *core.Reservation) error{
			"Release": func(r *core.Reservation) error { return r.Release(t.Context()) },
			"Refund":  func(r *core.Reservation) error { return r.Refund(t.Context()) },
		} {
			all, part := testkit.Reserve(t, l, "k", 3), reserveAtMost(t, l, 100)
			if part.Cost() != 7 {
				t.Errorf("%s: got %d of the 7 free places", name, part.Cost())
			}
			testkit.Must(t, part.Settle(t.Context(), 1))
			s.fails.Store(true)
			for _, r := range []*core.Reservation{all, part} {
				if err := end(r); !errors.Is(err, core.ErrUnavailable) {
					t.Errorf("%s: got %v from a store that is down", name, err)
				}
			}
			s.fails.Store(false)
			for i, r := range []*core.Reservation{all, part} {
				if testkit.Must(t, end(r)); left(t, l, "k") != []int{3, 10}[i] {
					t.Errorf("%s: got %d places left after %d events have ended", name, left(t, l, "k"), i+1)
				}
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if left(t, l, "k") != 10 {
			t.Errorf("got %d places left at the end", left(t, l, "k"))
		}
	})
}
