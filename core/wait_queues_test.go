package core_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// severalLimiters returns n limiters with the same rules on s, as in n processes.
func severalLimiters(t *testing.T, s core.Store, n int, rules ...core.Rule) (limiters []*core.Limiter) {
	for range n {
		limiters = append(limiters, testkit.Limiter(t, s, rules...))
	}
	return limiters
}

// Callers of two limiters wait for a place. They get theirs in the order of arrival, soon after a change of any kind.
func TestLimiter_Acquire_Changes(t *testing.T) {
	type change struct {
		own, other *core.Limiter
		held       []*core.Reservation
		plan       *atomic.Value
	}
	replace := func(t *testing.T, c change, rule core.Rule) {
		testkit.Must(t, core.ReplaceAll(map[*core.Limiter][]core.Rule{c.own: {rule}, c.other: {rule}}))
	}
	release := func(t *testing.T, c change) {
		for _, r := range c.held {
			testkit.Must(t, r.Release(t.Context()))
		}
	}
	exports := core.InFlight("exports", 1)
	for name, c := range map[string]struct {
		rules   []core.Rule
		do      func(t *testing.T, c change)
		earlier time.Duration // no caller may get a place earlier
		later   time.Duration // and all have had theirs at the latest
		mixed   bool          // the callers of different limiters may be mixed
	}{
		"release": {rules: []core.Rule{exports}, later: 6 * time.Millisecond,
			do: release},
		"reset": {rules: []core.Rule{exports}, later: time.Second, mixed: true,
			do: func(t *testing.T, c change) { _, err := c.other.Reset(t.Context(), "k"); testkit.Must(t, err) }},
		"larger limit": {rules: []core.Rule{exports}, later: time.Second, mixed: true, // until the first callers ask again
			do: func(t *testing.T, c change) { replace(t, c, core.InFlight("exports", 3)) }},
		"smaller limit": {rules: []core.Rule{core.InFlight("exports", 3)}, later: time.Second,
			do: func(t *testing.T, c change) { replace(t, c, exports); release(t, c) }},
		"another name": {rules: []core.Rule{exports}, later: time.Second, mixed: true,
			do: func(t *testing.T, c change) { replace(t, c, core.InFlight("imports", 1)) }},
		"by cost": {rules: []core.Rule{exports}, later: time.Second, mixed: true,
			do: func(t *testing.T, c change) { replace(t, c, core.InFlight("exports", 10).ByCost()) }},
		"another plan": {rules: []core.Rule{exports.Plan("pro", core.Limit{Events: 3})}, later: time.Second + 6*time.Millisecond, mixed: true,
			do: func(_ *testing.T, c change) { c.plan.Store("pro") }},
		"no limit": {rules: []core.Rule{exports.Plan("staff", core.Unlimited)}, later: time.Second + 6*time.Millisecond, mixed: true,
			do: func(_ *testing.T, c change) { c.plan.Store("staff") }},
		"pause": {rules: []core.Rule{core.Pause("pause"), exports}, earlier: time.Minute, later: time.Minute + 2*time.Second, mixed: true,
			do: func(t *testing.T, c change) {
				pause(t, c.own, "k", time.Minute)
				release(t, c)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				both := severalLimiters(t, s, 2, c.rules...)
				var plan atomic.Value
				plan.Store("")
				var held []*core.Reservation
				for r := reserve(t, both[0], "k"); r.Decision().Allowed; r = reserve(t, both[0], "k") {
					held = append(held, r)
				}
				defer release(t, change{held: held})
				var mu sync.Mutex
				admitted := make([]time.Time, 6)
				var changed time.Time
				var wg sync.WaitGroup
				for i := range admitted {
					wg.Go(func() {
						l := both[i%2].Choose(func(context.Context, string) (*core.Limiter, error) { return both[i%2].Plan(plan.Load().(string)), nil })
						r, err := l.Acquire(t.Context(), "k")
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						admitted[i] = time.Now()
						if changed.IsZero() || time.Since(changed) < c.earlier {
							t.Errorf("caller %d: got a place too early", i)
						}
						mu.Unlock()
						time.Sleep(time.Millisecond)
						if err := r.Release(t.Context()); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				mu.Lock()
				changed = time.Now()
				mu.Unlock()
				c.do(t, change{both[0], both[1], held, &plan})
				wg.Wait()
				if took := time.Since(changed); took > c.later {
					t.Errorf("all had places after %v, want %v", took, c.later)
				}
				for i := range admitted {
					for j := range i {
						if admitted[i].Before(admitted[j]) && (i%2 == j%2 || !c.mixed) {
							t.Errorf("caller %d got a place before caller %d", i, j)
						}
					}
				}
			})
		})
	}
}

// If a caller gives up, both a caller of its limiter and one of another limiter may have enough places.
func TestLimiter_AcquireN_Cancel(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		both := severalLimiters(t, s, 2, tokens(10))
		held := testkit.Reserve(t, both[0], "k", 5)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var gaveUp time.Time
		for i, c := range []struct {
			l    *core.Limiter
			ctx  context.Context
			cost int
		}{{both[0], ctx, 10}, {both[1], t.Context(), 2}, {both[0], t.Context(), 3}} {
			wg.Go(func() {
				r, err := c.l.AcquireN(c.ctx, "k", c.cost)
				if i > 0 && (err != nil || time.Since(gaveUp) > 0) {
					t.Errorf("caller %d: got %v after %v, want its places at once", i, err, time.Since(gaveUp))
				}
				if err == nil {
					time.Sleep(time.Minute)
					testkit.Must(t, r.Release(context.Background()))
				}
			})
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		gaveUp = time.Now()
		cancel()
		wg.Wait()
		testkit.Must(t, held.Release(t.Context()))
	})
}

// Callers that wait for a rate keep no places from those of other limiters.
func TestLimiter_Acquire_WaitsForRate(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		slow := testkit.Limiter(t, s, core.InFlight("exports", 2), core.TokenBucket("rate", core.PerHour(60).WithBurst(1)))
		fast := testkit.Limiter(t, s, core.InFlight("exports", 2))
		acquire := func(l *core.Limiter) *core.Reservation {
			r, err := l.Acquire(t.Context(), "k")
			testkit.Must(t, err)
			return r
		}
		held := []*core.Reservation{acquire(slow), acquire(fast)} // the rate is empty, and no place is free
		begun := time.Now()
		admitted := make(chan time.Duration, 2)
		for range cap(admitted) {
			go func() {
				r := acquire(slow)
				admitted <- time.Since(begun)
				testkit.Must(t, r.Release(context.Background()))
			}()
			synctest.Wait()
		}
		for range 10 {
			time.Sleep(time.Second)
			testkit.Must(t, held[1].Release(t.Context()))
			free := time.Now()
			if held[1] = acquire(fast); time.Since(free) > 0 {
				t.Errorf("got a place after %v, want it at once", time.Since(free))
			}
		}
		testkit.Must(t, held[0].Release(t.Context()))
		for i := range cap(admitted) {
			if got, want := <-admitted, time.Duration(i+1)*time.Minute; got < want || got > want+time.Second {
				t.Errorf("caller %d got the rate and a place after %v, want %v", i, got, want)
			}
		}
		testkit.Must(t, held[1].Release(t.Context()))
	})
}

// Reserve takes no places that callers of another limiter wait for. If they end without a message to the Store, as in
// a process that was killed, their places are free 2 s after they have asked.
func TestLimiter_Reserve_BehindWaiters(t *testing.T) {
	for name, lost := range map[string]bool{"the caller gives up": false, "the Store does not know": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRemote()
				both := severalLimiters(t, s, 2, tokens(10))
				first := testkit.Reserve(t, both[0], "k", 5)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := both[1].AcquireN(ctx, "k", 6); !errors.Is(err, context.Canceled) {
						t.Errorf("the waiter got %v", err)
					}
				})
				denied := func() bool {
					r := testkit.Reserve(t, both[0], "k", 1)
					testkit.Must(t, r.Release(t.Context()))
					return !r.Decision().Allowed
				}
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					if !denied() {
						t.Fatal("got a place that a caller waits for")
					}
				}
				s.fails.Store(lost)
				cancel()
				wg.Wait()
				s.fails.Store(false)
				ended := time.Now()
				for denied() {
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(ended); !lost && took > 0 || lost && (took < time.Second || took > 2100*time.Millisecond) {
					t.Errorf("got a place %v after the end of the waiter", took)
				}
				testkit.Must(t, first.Release(t.Context()))
			})
		})
	}
}

// A hooked is a memstore.Store that calls a function before each Take.
type hooked struct {
	*memstore.Store
	take func()
}

func (s *hooked) Take(ctx context.Context, charges []driver.Charge) error {
	s.take()
	return s.Store.Take(ctx, charges)
}

// A caller whose goroutine ends in the Store does not keep others waiting.
func TestLimiter_Acquire_Panic(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("the test says so") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ends atomic.Bool
				s := &hooked{memstore.New(), func() {
					if ends.CompareAndSwap(true, false) {
						end()
					}
				}}
				both := severalLimiters(t, s, 2, core.InFlight("exports", 1))
				held := reserve(t, both[0], "k")
				var admitted atomic.Int64
				var wg sync.WaitGroup
				for i := range 6 {
					wg.Go(func() {
						defer func() { _ = recover() }()
						r, err := both[i%2].Acquire(t.Context(), "k")
						if err == nil {
							admitted.Add(1)
							err = r.Release(t.Context())
						}
						if err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				ends.Store(true)
				begun := time.Now()
				testkit.Must(t, held.Release(t.Context()))
				wg.Wait()
				if n, took := admitted.Load(), time.Since(begun); n != 5 || took > 2*time.Second {
					t.Errorf("%d callers got places within %v, want 5 within 2 s", n, took)
				}
				if n := testkit.Left(t, both[1], "k"); n != 1 {
					t.Errorf("got %d places left, want 1", n)
				}
			})
		})
	}
}

// 20 000 callers of two limiters wait, and one more is an error.
func TestLimiter_Acquire_TooManyWaiters(t *testing.T) {
	testkit.WithoutRace(t)
	synctest.Test(t, func(t *testing.T) {
		const most = 10_000
		both := severalLimiters(t, memstore.New(), 2, core.InFlight("exports", 1))
		held := reserve(t, both[0], "k")
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for i := range 2 * most {
			wg.Go(func() {
				r, err := both[i%2].Acquire(t.Context(), "k")
				if err == nil {
					admitted.Add(1)
					err = r.Release(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for _, l := range both {
			if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, core.ErrTooManyWaiters) {
				t.Errorf("got %v, want ErrTooManyWaiters", err)
			}
		}
		begun := time.Now()
		testkit.Must(t, held.Release(t.Context()))
		wg.Wait()
		if n, took := admitted.Load(), time.Since(begun); n != 2*most || took > 0 {
			t.Errorf("%d callers got places within %v, want all at once", n, took)
		}
	})
}

// A reset frees all places, and wakes the callers who wait for them.
func TestLimiter_Acquire_Reset(t *testing.T) {
	for _, rule := range []core.Rule{core.InFlight("exports", 2), core.InFlight("exports", 2).ByCost()} {
		eachStore(t, func(t *testing.T, s core.Store) {
			all := severalLimiters(t, s, 3, rule)
			held := [4]*core.Reservation{reserve(t, all[0], "k"), reserve(t, all[0], "k")}
			var callers sync.WaitGroup
			for i, l := range all[1:] {
				callers.Go(func() {
					var err error
					if held[2+i], err = l.Acquire(t.Context(), "k"); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(10 * time.Second)
			begun := time.Now()
			_, err := all[0].Reset(t.Context(), "k")
			testkit.Must(t, err)
			callers.Wait()
			if took := time.Since(begun); took > 10*time.Millisecond {
				t.Errorf("the callers got places after %v", took)
			}
			for _, r := range held {
				testkit.Must(t, r.Release(t.Context()))
			}
		})
	}
}

// A release wakes the callers whose places are free, whichever limits they and the releasing event have.
func TestLimiter_Acquire_OtherLimits(t *testing.T) {
	for name, c := range map[string]struct {
		rule           core.Rule
		cost           int    // of the first event, which takes all places of its plan
		holder, waiter string // plans
		others         int    // more events, of cost 1
	}{
		"a smaller limit releases":   {core.InFlight("r", 10).Headroom("batch", 80), 1, "batch", "", 9},
		"a smaller limit waits":      {core.InFlight("r", 10).Headroom("batch", 80), 1, "", "batch", 1},
		"1000 events by cost":        {core.InFlight("r", 1_000_000).ByCost(), 1, "", "", 999},
		"by cost, all in one event":  {core.InFlight("r", 1_000_000).ByCost(), 1_000_000, "", "", 0},
		"by cost, a smaller release": {core.InFlight("r", 10).ByCost().Headroom("batch", 80), 1, "batch", "", 9},
	} {
		t.Run(name, func(t *testing.T) {
			if c.others > 100 {
				testkit.WithoutRace(t)
			}
			eachStore(t, func(t *testing.T, s core.Store) {
				l := testkit.Limiter(t, s, c.rule)
				first, err := l.Plan(c.holder).AcquireN(t.Context(), "k", c.cost)
				testkit.Must(t, err)
				for range c.others {
					r, err := l.AcquireN(t.Context(), "k", 1)
					testkit.Must(t, err)
					defer func() { _ = r.Release(context.Background()) }()
				}
				const after = 3 * time.Second
				time.AfterFunc(after, func() { _ = first.Release(context.Background()) })
				begun := time.Now()
				r, err := l.Plan(c.waiter).AcquireN(t.Context(), "k", 1)
				testkit.Must(t, err)
				defer func() { _ = r.Release(context.Background()) }()
				if took := time.Since(begun); took != after {
					t.Errorf("got a place after %v, want one after %v", took, after)
				}
			})
		})
	}
}

// A queue whose caller is delayed by another rule blocks no place for others meanwhile.
func TestLimiter_Acquire_Delayed(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("places", 2), core.LeakyBucket("queue", core.PerMinute(6)))
		other := testkit.Limiter(t, s, core.InFlight("places", 2))
		begun := time.Now()
		for range 3 {
			go func() {
				if r, err := l.Acquire(context.Background(), "k"); err == nil {
					time.Sleep(time.Millisecond)
					_ = r.Release(context.Background())
				}
			}()
		}
		time.Sleep(50 * time.Millisecond) // at a multiple of 10 s, one event ends as another one begins
		for time.Since(begun) < 15*time.Second {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			r := testkit.Reserve(t, other, "k", 1)
			if !r.Decision().Allowed {
				t.Errorf("after %v: got %v", time.Since(begun), r.Decision())
			}
			testkit.Must(t, r.Release(t.Context()))
		}
		time.Sleep(time.Minute) // until the callers have ended
	})
}

// Callers of a plan with headroom that wait leave it to the others.
func TestLimiter_Acquire_Headroom(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		rule := core.InFlight("r", 10).Headroom("batch", 20)
		batch, others := severalLimiters(t, s, 4, rule), severalLimiters(t, s, 2, rule)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 8 + len(batch) {
			wg.Go(func() {
				r, err := batch[i%len(batch)].Plan("batch").Acquire(ctx, "k")
				if err != nil {
					return
				}
				<-ctx.Done()
				testkit.Must(t, r.Release(context.Background()))
			})
			synctest.Wait()
		}
		var held []*core.Reservation
		for i, l := range others {
			if n := testkit.Left(t, l, "k"); n != 2-i {
				t.Errorf("got %d places left, want %d", n, 2-i)
			}
			begun := time.Now()
			r, err := l.Acquire(t.Context(), "k")
			testkit.Must(t, err)
			if took := time.Since(begun); took > 0 {
				t.Errorf("got a place after %v, want it at once", took)
			}
			held = append(held, r)
		}
		cancel()
		wg.Wait()
		for _, r := range held {
			testkit.Must(t, r.Release(t.Context()))
		}
	})
}

// A caller that has larger limits than the one before it in its limiter gets places at once, as soon as they suffice.
func TestLimiter_AcquireN_NextHasLargerLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("r", 100).ByCost().Headroom("batch", 90))
		held, err := l.AcquireN(t.Context(), "k", 10)
		testkit.Must(t, err)
		var wg sync.WaitGroup
		admitted := make([]time.Time, 2)
		for i, c := range []struct {
			l    *core.Limiter
			cost int
		}{{l.Plan("batch"), 10}, {l, 50}} {
			wg.Go(func() {
				r, err := c.l.AcquireN(t.Context(), "k", c.cost)
				testkit.Must(t, err)
				admitted[i] = time.Now()
				time.Sleep(10 * time.Second)
				testkit.Must(t, r.Release(context.Background()))
			})
			synctest.Wait()
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		testkit.Must(t, held.Release(t.Context()))
		wg.Wait()
		if took := admitted[1].Sub(admitted[0]); took > 0 {
			t.Errorf("the second caller got its places %v after the first one, want them at once", took)
		}
	})
}

// A caller whose predecessor has left while the Store admitted the first caller of their limiter asks at once.
func TestLimiter_AcquireN_NextLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var leaves atomic.Bool
		s := &hooked{memstore.New(), func() {
			if leaves.CompareAndSwap(true, false) {
				cancel()
				time.Sleep(time.Millisecond) // until the caller with ctx has left
			}
		}}
		l := testkit.Limiter(t, s, tokens(10))
		held := testkit.Reserve(t, l, "k", 10)
		var wg sync.WaitGroup
		admitted := make([]time.Time, 3)
		for i, c := range []struct {
			ctx  context.Context
			cost int
		}{{t.Context(), 5}, {ctx, 10}, {t.Context(), 5}} {
			wg.Go(func() {
				r, err := l.AcquireN(c.ctx, "k", c.cost)
				if i == 1 {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("the caller that leaves got %v", err)
					}
					return
				}
				testkit.Must(t, err)
				admitted[i] = time.Now()
				time.Sleep(10 * time.Second)
				testkit.Must(t, r.Release(context.Background()))
			})
			synctest.Wait()
			time.Sleep(time.Second)
		}
		leaves.Store(true)
		testkit.Must(t, held.Release(t.Context()))
		wg.Wait()
		if took := admitted[2].Sub(admitted[0]); took > 0 {
			t.Errorf("the last caller got its places %v after the first one, want them at once", took)
		}
	})
}
