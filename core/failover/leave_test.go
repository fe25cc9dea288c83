package failover_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

// Clients that leave are no reason to leave the primary, however many they are.
func TestClientsThatLeave(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		primary.set(slow)
		s := failover.New(under, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 100 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.Int64N(int64(10*time.Millisecond))))
					stop := cancel
					if rand.IntN(2) == 0 {
						ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
						time.AfterFunc(time.Duration(rand.Int64N(int64(10*time.Millisecond))), stop)
					}
					if _, err := l.Allow(ctx, "k"); err == nil || errors.Is(err, core.ErrUnavailable) || !errors.Is(err, ctx.Err()) {
						t.Errorf("who left was told %v", err)
					}
					stop()
					cancel()
				}
			})
		}
		wg.Wait()
		if s.State() != failover.Primary || s.Stats().Failures != 0 || s.Stats().Backup != 0 {
			t.Errorf("%v, %+v", s.State(), s.Stats())
		}
		if n, most := s.Stats().Probes, uint64(10); n == 0 || n > most {
			t.Errorf("%d probes in half a second, want 1 to %d", n, most)
		}
	})
}

// Where every caller leaves before the deadline, a primary that hangs is found out
// all the same.
func TestImpatientCallers(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour)
		allow(t, l, "k")
		primary.set(hang)
		begun := time.Now()
		for s.State() == failover.Primary {
			ctx, cancel := context.WithTimeout(context.Background(), deadline/5)
			if _, err := l.Allow(ctx, "k"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			if took := time.Since(begun); took > time.Second {
				t.Fatalf("not found out in %v", took)
			}
		}
		if n := s.Stats().Failures; n != 0 {
			t.Errorf("callers that left count as %d failures", n)
		}
	})
}

// A late store fails a moment after its deadline, whatever its context says.
type late struct{ driver.Store }

func (late) Deadline() time.Duration { return deadline }

func (late) Take(context.Context, []driver.Charge) error {
	time.Sleep(deadline + time.Millisecond)
	return core.ErrUnavailable
}

// A caller that has given the primary all its time is as good a witness as any.
func TestCallersWithTheSameDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := failover.New(late{}, memstore.New())
		defer time.Sleep(2 * deadline) // until it returns from a probe
		defer s.Close()
		l := limiter(t, s, perHour)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), deadline)
				defer cancel()
				if _, err := l.Allow(ctx, "k"); err != context.DeadlineExceeded {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s.State() != failover.Backup {
			t.Errorf("the state is %v", s.State())
		}
	})
}

// A strict store refuses every call with an error.
type strict struct {
	driver.Store
	err error
}

func (s *strict) Take(context.Context, []driver.Charge) error   { return s.err }
func (s *strict) Adjust(context.Context, []driver.Charge) error { return s.err }

// An error about the call says nothing about the primary: a client could cause it.
func TestErrorsAboutTheCallAreReturned(t *testing.T) {
	for _, want := range []error{driver.ErrInvalidCharge, driver.ErrInvalidRule, &core.RuleError{Category: driver.ErrRuleConflict}} {
		synctest.Test(t, func(t *testing.T) {
			s := failover.New(&strict{err: want}, memstore.New())
			defer s.Close()
			l := limiter(t, s, perHour)
			for range 20 {
				if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, want) {
					t.Fatalf("Allow: got %v, want %v", err, want)
				}
				if err := l.Debit(t.Context(), "k", 1); !errors.Is(err, want) {
					t.Fatalf("Debit: got %v, want %v", err, want)
				}
			}
			time.Sleep(time.Second)
			if s.State() != failover.Primary || s.Stats() != (failover.Stats{}) {
				t.Errorf("%v, %+v", s.State(), s.Stats())
			}
		})
	}
}
