package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/reference"
	"github.com/weir-go/weir/core/memstore"
)

// used is how many events of every rule are in use.
func used(t *testing.T, l *core.Limiter, key string) []int {
	t.Helper()
	d, err := l.Peek(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var n []int
	for _, s := range d.States() {
		n = append(n, s.Rule.Capacity()-s.Remaining)
	}
	return n
}

func reserve(t *testing.T, l *core.Limiter, key string, n int) *core.Reservation {
	t.Helper()
	r, err := l.Reserve(t.Context(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Release leaves all rules charged but the queues.
func TestReservationRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(),
			core.LeakyBucket("queue", core.PerSecond(10).WithBurst(5)),
			core.TokenBucket("bucket", core.PerHour(9)),
			core.SlidingLog("log", core.PerHour(9)),
			core.FixedWindow("window", core.PerDay(9)),
		))
		check := func(what string, want ...int) {
			t.Helper()
			for i, n := range used(t, l, "k") {
				if n != want[i] {
					t.Errorf("%s, of rule %d %d are in use, want %d", what, i, n, want[i])
				}
			}
		}
		first, second, third := reserve(t, l, "k", 1), reserve(t, l, "k", 2), reserve(t, l, "k", 1)
		check("at first", 4, 4, 4, 4)
		release := func(r *core.Reservation) {
			t.Helper()
			if err := r.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		release(second)
		check("after a place that is not the last", 4, 4, 4, 4)
		release(third)
		check("after the last place", 3, 4, 4, 4)
		release(third)
		check("after the last place twice", 3, 4, 4, 4)
		if d := reserve(t, l, "k", 1).Decision(); d.Delay != 300*time.Millisecond {
			t.Errorf("the place that was given back has a delay of %v, want 300ms", d.Delay)
		}
		if err := third.Refund(t.Context()); err != nil {
			t.Error(err)
		}
		check("after a refund of what is left", 4, 4, 4, 4) // 4 more 1 less 1; of the queue nothing comes back twice
		time.Sleep(time.Second)
		release(first)
		check("long after its turn", 0, 4, 4, 4)
	})
}

// A Store that fails does so once: what may have been given back is not given
// back again.
func TestReservationReleaseFails(t *testing.T) {
	store := &failing{Store: memstore.New()}
	l := core.Must(core.New(store, core.LeakyBucket("queue", core.PerHour(5))))
	r := reserve(t, l, "k", 2)
	store.err = core.ErrUnavailable
	if err := r.Release(t.Context()); err != core.ErrUnavailable {
		t.Errorf("the error is %v, want that of the store", err)
	}
	store.err = nil
	if err := r.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if got := used(t, l, "k"); got[0] != 2 {
		t.Errorf("%d are in use, want 2", got[0])
	}
}

// A failing Store fails with err, if there is one.
type failing struct {
	core.Store
	err error
}

func (f *failing) Take(ctx context.Context, charges []core.Charge) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.Take(ctx, charges)
}

// A refund after the clock of the Store has stepped back does not free the events of
// others, also when that clock says the time of the reservation again.
func TestReservation_RefundAfterClockStep(t *testing.T) {
	for _, rule := range []core.Rule{
		core.TokenBucket("r", core.PerMinute(10)),
		core.FixedWindow("r", core.PerMinute(10)),
		core.SlidingLog("r", core.PerMinute(10)),
		core.SlidingWindow("r", core.PerMinute(10)).SubWindows(2),
	} {
		t.Run(rule.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := time.Duration(0)
				l := core.Must(core.New(reference.New(func() int64 { return time.Now().Add(-behind).UnixMicro() }), rule))
				r := reserve(t, l, "k", 10)
				behind = 2 * time.Minute
				if d, err := l.Allow(t.Context(), "k"); err != nil || d.Allowed {
					t.Fatalf("after the step: %v, %v; want a denial", d, err)
				}
				time.Sleep(behind)
				reserve(t, l, "k", 10)
				if err := r.Refund(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := used(t, l, "k")[0]; got != 10 {
					t.Errorf("after a refund of events that have left: %d in use, want 10", got)
				}
			})
		})
	}
}
