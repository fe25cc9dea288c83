package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A renewals Store counts the places that were renewed.
type renewals struct {
	core.Store
	n atomic.Int64
}

func (s *renewals) Adjust(ctx context.Context, charges []driver.Charge) error {
	err := s.Store.Adjust(ctx, charges)
	for i := range charges {
		if err == nil && charges[i].Verdict.Found {
			s.n.Add(1)
		}
	}
	return err
}

// await waits until n places more have been renewed.
func (s *renewals) await(t testing.TB, n int64) {
	t.Helper()
	before := s.n.Load()
	eventually(t, func() error {
		if got := s.n.Load() - before; got < n {
			return fmt.Errorf("%d places were renewed, want %d", got, n)
		}
		return nil
	})
}

// The clock of the server steps while a process holds places. No step back, and no step forward by less
// than the hold, takes a place from its holder. After a longer step, the holders are told, and cannot free
// the places of those that follow.
func TestInFlight_clockSteps(t *testing.T) {
	t.Parallel()
	const (
		events = 3
		hold   = 3 * time.Second // renewed every second, by the clock of this process
	)
	rdb := redistest.Shared(t).Client()
	for name, cost := range map[string]int{"one place": 1, "by cost": 7} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clock storetest.Clock
			own, now := prefix(), redisstore.Clock(func() string { return strconv.FormatInt(clock.Micros(), 10) })
			s := &renewals{Store: newStore(rdb, own, now)}
			rule := core.InFlight("steps", events*cost).Hold(hold)
			if cost > 1 {
				rule = rule.ByCost()
			}
			holders, others := testkit.Limiter(t, s, rule), testkit.Limiter(t, newStore(rdb, own, now), rule)
			reserve := func(l *core.Limiter) (held []*core.Reservation) {
				t.Helper()
				for range events {
					clock.Advance(time.Millisecond)
					r := testkit.Reserve(t, l, "k", cost)
					if !r.Decision().Allowed {
						t.Fatalf("the decision is %+v, want an admission", r.Decision())
					}
					held = append(held, r)
				}
				return held
			}
			held := reserve(holders)
			for _, step := range []time.Duration{-time.Hour, hold - time.Millisecond, -hold, -24 * time.Hour} {
				clock.Advance(step)
				if testkit.Peek(t, others, "k").Allowed {
					t.Fatalf("after a step of %v, another event would be admitted", step)
				}
				s.await(t, 2*events) // all of them at least once
				for i, r := range held {
					select {
					case <-r.Lost():
						t.Fatalf("after a step of %v, the place of event %d is lost", step, i)
					default:
					}
				}
			}
			clock.Advance(hold)
			after := reserve(others)
			for i, r := range held {
				select {
				case <-r.Lost():
				case <-time.After(waitLimit):
					t.Fatalf("event %d was not told that its place is lost", i)
				}
				testkit.Must(t, r.Release(t.Context()))
			}
			if used := testkit.Used(t, others, "k")[0]; used != events*cost {
				t.Errorf("%d places are taken, want %d", used, events*cost)
			}
			for _, r := range after {
				testkit.Must(t, r.Release(t.Context()))
			}
			if used := testkit.Used(t, others, "k")[0]; used != 0 {
				t.Errorf("%d places are taken, want none", used)
			}
		})
	}
}
