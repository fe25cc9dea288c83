package core_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// What is modified is another definition, and says so.
func TestModifiersBelongToTheDefinition(t *testing.T) {
	plain := core.SlidingWindow("r", core.PerHour(100))
	for text, r := range map[string]core.Rule{
		`sliding_window "r" 100/h in 30 sub-windows`:              plain.SubWindows(30),
		`sliding_window "r" 100/h soft 7.5%`:                      plain.Soft(7.5),
		`sliding_window "r" 100/h elastic up to 2`:                plain.Elastic(idle, 2),
		`sliding_window "r" 100/h shadow`:                         plain.Shadow(),
		`sliding_window "r" 100/h soft 5% elastic up to 3 shadow`: plain.Shadow().Elastic(idle, 3).Soft(5),
	} {
		if r.String() != text {
			t.Errorf("%s, want %s", r, text)
		}
		s := memstore.New()
		if _, err := core.New(s, r); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := core.New(s, r); err != nil {
			t.Errorf("%s again: %v", text, err)
		}
		if _, err := core.New(s, plain); !errors.Is(err, core.ErrRuleConflict) {
			t.Errorf("%s beside the plain one: %v", text, err)
		}
	}
	if r := plain.Soft(10).Soft(0); r.SoftPercent() != 0 || r.String() != plain.String() {
		t.Errorf("soft by nothing is %s", r)
	}
}

func TestSoftDropsFractions(t *testing.T) {
	for _, c := range []struct {
		limit   int
		percent float64
		want    int
	}{{5, 10, 5}, {10, 10, 11}, {19, 10, 20}, {1000, 0.1, 1001}, {3, 100, 6}, {1, 1000, 11}} {
		l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerDay(c.limit)).Soft(c.percent)))
		admitted := 0
		for range c.want + 5 {
			if d, err := l.Allow(context.Background(), "k"); err != nil {
				t.Fatal(err)
			} else if d.Allowed {
				admitted++
			}
		}
		if admitted != c.want {
			t.Errorf("%d and %v percent let %d through, want %d", c.limit, c.percent, admitted, c.want)
		}
	}
}

// The limit rises with the signal at once, and does not follow every tremble down.
func TestElasticHysteresis(t *testing.T) {
	var spare float64
	l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(100)).Elastic(func() float64 { return spare }, 2)))
	for i, c := range []struct {
		spare float64
		want  int
	}{
		{0, 100}, {0.05, 100}, {0.1, 110}, {0.06, 110}, {0.14, 110}, {0.04, 100}, {0.5, 150}, {0.46, 150}, {0.44, 140},
		{0.98, 190}, {0.99, 200}, {0.96, 200}, {0.94, 190}, {7, 200}, {-3, 100}, {math.Inf(1), 200}, {math.NaN(), 100}, {math.Inf(-1), 100},
	} {
		spare = c.spare
		d, err := l.Peek(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if got := d.State(0).Rule.Limit().Events; got != c.want || d.State(0).Rule.Capacity() != c.want {
			t.Errorf("step %d: with %v to spare the limit is %d, want %d", i, c.spare, got, c.want)
		}
	}
	if got := l.Rules()[0].Capacity(); got != 100 {
		t.Errorf("the rule itself has %d", got)
	}
}

// A copy of an elastic rule that is modified further has steps of its own.
func TestElasticAndSoft(t *testing.T) {
	rule := core.SlidingLog("r", core.PerDay(10)).Elastic(idle, 3)
	softer := rule.Soft(50)
	for _, c := range []struct {
		rule core.Rule
		want int
	}{{rule, 30}, {softer, 45}} {
		l := core.Must(core.New(memstore.New(), c.rule))
		admitted := 0
		for range 100 {
			if d, _ := l.Allow(context.Background(), "k"); d.Allowed {
				admitted++
			}
		}
		if admitted != c.want {
			t.Errorf("%s let %d through, want %d", c.rule, admitted, c.want)
		}
	}
}

func TestNegativeDelay(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.LeakyBucket("r", core.PerSecond(1))))
	if _, err := core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "k", Cost: 1, MaxDelay: -1}); !errors.Is(err, core.ErrInvalidAsk) {
		t.Error(err)
	}
}

// Who could not wait for its turn takes no turn.
func TestWaitTakesNoTurnThatItCannotWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.LeakyBucket("r", core.PerSecond(1).WithBurst(5))))
		for range 3 {
			if d, err := l.Allow(t.Context(), "k"); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		before := time.Now()
		if err := l.Wait(ctx, "k"); !errors.Is(err, core.ErrDeadlineTooNear) || time.Since(before) != 0 {
			t.Errorf("a turn in 3 s, a deadline in 2.5: %v after %v", err, time.Since(before))
		}
		if d, err := l.Peek(t.Context(), "k"); err != nil || d.State(0).Remaining != 2 {
			t.Errorf("%+v, %v: a turn was taken", d, err)
		}
		longer, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		if err := l.Wait(longer, "k"); err != nil || time.Since(before) != 3*time.Second {
			t.Errorf("a turn in 3 s, a deadline in 3.5: %v after %v", err, time.Since(before))
		}
	})
}
