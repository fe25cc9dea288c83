package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// Places that are not renewed any more, and lapse soon after a renewal of others, do not stop the renewals.
func TestRenewer_StoppedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, newRemote(), core.InFlight("exports", 1))
		live := reserve(t, l, "live")
		for i := range 300 { // at almost any time, the hold of one of them ends within 0.1 s
			ctx, cancel := context.WithCancel(t.Context())
			_, err := l.Reserve(ctx, fmt.Sprint(i), 1)
			testkit.Must(t, err)
			cancel()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if isLost(live) {
			t.Error("a running event has lost its place")
		}
		testkit.Must(t, live.Release(t.Context()))
	})
}

// Release with a context that has ended frees the places, and Refund does nothing, like Settle. The places
// then lapse with their hold, because nothing renews them.
func TestReservation_Release_EndedContext(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*core.Reservation, context.Context) error
		want error
		left int // at once
	}{
		"Release": {(*core.Reservation).Release, nil, 1}, "Refund": {(*core.Reservation).Refund, context.Canceled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				l := testkit.Limiter(t, s, core.InFlight("exports", 1))
				ctx, cancel := context.WithCancel(context.Background())
				r, err := l.Acquire(ctx, "k")
				testkit.Must(t, err)
				cancel()
				if err := c.end(r, ctx); !errors.Is(err, c.want) || testkit.Left(t, l, "k") != c.left {
					t.Errorf("got %v, and %d places left", err, testkit.Left(t, l, "k"))
				}
				time.Sleep(defaultHold + time.Second)
				if testkit.Left(t, l, "k") != 1 {
					t.Error("the place is taken for ever")
				}
			})
		})
	}
}

// A Release whose Undo failed can be repeated, because an Undo of a place can.
func TestReservation_Release_Repeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := testkit.Limiter(t, s, core.InFlight("exports", 1))
		r := reserve(t, l, "k")
		s.fails.Store(true)
		if err := r.Release(t.Context()); err == nil {
			t.Error("got no error")
		}
		s.fails.Store(false)
		if testkit.Must(t, r.Release(t.Context())); testkit.Left(t, l, "k") != 1 {
			t.Error("the second Release has freed nothing")
		}
	})
}

// A hanging is a remote whose Adjust does not return, until its context ends or for a time.
type hanging struct {
	*remote
	hangs atomic.Bool
	deaf  time.Duration // if not zero, for which Adjust ignores its context
}

func (s *hanging) Adjust(ctx context.Context, charges []driver.Charge) error {
	switch {
	case !s.hangs.Load():
		return s.remote.Adjust(ctx, charges)
	case s.deaf > 0:
		time.Sleep(s.deaf)
		return errRemote
	}
	<-ctx.Done()
	return ctx.Err()
}

// Lost is closed at the end of the hold, also while renewals hang.
func TestReservation_Lost_HangingStore(t *testing.T) {
	for _, n := range []int{1, 5000} {
		for _, deaf := range []time.Duration{0, 100 * time.Second} {
			t.Run(fmt.Sprint(n, " events, deaf for ", deaf), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &hanging{remote: newRemote(), deaf: deaf}
					l := testkit.Limiter(t, s, core.InFlight("exports", 10))
					var held []*core.Reservation
					for i := range n {
						held = append(held, reserve(t, l, fmt.Sprint(i)))
					}
					s.hangs.Store(true)
					begun := time.Now()
					for _, r := range held {
						<-r.Lost()
					}
					if took := time.Since(begun); took > defaultHold+100*time.Millisecond {
						t.Errorf("the last event has noticed after %v that it has lost its place", took)
					}
					s.hangs.Store(false)
					for _, r := range held {
						testkit.Must(t, r.Release(t.Context()))
					}
					time.Sleep(2 * deaf) // until the calls have returned
				})
			})
		}
	}
}

// A forgotten event ends, although the context of its decision refers to it, and although that context, the
// parent of many, does not end.
func TestInFlight_GarbageInContext(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("exports", 1))
		type key struct{}
		func() {
			ctx, cancel := context.WithCancel(context.Background())
			_ = cancel
			r := new(core.Reservation)
			_, err := r.Reserve(context.WithValue(ctx, key{}, r), core.Ask{Limiter: l, Key: "k"})
			testkit.Must(t, err)
		}()
		collect()
		time.Sleep(time.Minute)
		r := reserve(t, l, "k")
		if !r.Decision().Allowed {
			t.Error("the forgotten event has its place")
		}
		testkit.Must(t, r.Release(t.Context()))
	})
}

// The places of a shadow rule change nothing about those of others, and do not close Lost.
func TestInFlight_ShadowPlaces(t *testing.T) {
	for name, shadow := range map[string]core.Rule{
		"MaxHold": core.InFlight("trial", 5).MaxHold(time.Minute), "short hold": core.InFlight("trial", 5).Hold(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRemote()
				l := testkit.Limiter(t, s, core.InFlight("exports", 1), shadow.Shadow())
				r := reserve(t, l, "k")
				s.fails.Store(true)
				time.Sleep(3 * time.Second) // longer than the short hold
				s.fails.Store(false)
				time.Sleep(time.Hour)
				if isLost(r) || reserve(t, l, "k").Decision().Allowed {
					t.Errorf("got lost %t, and %d places left", isLost(r), testkit.Left(t, l, "k"))
				}
				testkit.Must(t, r.Release(t.Context()))
			})
		})
	}
}

// MaxHold of a rule ends the renewals of its own places only.
func TestRule_MaxHold_OtherRule(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("exports", 1), core.InFlight("short", 5).MaxHold(time.Minute))
		r := reserve(t, l, "k")
		time.Sleep(time.Hour)
		if !isLost(r) || reserve(t, l, "k").Decision().Allowed {
			t.Errorf("got lost %t, and %d places of the other rule left", isLost(r), testkit.Left(t, l, "k"))
		}
		testkit.Must(t, r.Release(t.Context()))
	})
}

// The longest MaxHold is one.
func TestRule_MaxHold_Longest(t *testing.T) {
	testkit.WithoutRace(t)
	l := testkit.Limiter(t, newRemote(), core.InFlight("exports", 1).Hold(time.Second).MaxHold(math.MaxInt64))
	r := reserve(t, l, "k")
	select {
	case <-r.Lost():
		t.Error("the place is lost")
	case <-time.After(1500 * time.Millisecond): // the overflow needs the real clock: that of a bubble began in 2000
	}
	testkit.Must(t, r.Release(t.Context()))
}

// Lost of a forgotten event is closed before another event has its place.
func TestReservation_Lost_Garbage(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("exports", 1))
		lost := reserve(t, l, "k").Lost()
		collect()
		time.Sleep(time.Minute)
		r := reserve(t, l, "k")
		synctest.Wait()
		select {
		case <-lost:
		default:
			t.Errorf("Lost is open, and another event got %v", r.Decision())
		}
		testkit.Must(t, r.Release(t.Context()))
	})
}

// A slow is a remote whose Take returns late.
type slow struct {
	*remote
	late time.Duration
}

func (s *slow) Take(ctx context.Context, charges []driver.Charge) error {
	err := s.remote.Take(ctx, charges)
	time.Sleep(s.late)
	return err
}

// A decision that its caller does not wait for takes no place, although the Store has not noticed that.
func TestReservation_Reserve_EndedDuringDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, &slow{newRemote(), 500 * time.Millisecond}, core.InFlight("exports", 1))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		if r, err := l.Reserve(ctx, "k", 1); r != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", r, err)
		}
		if testkit.Left(t, l, "k") != 1 {
			t.Error("the place is taken")
		}
	})
}

// A gate keeps the places of a request whose context ends at the same time.
func TestReservation_HasPlaces_Ending(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("exports", 1))
		ctx, cancel := context.WithCancel(t.Context())
		r, err := l.Reserve(ctx, "k", 1)
		testkit.Must(t, err)
		cancel()
		if has, _ := inner.HasPlaces(r); !has {
			t.Error("the event has no place")
		}
		if time.Sleep(time.Hour); isLost(r) || testkit.Left(t, l, "k") != 0 {
			t.Errorf("got lost %t, and %d places left", isLost(r), testkit.Left(t, l, "k"))
		}
		testkit.Must(t, r.Release(t.Context()))
	})
}

// A counting counts the calls of Take.
type counting struct {
	driver.Store
	takes atomic.Int64
}

func (s *counting) Take(ctx context.Context, charges []driver.Charge) error {
	s.takes.Add(1)
	return s.Store.Take(ctx, charges)
}

// The end of an event without a place makes no caller of Acquire ask again.
func TestReservation_Release_NoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: memstore.New()}
		l := testkit.Limiter(t, s, core.InFlight("exports", 1))
		r := reserve(t, l, "k")
		waiting := make(chan *core.Reservation)
		go func() {
			r, _ := l.Acquire(t.Context(), "k")
			waiting <- r
		}()
		synctest.Wait()
		s.takes.Store(0)
		for range 100 {
			testkit.Must(t, reserve(t, l, "k").Release(t.Context()))
			synctest.Wait()
		}
		if s.takes.Load() != 100 {
			t.Errorf("100 denied events: got %d calls of Take", s.takes.Load())
		}
		testkit.Must(t, r.Release(t.Context()))
		testkit.Must(t, (<-waiting).Release(t.Context()))
	})
}

// An event that takes its place just after a Reset has not lost it.
func TestReservation_Lost_ConcurrentReset(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.InFlight("exports", 5))
	for i := range 5000 {
		var wg sync.WaitGroup
		var r *core.Reservation
		wg.Go(func() { _, _ = l.Reset(context.Background(), "k") })
		wg.Go(func() { r, _ = l.Reserve(context.Background(), "k", 1) })
		wg.Wait()
		if isLost(r) && testkit.Left(t, l, "k") == 4 {
			t.Fatalf("after %d resets, an event is lost although it has its place", i)
		}
		testkit.Must(t, r.Release(context.Background()))
	}
}

// While a part of the Store is down, as a node of a Cluster, the places of the other parts are renewed, and
// their events are told at once of a place that has lapsed. After an outage of all parts, all places are renewed
// in time again.
func TestRenewer_PartOfStore(t *testing.T) {
	const keys = 200
	for name, c := range map[string]struct {
		down   func(key string) bool
		outage time.Duration
		hangs  time.Duration // of a call about a key that is down
		lost   func(key string) bool
	}{
		"a third is down":           {func(key string) bool { return key[len(key)-1]%3 == 0 }, 2 * time.Minute, 0, func(key string) bool { return key[len(key)-1]%3 == 0 }},
		"a third hangs":             {func(key string) bool { return key[len(key)-1]%3 == 0 }, 2 * time.Minute, 100 * time.Millisecond, func(key string) bool { return key[len(key)-1]%3 == 0 }},
		"all is down for 15 s":      {func(string) bool { return true }, 15 * time.Second, 100 * time.Millisecond, func(string) bool { return false }},
		"nothing is down any more":  {func(string) bool { return false }, time.Second, 0, func(string) bool { return false }},
		"a reset of one is noticed": {func(key string) bool { return key == "k0" }, 20 * time.Second, 0, func(key string) bool { return key == "k1" }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &storetest.Fake{}
				l := testkit.Limiter(t, s, core.InFlight("exports", 1))
				held := map[string]*core.Reservation{}
				for i := range keys {
					key := fmt.Sprint("k", i)
					held[key] = reserve(t, l, key)
				}
				fail := storetest.FailFor(core.ErrUnavailable, c.down)
				s.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
					err := fail(ctx, charges, next)
					if err != nil {
						time.Sleep(c.hangs)
					}
					return err
				})
				if name == "a reset of one is noticed" {
					_, err := l.Reset(t.Context(), "k1")
					testkit.Must(t, err)
				}
				time.Sleep(c.outage)
				s.Set()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				for key, r := range held {
					if isLost(r) != c.lost(key) {
						t.Errorf("%s: got lost %t, want %t", key, isLost(r), c.lost(key))
					}
					testkit.Must(t, r.Release(t.Context()))
				}
			})
		})
	}
}

// A release that fails is repeated until the Store replies, and wakes callers that wait for the place. A second
// Release ends that.
func TestReservation_Release_RepeatedInBackground(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint("Release again ", again), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := goroutines()
				s := &storetest.Fake{}
				l := testkit.Limiter(t, s, core.InFlight("exports", 1))
				r := reserve(t, l, "k")
				s.Set(storetest.Fail(core.ErrUnavailable))
				if err := r.Release(t.Context()); !errors.Is(err, core.ErrUnavailable) {
					t.Fatalf("got %v, want ErrUnavailable", err)
				}
				time.Sleep(3 * time.Second)
				if s.Set(); again {
					testkit.Must(t, r.Release(t.Context()))
				}
				begun := time.Now()
				next, err := l.Acquire(t.Context(), "k")
				testkit.Must(t, err)
				if waited := time.Since(begun); waited > time.Second {
					t.Errorf("got the place %v after the outage, want a second at most", waited)
				}
				time.Sleep(time.Minute)
				if isLost(next) || isLost(r) || testkit.Left(t, l, "k") != 0 {
					t.Errorf("got lost %t and %t, and %d places left", isLost(next), isLost(r), testkit.Left(t, l, "k"))
				}
				calls := s.Calls()
				testkit.Must(t, next.Release(t.Context()))
				time.Sleep(time.Minute)
				synctest.Wait()
				if atMostGoroutines(t, before); s.Calls() != calls+1 {
					t.Errorf("got %d calls after the last release, want 1", s.Calls()-calls)
				}
			})
		})
	}
}

// Releases that fail while an earlier one is repeated leave one Undo to be repeated, one call after the other.
func TestReservation_Release_FailsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Fake{}
		l := testkit.Limiter(t, s, core.InFlight("exports", 1))
		r := reserve(t, l, "k")
		for i := range 3 {
			s.Set(storetest.Fail(core.ErrUnavailable))
			if err := r.Release(t.Context()); !errors.Is(err, core.ErrUnavailable) {
				t.Fatalf("Release %d: got %v, want ErrUnavailable", i, err)
			}
			s.Set(func(context.Context, []driver.Charge, storetest.Call) error {
				if n := s.Active(); n > 1 {
					t.Errorf("got %d calls at the same time, want 1", n)
				}
				time.Sleep(2700 * time.Millisecond)
				return core.ErrUnavailable
			})
			time.Sleep(1500 * time.Millisecond) // a call has begun
		}
		time.Sleep(10 * time.Second)
		s.Set()
		time.Sleep(5 * time.Second)
		if n := testkit.Left(t, l, "k"); n != 1 {
			t.Errorf("got %d places left after the outage, want 1", n)
		}
	})
}
