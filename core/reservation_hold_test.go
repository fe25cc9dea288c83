package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A caller whose context ends while the Store hangs does not wait for the Store, which learns in the background that the
// caller has left.
func TestLimiter_Acquire_HangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, hung := make(chan struct{}), new(atomic.Bool)
		s := new(storetest.Fake).Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			if hung.Load() && charges[0].Op == driver.Undo {
				select {
				case <-hangs:
				case <-time.After(10 * time.Second):
				}
			}
			return next(ctx, charges)
		})
		l, other := testkit.Limiter(t, s, core.InFlight("exports", 1)), testkit.Limiter(t, s, core.InFlight("exports", 1))
		held := reserve(t, other, "k")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		time.AfterFunc(90*time.Millisecond, func() { hung.Store(true) })
		begun := time.Now()
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
		if took := time.Since(begun); took > 110*time.Millisecond {
			t.Errorf("Acquire returned after %v, want 110 ms or less", took)
		}
		hung.Store(false)
		close(hangs)
		testkit.Must(t, held.Release(t.Context()))
		synctest.Wait()
		testkit.Must(t, reserve(t, other, "k").Release(t.Context())) // no caller is first in line
	})
}

// Half of 3000 waiters give up at random moments, also while they are woken. No wake-up is lost: there is
// never a free place while others wait.
func TestLimiter_Acquire_Cancel(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		const n, runs = 3, time.Millisecond
		l := testkit.Limiter(t, s, core.InFlight("exports", n))
		var running, most, admitted atomic.Int64
		var wg sync.WaitGroup
		begun := time.Now()
		for i := range 3000 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if i%2 > 0 {
					time.AfterFunc(time.Duration(rand.IntN(2000))*time.Millisecond/2, cancel)
				}
				r, err := l.Acquire(ctx, "k")
				if err != nil {
					if r != nil || !errors.Is(err, context.Canceled) {
						t.Errorf("got %v, %v", r, err)
					}
					return
				}
				now := running.Add(1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				time.Sleep(runs)
				running.Add(-1)
				admitted.Add(1)
				if err := r.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != n || testkit.Left(t, l, "k") != n {
			t.Errorf("got %d events at the same time, and %d places left at the end", most.Load(), testkit.Left(t, l, "k"))
		}
		if took, least := time.Since(begun), time.Duration(admitted.Load()/n)*runs; took > least+50*time.Millisecond {
			t.Errorf("%d events took %v, want about %v", admitted.Load(), took, least)
		}
	})
}

// Events that have ended leave no goroutine and no memory, whatever their context and their rules are.
func TestInFlight_NothingLeft(t *testing.T) {
	testkit.WithoutRace(t)
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			l := testkit.Limiter(t, open(), core.InFlight("a", 1000), core.InFlight("b", 1000).Hold(time.Hour).MaxHold(2*time.Hour))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			run := func(n int) {
				for i := range n {
					r, err := l.Reserve(ctx, fmt.Sprint(i%100), 1)
					testkit.Must(t, err)
					testkit.Must(t, r.Release(ctx))
				}
			}
			run(1000)
			before := testkit.Heap()
			run(20_000)
			if grown := testkit.Heap() - before; grown > 200_000 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
		})
	}
}

// A flaky is a remote whose Adjust fails, panics and returns late at random, but at most four times in a
// row for a place.
type flaky struct {
	*remote
	mu    sync.Mutex
	inRow map[string]int // the failures of each place since its last renewal that succeeded
}

func (s *flaky) Adjust(ctx context.Context, charges []driver.Charge) error {
	n := rand.IntN(16)
	fails := charges[0].Op == driver.Renew && (n == 0 || n == 1 || n == 3) && s.count(charges)
	switch {
	case fails && n == 0:
		panic("the test says so")
	case fails && n == 1, n == 2 && charges[0].Op == driver.Renew:
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Millisecond)
	}
	err := s.remote.Adjust(ctx, charges)
	if fails {
		return errRemote // the reply is lost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range charges {
		delete(s.inRow, place(c))
	}
	return err
}

// count counts a failure of charges, and reports false if one of them has failed four times in a row.
func (s *flaky) count(charges []driver.Charge) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(charges, func(c driver.Charge) bool { return s.inRow[place(c)] == 4 }) {
		return false
	}
	for _, c := range charges {
		s.inRow[place(c)]++
	}
	return true
}

func place(c driver.Charge) string { return fmt.Sprint(c.Key, " ", c.Receipt.At) }

// No place is lost while a fifth of the renewals fail, and nothing is left afterwards.
func TestInFlight_FlakyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := goroutines()
		l := testkit.Limiter(t, &flaky{remote: newRemote(), inRow: make(map[string]int)}, core.InFlight("exports", 10).Hold(2*time.Minute))
		var held []*core.Reservation
		for i := range 200 {
			held = append(held, reserve(t, l, fmt.Sprint(i%20)))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(3 * time.Hour)
		for i, r := range held {
			if isLost(r) || testkit.Left(t, l, fmt.Sprint(i%20)) != i/20 {
				t.Fatalf("event %d: got lost %t, and %d places left", i, isLost(r), testkit.Left(t, l, fmt.Sprint(i%20)))
			}
			testkit.Must(t, r.Release(t.Context()))
		}
		time.Sleep(time.Minute) // until the last renewals return
		synctest.Wait()
		atMostGoroutines(t, before)
	})
}

// Reservations are released, refunded, settled, reset and forgotten by many goroutines at the same time, while
// contexts end and limits change. Afterwards, all places are free.
func TestInFlight_Hostile(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := open()
			rules := func(n int) []core.Rule {
				return []core.Rule{core.InFlight("a", n).Hold(time.Second), core.InFlight("b", n+1), tokens(4 * n).Hold(time.Second), core.TokenBucket("c", core.PerSecond(1_000_000))}
			}
			l, o := testkit.Limiter(t, s, rules(5)...), testkit.Limiter(t, s, core.InFlight("o", 5).Hold(time.Second))
			var kept [8]atomic.Pointer[core.Reservation]
			hostile := func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(3))*time.Millisecond)
				defer cancel()
				slot, r, err := &kept[rand.IntN(8)], (*core.Reservation)(nil), error(nil)
				switch n := rand.IntN(12); n {
				case 0:
					_, err = l.Reset(ctx, "k")
				case 1:
					err = l.Replace(rules(1 + rand.IntN(9))...)
				case 2:
					r, err = l.AcquireN(ctx, "k", 1+rand.IntN(4)) // at least 4 places by cost
				case 3, 4:
					r, err = l.Reserve(ctx, "k", n)
				case 5:
					r, err = core.ReserveTogether(ctx, core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: o, Key: "x"}, core.Ask{Limiter: l, Key: "k2"})
				default:
					switch old := slot.Load(); {
					case old == nil:
					case n == 6:
						err = old.Refund(context.Background())
					case n == 7:
						err = old.SettleFor(ctx, l, rand.IntN(5))
					case n == 8:
						_, _ = isLost(old), old.Decision()
					default:
						err = old.Release(context.Background())
					}
				}
				switch {
				case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, core.ErrDeadlineTooNear) || errors.Is(err, core.ErrInvalidAsk):
				case err != nil:
					t.Error(err)
				case r != nil:
					if old := slot.Swap(r); old != nil {
						_ = old.Release(context.Background())
					}
				}
			}
			testkit.Concurrently(16, func(int) {
				for range 1000 {
					hostile()
				}
			})
			for i := range kept {
				if r := kept[i].Load(); r != nil {
					testkit.Must(t, r.Release(context.Background()))
				}
			}
			testkit.Must(t, l.Replace(rules(5)...))
			for key, l := range map[string]*core.Limiter{"k": l, "k2": l, "x": o} {
				d, err := l.Peek(t.Context(), key)
				if testkit.Must(t, err); d.State(0).Remaining != 5 || key != "x" && (d.State(1).Remaining != 6 || d.State(2).Remaining != 20) {
					t.Errorf("%s: got %v, want all places left", key, d)
				}
			}
		})
	}
}

// The Reservation of a larger structure ends when that is garbage.
func TestInFlight_Embedded(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("exports", 2))
		type request struct {
			path string
			core.Reservation
			body []byte
		}
		kept, forgotten := &request{path: "/kept"}, &request{body: make([]byte, 100)}
		for _, r := range []*request{kept, forgotten} {
			_, err := r.Reserve(t.Context(), core.Ask{Limiter: l, Key: "k"})
			testkit.Must(t, err)
		}
		forgotten = nil
		collect()
		time.Sleep(time.Minute)
		r := reserve(t, l, "k")
		if !r.Decision().Allowed || reserve(t, l, "k").Decision().Allowed {
			t.Errorf("got %v, and %d places left", r.Decision(), testkit.Left(t, l, "k"))
		}
		testkit.Must(t, r.Release(t.Context()))
		testkit.Must(t, kept.Release(t.Context()))
	})
}
