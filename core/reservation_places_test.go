package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// A remote is a Store that does not say that it is local, so that places have holds. It can fail.
type remote struct {
	driver.Store
	fails    atomic.Bool
	adjusts  atomic.Int64
	renewals atomic.Int64
	largest  atomic.Int64 // the most charges of a call of Adjust
}

func newRemote() *remote { return &remote{Store: memstore.New()} }

var errRemote = fmt.Errorf("%w: the test says so", core.ErrUnavailable)

func (s *remote) Adjust(ctx context.Context, charges []driver.Charge) error {
	s.adjusts.Add(1)
	s.largest.Store(max(s.largest.Load(), int64(len(charges))))
	if s.fails.Load() {
		return errRemote
	}
	for _, c := range charges {
		if c.Op == driver.Renew {
			s.renewals.Add(1)
		}
	}
	return s.Store.Adjust(ctx, charges)
}

// stores are a local Store and one with holds.
var stores = map[string]func() core.Store{
	"local":  func() core.Store { return memstore.New() },
	"remote": func() core.Store { return newRemote() },
}

// eachStore runs f in a bubble of synctest for each of the stores.
func eachStore(t *testing.T, f func(t *testing.T, s core.Store)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, open()) }) })
	}
}

// tokens returns a rule of n places by cost.
func tokens(n int) core.Rule { return core.InFlight("tokens", n).ByCost() }

// reserve reserves an event of cost 1, and fails the test on an error.
func reserve(t *testing.T, l *core.Limiter, key string) *core.Reservation {
	t.Helper()
	return testkit.Reserve(t, l, key, 1)
}

// atMostGoroutines fails the test unless at most n goroutines of package core run, once those that are about to
// end have ended.
func atMostGoroutines(t *testing.T, n int) {
	t.Helper()
	for range 10_000 {
		if goroutines() <= n {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("got %d goroutines, want at most %d", goroutines(), n)
}

// goroutines returns the number of goroutines that package core has started. Those of the runtime do not count.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by github.com/weir-go/weir/core.")
}

func isLost(r *core.Reservation) bool {
	select {
	case <-r.Lost():
		return true
	default:
		return false
	}
}

// No Settle changes how many places an event has, which is one if they are not by cost. A Release and a Refund free them.
func TestInFlight_Settle(t *testing.T) {
	for name, c := range map[string]struct {
		rule  core.Rule
		left  int // of 10 places beside an event of cost 7
		twice int // beside one with two asks, of cost 1 and 4
	}{"one place": {core.InFlight("exports", 10), 9, 9}, "by cost": {tokens(10), 3, 5}} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				l := testkit.Limiter(t, s, c.rule, core.TokenBucket("rate", core.PerHour(50)))
				r := testkit.Reserve(t, l, "k", 7)
				for i, change := range []struct {
					settle func() error
					rate   int // left
				}{
					{func() error { return nil }, 43},
					{func() error { return r.Settle(t.Context(), 30) }, 20},
					{func() error { return r.SettleFor(t.Context(), l, 3) }, 47},
					{func() error { return r.Settle(t.Context(), 0) }, 50},
					{func() error { return r.Settle(t.Context(), 9) }, 41},
				} {
					testkit.Must(t, change.settle())
					if d := testkit.Peek(t, l, "k"); d.State(0).Remaining != c.left || d.State(1).Remaining != change.rate {
						t.Errorf("change %d: got %v, want %d places and %d events left", i, d, c.left, change.rate)
					}
				}
				if r.Cost() != 9 {
					t.Errorf("got the cost %d", r.Cost())
				}
				other := testkit.Reserve(t, l, "k", 4)
				if d := other.Decision(); d.Allowed != (c.left >= 4) {
					t.Errorf("got %v although %d places are left", d, c.left)
				}
				testkit.Must(t, other.Refund(t.Context()))
				testkit.Must(t, r.Refund(t.Context()))
				if d := testkit.Peek(t, l, "k"); d.State(0).Remaining != 10 || d.State(1).Remaining != 50 {
					t.Errorf("refunded: got %v", d)
				}
				released := testkit.Reserve(t, l, "k", 8)
				testkit.Must(t, released.Settle(t.Context(), 2))
				if testkit.Must(t, released.Release(t.Context())); testkit.Left(t, l, "k") != 10 {
					t.Errorf("released after a Settle: got %d places left", testkit.Left(t, l, "k"))
				}
				twice, err := core.ReserveTogether(t.Context(), core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "k", Cost: 4})
				if testkit.Must(t, err); testkit.Left(t, l, "k") != c.twice {
					t.Errorf("got %d places left after two asks of one event, want %d", testkit.Left(t, l, "k"), c.twice)
				}
				if testkit.Must(t, twice.Release(t.Context())); testkit.Left(t, l, "k") != 10 {
					t.Errorf("got %d places left at the end", testkit.Left(t, l, "k"))
				}
			})
		})
	}
}

// Calls that would take places which no caller could free are errors, and take none.
func TestInFlight_ErrInvalidAsk(t *testing.T) {
	s, ctx := memstore.New(), t.Context()
	for _, rule := range []core.Rule{core.InFlight("exports", 10), tokens(10)} {
		l := testkit.Limiter(t, s, core.TokenBucket("rate", core.PerHour(5)), rule)
		calls := map[string]func() error{
			"Allow":  func() error { _, err := l.Allow(ctx, "k"); return err },
			"AllowN": func() error { _, err := l.AllowN(ctx, "k", 3); return err },
			"AllowTogether": func() error {
				_, err := core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "a", Peek: true}, core.Ask{Limiter: l, Key: "k", Cost: 3})
				return err
			},
			"Wait":   func() error { return l.Wait(ctx, "k") },
			"WaitN":  func() error { return l.WaitN(ctx, "k", 3) },
			"Debit":  func() error { return l.Debit(ctx, "k", 3) },
			"Credit": func() error { return l.Credit(ctx, "k", 3) },
		}
		if !rule.Spec().ByCost {
			calls["ReserveAtMost"] = func() error { _, err := l.ReserveAtMost(ctx, "k", 2); return err }
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, core.ErrInvalidAsk) {
				t.Errorf("%v: %s: got %v, want ErrInvalidAsk", &rule, name, err)
			}
		}
		if d := testkit.Peek(t, l, "k"); d.State(0).Remaining != 5 || d.State(1).Remaining != 10 {
			t.Errorf("got %v: something was charged", d)
		}
	}
	if r := reserve(t, testkit.Limiter(t, s, core.TokenBucket("other", core.PerHour(5))), "k"); r.Lost() != nil {
		t.Error("an event without a place has a channel of Lost")
	}
}

// RetryAfter is an estimate only if no other rule denies the event.
func TestInFlight_Estimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, newRemote(),
			core.InFlight("exports", 1), core.InFlight("long", 1).Hold(time.Hour).Shadow(), core.FixedWindow("rate", core.Per(1, time.Hour)))
		r := reserve(t, l, "k")
		d := reserve(t, l, "k").Decision()
		if rate := d.State(2); d.RetryAfter != rate.RetryAfter || rate.Estimate || !d.State(0).Estimate {
			t.Errorf("got %v, want the RetryAfter of the rate", d)
		}
		testkit.Must(t, l.Replace(core.InFlight("exports", 1), core.InFlight("long", 1).Hold(time.Hour).Shadow()))
		d = reserve(t, l, "k").Decision()
		if d.RetryAfter != d.State(0).RetryAfter || d.RetryAfter > defaultHold || !d.State(1).Estimate {
			t.Errorf("got %v with %+v, want the estimate of the enforced rule", d, d.State(1))
		}
		testkit.Must(t, r.Release(t.Context()))
	})
}

// An event keeps its place for as long as it runs, and a place whose event no caller can end is free after a
// hold.
func TestInFlight_Ends(t *testing.T) {
	const hold = 12 * time.Second
	rule, byCost := core.InFlight("exports", 1).Hold(hold), tokens(10).Hold(hold)
	for name, c := range map[string]struct {
		rule  core.Rule
		end   func(cancel context.CancelFunc, r **core.Reservation)
		runs  time.Duration // that the event has its place after end, at least
		until time.Duration // and at most
		n     int           // the places of each event, of 10 by cost, or 0 for one place of one
	}{
		"context":             {rule: rule, end: func(cancel context.CancelFunc, _ **core.Reservation) { cancel() }, runs: 7 * hold / 12, until: hold},
		"MaxHold":             {rule: rule.MaxHold(time.Hour + time.Minute), end: func(context.CancelFunc, **core.Reservation) {}, runs: time.Minute, until: time.Minute + hold},
		"garbage Reservation": {rule: rule, end: func(_ context.CancelFunc, r **core.Reservation) { *r = nil; collect() }, until: hold},

		"context, by cost":             {rule: byCost, n: 6, end: func(cancel context.CancelFunc, _ **core.Reservation) { cancel() }, runs: 7 * hold / 12, until: hold},
		"MaxHold, by cost":             {rule: byCost.MaxHold(time.Hour + time.Minute), n: 6, end: func(context.CancelFunc, **core.Reservation) {}, runs: time.Minute, until: time.Minute + hold},
		"garbage Reservation, by cost": {rule: byCost, n: 10, end: func(_ context.CancelFunc, r **core.Reservation) { *r = nil; collect() }, until: hold},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				l := testkit.Limiter(t, s, c.rule)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				n := max(c.n, 1)
				all := testkit.Left(t, l, "k")
				r, err := l.AcquireN(ctx, "k", n)
				testkit.Must(t, err)
				lost := r.Lost()
				time.Sleep(time.Hour)
				synctest.Wait()
				if testkit.Left(t, l, "k") != all-n {
					t.Fatal("the place has lapsed while its event runs")
				}
				c.end(cancel, &r)
				begun := time.Now()
				next, err := l.AcquireN(context.Background(), "k", n) // another event has the place now
				testkit.Must(t, err)
				defer next.Release(context.Background())
				if took := time.Since(begun); took < c.runs || took > c.until+time.Second {
					t.Errorf("got the place after %v, want %v to %v", took, c.runs, c.until)
				}
				if r == nil {
					return
				}
				select {
				case <-lost:
				default:
					t.Error("Lost is open although another event has the place")
				}
				testkit.Must(t, r.Release(context.Background()))
				if testkit.Left(t, l, "k") != all-n {
					t.Error("a late release has freed the place of another event")
				}
			})
		})
	}
}

// collect runs the cleanups of garbage. Several goroutines run cleanups, so the last one to begin may not be the
// last one to end: there are several collections.
func collect() {
	for range 5 {
		var done atomic.Bool
		runtime.AddCleanup(new([64]byte), func(done *atomic.Bool) { done.Store(true) }, &done)
		for runtime.GC(); !done.Load(); {
			runtime.Gosched()
		}
	}
}

// While the Store is down, an event keeps its place until the end of its hold, and loses it then.
func TestInFlight_Outage(t *testing.T) {
	for name, c := range map[string]struct {
		outage time.Duration
		lost   bool
		rule   core.Rule
		n      int // the places of the event: all
	}{
		"shorter than a hold":          {outage: 15 * time.Second, rule: core.InFlight("exports", 1), n: 1},
		"longer than a hold":           {outage: 31 * time.Second, lost: true, rule: core.InFlight("exports", 1), n: 1},
		"shorter than a hold, by cost": {outage: 15 * time.Second, rule: tokens(9), n: 9},
		"longer than a hold, by cost":  {outage: 31 * time.Second, lost: true, rule: tokens(9), n: 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRemote()
				l := testkit.Limiter(t, s, c.rule)
				r := testkit.Reserve(t, l, "k", c.n)
				time.Sleep(time.Minute)
				s.fails.Store(true)
				time.Sleep(c.outage)
				s.fails.Store(false)
				if isLost(r) != c.lost {
					t.Fatalf("got lost %t after the outage", isLost(r))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if isLost(r) != c.lost || (testkit.Left(t, l, "k") == c.n) != c.lost {
					t.Errorf("got lost %t and %d places left", isLost(r), testkit.Left(t, l, "k"))
				}
				testkit.Must(t, r.Release(t.Context()))
			})
		})
	}
}

// After a Reset, running events have lost their places, and their ends free none of later ones.
func TestInFlight_Reset(t *testing.T) {
	for name, c := range map[string]struct {
		rule  core.Rule
		all   int
		costs [3]int
	}{"one place": {core.InFlight("exports", 2), 2, [3]int{1, 1, 1}}, "by cost": {tokens(10), 10, [3]int{3, 4, 3}}} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				l := testkit.Limiter(t, s, c.rule)
				first, second := testkit.Reserve(t, l, "k", c.costs[0]), testkit.Reserve(t, l, "k", c.costs[1])
				found, err := l.Reset(t.Context(), "k")
				if testkit.Must(t, err); !found || testkit.Left(t, l, "k") != c.all {
					t.Errorf("got %t, and %d places left", found, testkit.Left(t, l, "k"))
				}
				time.Sleep(time.Millisecond) // so that the numbers of the places differ
				third := testkit.Reserve(t, l, "k", c.costs[2])
				for _, r := range []*core.Reservation{first, second} {
					<-r.Lost()
					testkit.Must(t, r.Release(t.Context()))
				}
				if isLost(third) || testkit.Left(t, l, "k") != c.all-c.costs[2] {
					t.Errorf("got lost %t, and %d places left", isLost(third), testkit.Left(t, l, "k"))
				}
				testkit.Must(t, third.Release(t.Context()))
			})
		})
	}
}

// Thousands of places are renewed in calls of at most 16, which are spread over the hold, and nothing is
// left afterwards.
func TestInFlight_Renewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := testkit.Limiter(t, s, core.InFlight("exports", 100))
		before := goroutines()
		var held []*core.Reservation
		for i := range 2000 {
			held = append(held, reserve(t, l, fmt.Sprint("k", i/100)))
		}
		synctest.Wait()
		atMostGoroutines(t, before+1)
		most := int64(0)
		for range 60 {
			seen := s.renewals.Load()
			time.Sleep(time.Second)
			synctest.Wait()
			most = max(most, s.renewals.Load()-seen)
		}
		if n := s.renewals.Load(); n < 9_000 || n > 13_000 || most > 1_000 || s.largest.Load() != 16 {
			t.Errorf("got %d renewals in a minute, at most %d in a second, in calls of up to %d", n, most, s.largest.Load())
		}
		rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		for _, r := range held {
			if isLost(r) {
				t.Fatal("a place is lost")
			}
			testkit.Must(t, r.Release(t.Context()))
		}
		synctest.Wait()
		atMostGoroutines(t, before)
		if got := s.Store.(*memstore.Store).Stats().States; got != 0 {
			t.Errorf("got %d states of released places", got)
		}
	})
}

// A local Store needs no goroutine.
func TestInFlight_Local(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.InFlight("exports", 3).MaxHold(time.Hour))
		before := goroutines()
		r := reserve(t, l, "k")
		time.Sleep(59 * time.Minute)
		if synctest.Wait(); goroutines() != before || testkit.Left(t, l, "k") != 2 {
			t.Errorf("got %d goroutines more, and %d places left", goroutines()-before, testkit.Left(t, l, "k"))
		}
		if d, err := l.Peek(t.Context(), "k"); err != nil || d.State(0).ResetAfter != defaultHold {
			t.Errorf("got %v, %v", d, err)
		}
		testkit.Must(t, r.Release(t.Context()))
	})
}
