package core_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
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

// tokens returns a rule of n places by cost.
func tokens(n int) core.Rule { return core.InFlight("tokens", n).ByCost() }

// acquireN waits for n places of the key "k", and fails the test on an error.
func acquireN(t *testing.T, l *core.Limiter, n int) *core.Reservation {
	t.Helper()
	r, err := l.AcquireN(t.Context(), "k", n)
	testkit.Must(t, err)
	return r
}

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

// Neither Settle nor a refund of a part changes the places. A refund of all frees them.
func TestRule_ByCost_Settle(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, tokens(10), core.TokenBucket("rate", core.PerHour(50)))
		r := testkit.Reserve(t, l, "k", 7)
		for i, c := range []struct {
			settle func() error
			rate   int // left
		}{
			{func() error { return r.Settle(t.Context(), 30) }, 20},
			{func() error { return r.SettleFor(t.Context(), l, 3) }, 47},
			{func() error { return r.Settle(t.Context(), 0) }, 50},
			{func() error { return r.Settle(t.Context(), 9) }, 41},
		} {
			testkit.Must(t, c.settle())
			if d := testkit.Peek(t, l, "k"); d.State(0).Remaining != 3 || d.State(1).Remaining != c.rate {
				t.Errorf("change %d: got %v, want 3 places and %d events left", i, d, c.rate)
			}
		}
		if r.Cost() != 9 {
			t.Errorf("got the cost %d", r.Cost())
		}
		if d := testkit.Reserve(t, l, "k", 4).Decision(); d.Allowed {
			t.Errorf("got %v although 3 places are left", d)
		}
		testkit.Must(t, r.Refund(t.Context()))
		if d := testkit.Peek(t, l, "k"); d.State(0).Remaining != 10 || d.State(1).Remaining != 50 {
			t.Errorf("refunded: got %v", d)
		}
		released := testkit.Reserve(t, l, "k", 8)
		testkit.Must(t, released.Settle(t.Context(), 2))
		if testkit.Must(t, released.Release(t.Context())); left(t, l, "k") != 10 {
			t.Errorf("released after a Settle: got %d places left", left(t, l, "k"))
		}
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

// Calls that would take places which no caller could free are errors.
func TestRule_ByCost_ErrInvalidAsk(t *testing.T) {
	l, ctx := testkit.Limiter(t, memstore.New(), tokens(10)), t.Context()
	for name, call := range map[string]func() error{
		"Allow":  func() error { _, err := l.Allow(ctx, "k"); return err },
		"AllowN": func() error { _, err := l.AllowN(ctx, "k", 3); return err },
		"AllowTogether": func() error {
			_, err := core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "k", Cost: 3})
			return err
		},
		"WaitN":  func() error { return l.WaitN(ctx, "k", 3) },
		"Debit":  func() error { return l.Debit(ctx, "k", 3) },
		"Credit": func() error { return l.Credit(ctx, "k", 3) },
	} {
		if err := call(); !errors.Is(err, core.ErrInvalidAsk) || left(t, l, "k") != 10 {
			t.Errorf("%s: got %v, and %d places left", name, err, left(t, l, "k"))
		}
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

// The first caller of AcquireN waits until enough places are free, and those behind it wait, too, although theirs
// are free.
func TestLimiter_AcquireN(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, tokens(10), core.TokenBucket("rate", core.PerSecond(1000)))
		first := acquireN(t, l, 8)
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { _ = first.Release(context.Background()) })
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i, c := range []struct {
			n, minute int // in which the caller gets its places
		}{{9, 1}, {1, 1}, {2, 2}, {8, 2}, {1, 3}, {9, 3}} {
			wg.Go(func() {
				r := acquireN(t, l, c.n)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
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
		wg.Wait()
		for _, pair := range [][]int{{0, 1}, {2, 3}, {4, 5}} { // the two of a minute may be noted in any order
			at := slices.Index(order, pair[0]) &^ 1
			slices.Sort(order[at : at+2])
		}
		if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5}) || left(t, l, "k") != 10 {
			t.Errorf("got the order %v, and %d places left", order, left(t, l, "k"))
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
		if d := testkit.Reserve(t, l, "k", 1).Decision(); d.Allowed || d.RetryAfter <= 0 || left(t, l, "k") != 0 {
			t.Errorf("got %v, and %d left", d, left(t, l, "k"))
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
		if left(t, l, "k") != 10 {
			t.Errorf("got %d places left at the end", left(t, l, "k"))
		}
	})
}

// Plans and modifiers change the number of places by cost.
func TestRule_ByCost_Modifiers(t *testing.T) {
	base, million := tokens(10), core.Limit{Events: 1_000_000}
	for name, c := range map[string]struct {
		rule core.Rule
		plan string
		cost int
		want int // events at the same time
	}{
		"plain":               {rule: base, cost: 3, want: 3},
		"a million":           {rule: tokens(1_000_000), cost: 1_000_000, want: 1},
		"many":                {rule: tokens(1_000_000), cost: 1, want: 1000},
		"many at most":        {rule: tokens(1_000_000), cost: 1000, want: 1000},
		"few at most":         {rule: tokens(1_000_000), cost: 1001, want: 999},
		"plan":                {rule: base.Plan("pro", million), plan: "pro", cost: 300_000, want: 3},
		"headroom":            {rule: base.Headroom("batch", 20), plan: "batch", cost: 4, want: 2},
		"within headroom":     {rule: base.Headroom("batch", 20), plan: "batch", cost: 3, want: 2},
		"soft":                {rule: base.Soft(50), cost: 5, want: 3},
		"many, soft":          {rule: tokens(500_000).Soft(100), cost: 1, want: 1000},
		"divided":             {rule: base.Divide(4), cost: 1, want: 2},
		"divided, above":      {rule: base.Divide(4), cost: 3, want: 0},
		"elastic, all spare":  {rule: base.Elastic(func() float64 { return 1 }, 0.2), cost: 2, want: 5},
		"elastic, half spare": {rule: base.Elastic(func() float64 { return 0.5 }, 0.2), cost: 2, want: 3},
		"elastic, none spare": {rule: base.Elastic(func() float64 { return 0 }, 0.2), cost: 2, want: 1},
		"elastic, above":      {rule: base.Elastic(func() float64 { return 0 }, 0.2), cost: 3, want: 0},
		"blocked":             {rule: base.Plan("banned", core.Blocked), plan: "banned", cost: 1, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := testkit.Limiter(t, memstore.New(), c.rule).Plan(c.plan)
			var held []*core.Reservation // the last one is denied
			for len(held) == 0 || len(held) <= 1000 && held[len(held)-1].Decision().Allowed {
				held = append(held, testkit.Reserve(t, l, "k", c.cost))
			}
			n, d := len(held)-1, held[len(held)-1].Decision()
			runtime.KeepAlive(held) // the places of garbage are free
			if n != c.want || d.Allowed || (d.RetryAfter == core.Never) != (c.want == 0) {
				t.Errorf("got %d events at the same time, want %d, and then %v", n, c.want, d)
			}
		})
	}
	if got, want := testkit.OfPlan(t, base.Hold(time.Minute).MaxHold(time.Hour).Plan("pro", million), "pro").String(), `in_flight "tokens" 1000000 by cost hold 1m max hold 1h plan "pro"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
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

// After a Reset, running events have lost their places, and their ends free none of later ones.
func TestRule_ByCost_Reset(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, tokens(10))
		a, b := testkit.Reserve(t, l, "k", 3), testkit.Reserve(t, l, "k", 4)
		found, err := l.Reset(t.Context(), "k")
		if testkit.Must(t, err); !found || left(t, l, "k") != 10 {
			t.Errorf("got %t, and %d places left", found, left(t, l, "k"))
		}
		time.Sleep(time.Millisecond) // so that the numbers of the places differ
		c := testkit.Reserve(t, l, "k", 3)
		for _, r := range []*core.Reservation{a, b} {
			<-r.Lost()
			testkit.Must(t, r.Release(t.Context()))
		}
		if isLost(c) || left(t, l, "k") != 7 {
			t.Errorf("got lost %t, and %d places left", isLost(c), left(t, l, "k"))
		}
		testkit.Must(t, c.Release(t.Context()))
	})
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

// A rule that changes between ByCost and without keeps the places of running events.
func TestRule_ByCost_Replace(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("tokens", 10))
		old := testkit.Reserve(t, l, "k", 4)
		testkit.Must(t, l.Replace(tokens(10)))
		weighted := testkit.Reserve(t, l, "k", 9)
		if !weighted.Decision().Allowed || left(t, l, "k") != 0 {
			t.Errorf("got %v beside an event that began before", weighted.Decision())
		}
		time.Sleep(time.Hour)
		testkit.Must(t, l.Replace(tokens(5)))
		if d := testkit.Reserve(t, l, "k", 1).Decision(); d.Allowed || isLost(weighted) || isLost(old) {
			t.Errorf("a smaller limit: got %v, and lost %t, %t", d, isLost(weighted), isLost(old))
		}
		testkit.Must(t, weighted.Release(t.Context()))
		if got := left(t, l, "k"); got != 4 {
			t.Errorf("got %d places left of 5 beside the old event, want 4", got)
		}
		testkit.Must(t, l.Replace(core.InFlight("tokens", 10)))
		if got := left(t, l, "k"); got != 9 {
			t.Errorf("got %d places left beside the old event, want 9", got)
		}
		testkit.Must(t, old.Release(t.Context()))
	})
}

// The events that 32 goroutines run at the same time never take more than all places, whatever they cost.
func TestRule_ByCost_Concurrent(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			const n = 50
			l := testkit.Limiter(t, open(), tokens(n))
			var running, most atomic.Int64
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					for range 50 {
						var r *core.Reservation
						var err error
						switch cost := 1 + rand.IntN(n); rand.IntN(3) {
						case 0:
							r, err = l.ReserveAtMost(t.Context(), "k", cost)
						case 1:
							r, err = l.Reserve(t.Context(), "k", cost)
						default:
							r, err = l.AcquireN(t.Context(), "k", cost)
						}
						if err != nil {
							t.Error(err)
							return
						}
						cost := int64(r.Cost()) // 0 of a denied one
						now := running.Add(cost)
						for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
						}
						runtime.Gosched()
						running.Add(-cost)
						if err := r.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if m := most.Load(); m > n || m < n/2 || left(t, l, "k") != n {
				t.Errorf("got %d places at the same time, and %d left at the end", m, left(t, l, "k"))
			}
		})
	}
}
