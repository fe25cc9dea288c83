package core_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// The callers of a plan leave a part of the limit to the others, who may use all of it, in every algorithm.
func TestRule_Headroom(t *testing.T) {
	limit := core.PerMinute(10)
	for name, rule := range map[string]core.Rule{
		"token bucket":        core.TokenBucket("r", limit),
		"bucket with a burst": core.TokenBucket("r", core.PerSecond(3).WithBurst(10)),
		"soft bucket":         core.TokenBucket("r", limit).Soft(50),
		"leaky bucket":        core.LeakyBucket("r", limit),
		"fixed window":        core.FixedWindow("r", limit),
		"sliding log":         core.SlidingLog("r", limit),
		"sliding window":      core.SlidingWindow("r", limit),
		"quota":               core.Quota("r", core.Daily(10)),
		"in flight":           core.InFlight("r", 10),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), rule.Headroom("sheddable", 20))
				sheddable := l.Plan("sheddable")
				for i := range 8 {
					d := reserve(t, sheddable, "k").Decision()
					if s := d.State(0); !d.Allowed || s.Remaining != 7-i || s.Rule.Capacity() != 8 || s.Soft {
						t.Fatalf("event %d: got %v, %+v", i, d, s)
					}
				}
				d := reserve(t, sheddable, "k").Decision()
				if d.Allowed || d.RetryAfter <= 0 || d.State(0).Remaining != 0 {
					t.Fatalf("got %v for event 8 of the plan", d)
				}
				most := int(10 * (1 + rule.Spec().Soft/100))
				for i := 8; i < most; i++ {
					if d := reserve(t, l, "k").Decision(); !d.Allowed || d.State(0).Rule.Capacity() != 10 || d.State(0).Soft != (i >= 10) {
						t.Fatalf("event %d of others: got %v", i, d)
					}
				}
				if d := reserve(t, l, "k").Decision(); d.Allowed {
					t.Errorf("got %v for event %d", d, most)
				}
			})
		})
	}
}

// RetryAfter is the time after which an event of the plan is admitted, and not a microsecond more.
func TestRule_Headroom_RetryAfter(t *testing.T) {
	for name, rule := range map[string]core.Rule{
		"token bucket":   core.TokenBucket("r", core.Per(7, 13*time.Second)),
		"leaky bucket":   core.LeakyBucket("r", core.Per(7, 13*time.Second)),
		"sliding window": core.SlidingWindow("r", core.Per(7, 13*time.Second)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), rule.Headroom("sheddable", 50))
				for range 7 {
					testkit.Allow(t, l, "k")
					time.Sleep(time.Millisecond)
				}
				sheddable := l.Plan("sheddable")
				d, err := sheddable.Allow(t.Context(), "k")
				if testkit.Must(t, err); d.Allowed {
					t.Fatalf("got %v", d)
				}
				time.Sleep(d.RetryAfter - time.Microsecond)
				if d, err := sheddable.Allow(t.Context(), "k"); err != nil || d.Allowed {
					t.Errorf("a microsecond early: got %v, %v", d, err)
				}
				time.Sleep(time.Microsecond)
				if d, err := sheddable.Allow(t.Context(), "k"); err != nil || !d.Allowed {
					t.Errorf("after RetryAfter: got %v, %v", d, err)
				}
			})
		})
	}
}

// A plan keeps its own limit, percentages are checked, and small limits leave one event.
func TestRule_Headroom_Limits(t *testing.T) {
	base := core.TokenBucket("r", core.PerMinute(100))
	for name, c := range map[string]struct {
		rule core.Rule
		want int
	}{
		"limit of the plan":  {base.Plan("p", core.PerMinute(40)).Headroom("p", 25), 30},
		"plan set afterward": {base.Headroom("p", 25).Plan("p", core.PerMinute(40)), 40},
		"rounded down":       {core.FixedWindow("r", core.PerMinute(5)).Headroom("p", 30), 3},
		"at least one":       {core.SlidingLog("r", core.PerMinute(1)).Headroom("p", 99), 1},
		"zero":               {base.Headroom("p", 50).Headroom("p", 0), 100},
		"divided":            {base.Headroom("p", 20).Divide(4), 20},
	} {
		if got := testkit.OfPlan(t, c.rule, "p").Capacity(); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
	for _, percent := range []float64{-1, 99.5, 100} {
		if _, err := core.New(memstore.New(), base.Headroom("p", percent)); !errors.Is(err, core.ErrInvalidRule) {
			t.Errorf("%v percent: got %v, want ErrInvalidRule", percent, err)
		}
	}
	if got, want := testkit.OfPlan(t, base.Headroom("p", 20), "p").String(), `token_bucket "r" 100/m headroom 20% plan "p"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
