package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// The limit of a State includes the rest, and with it all numbers that follow from the limit.
func TestRule_Rollover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight
		r := core.Quota("calls", core.Daily(100)).Rollover(50).Plan("batch", core.Daily(100)).Headroom("batch", 20).Plan("small", core.Daily(10))
		l := core.Must(core.New(memstore.New(), r))
		allow := func(l *core.Limiter, n int, want string) core.State {
			t.Helper()
			d := testkit.Ask(t, l, "k", n)
			if d.String() != want {
				t.Errorf("got %q, want %q", d, want)
			}
			return d.State(0)
		}
		allow(l, 70, `allowed: "calls" 30 of 100 left`)
		time.Sleep(24 * time.Hour)
		s := allow(l, 10, `allowed: "calls" 120 of 130 left`)
		if s.Limit() != core.Daily(130) || s.Used() != 10 || s.Rule.Capacity() != 130 || s.Rule.Spec().Rollover != 50 || s.Rule.Name() != "calls" {
			t.Errorf("got the limit %v, %d used, and %v", s.Limit(), s.Used(), s.Rule)
		}
		if s = allow(l.Plan("batch"), 4, `allowed: "calls" 90 of 104 left`); s.Limit() != core.Daily(130) || s.Used() != 14 || s.Rule.PlanName() != "batch" {
			t.Errorf("of a plan with headroom, got the limit %v and %d used", s.Limit(), s.Used())
		}
		allow(l.Plan("small"), 27, `denied, retry after 24h0m0s: "calls" 26 of 40 left`)
		allow(l.Plan("small"), 37, `denied for ever: "calls" 26 of 40 left`) // the rest of the next day is 26
		allow(l, 116, `allowed: "calls" 0 of 130 left`)
		allow(l, 1, `denied, retry after 24h0m0s: "calls" 0 of 130 left`)
		if d := testkit.Ask(t, l, "another", 1); d.State(0).Limit() != core.Daily(100) {
			t.Errorf("a new key: got %v", d)
		}
	})
}

// Wait waits for a rest that the next period has, and for none that it cannot have.
func TestLimiter_Wait_rollover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.Quota("calls", core.Daily(100)).Rollover(50)))
		for _, c := range []struct {
			used, cost int
			want       error
			waits      time.Duration
		}{
			{0, 151, core.ErrNeverAdmitted, 0},
			{0, 101, core.ErrNeverAdmitted, 0}, // a new key has no rest in the next day
			{60, 141, core.ErrNeverAdmitted, 0},
			{60, 140, nil, 24 * time.Hour},
			{100, 100, nil, 24 * time.Hour},
		} {
			key, begun := fmt.Sprint(c.used, c.cost), time.Now()
			if c.used > 0 {
				testkit.Ask(t, l, key, c.used)
			}
			err := l.WaitN(context.Background(), key, c.cost)
			if waited := time.Since(begun); !errors.Is(err, c.want) || waited != c.waits {
				t.Errorf("%d after %d: got %v after %v, want %v after %v", c.cost, c.used, err, waited, c.want, c.waits)
			}
		}
	})
}

// A denial of a key with a rest begins a ban, and one of a cost that an unused key would not admit begins none.
func TestRule_Rollover_bans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.Quota("calls", core.Daily(100)).Rollover(50).BlockFor(72*time.Hour)))
		testkit.Admit(t, l, "k", 70)
		if d := testkit.Ask(t, l, "k", 120); d.Allowed || d.RetryAfter != 24*time.Hour || d.State(0).Ban > 0 {
			t.Errorf("got %v, want a denial until tomorrow without a ban", d)
		}
		time.Sleep(24 * time.Hour)
		testkit.Admit(t, l, "k", 130)
		if d := testkit.Ask(t, l, "k", 1); d.State(0).Ban != 72*time.Hour {
			t.Errorf("got %v, want a ban", d)
		}
	})
}
