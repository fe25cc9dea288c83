package core_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// Plans, overrides and modifiers change the number of places.
func TestInFlight_Modifiers(t *testing.T) {
	base, byCost := core.InFlight("exports", 10), tokens(10)
	spare := func(part float64) func() float64 { return func() float64 { return part } }
	for name, c := range map[string]struct {
		rule core.Rule
		plan string
		cost int
		want int // events at the same time
	}{
		"plain":                {rule: base, cost: 1, want: 10},
		"most":                 {rule: core.InFlight("exports", 1000), cost: 1, want: 1000},
		"plan":                 {rule: base.Plan("pro", core.Limit{Events: 20}), plan: "pro", cost: 1, want: 20},
		"headroom":             {rule: base.Headroom("batch", 20), plan: "batch", cost: 1, want: 8},
		"soft":                 {rule: base.Soft(50), cost: 1, want: 15},
		"divided":              {rule: base.Divide(4), cost: 1, want: 2},
		"divided below one":    {rule: base.Divide(40), cost: 1, want: 1},
		"elastic, all spare":   {rule: base.Elastic(spare(1), 0.2), cost: 1, want: 10},
		"elastic, half spare":  {rule: base.Elastic(spare(0.5), 0.2), cost: 1, want: 6},
		"elastic, none spare":  {rule: base.Elastic(spare(0), 0.2), cost: 1, want: 2},
		"elastic down to zero": {rule: base.Elastic(spare(-1), 0.01), cost: 1, want: 1},
		"blocked":              {rule: base.Plan("banned", core.Blocked), plan: "banned", cost: 1, want: 0},

		"plain, by cost":               {rule: byCost, cost: 3, want: 3},
		"a million, by cost":           {rule: tokens(1_000_000), cost: 1_000_000, want: 1},
		"many, by cost":                {rule: tokens(1_000_000), cost: 1, want: 1000},
		"many at most, by cost":        {rule: tokens(1_000_000), cost: 1000, want: 1000},
		"few at most, by cost":         {rule: tokens(1_000_000), cost: 1001, want: 999},
		"plan, by cost":                {rule: byCost.Plan("pro", core.Limit{Events: 1_000_000}), plan: "pro", cost: 300_000, want: 3},
		"headroom, by cost":            {rule: byCost.Headroom("batch", 20), plan: "batch", cost: 4, want: 2},
		"within headroom, by cost":     {rule: byCost.Headroom("batch", 20), plan: "batch", cost: 3, want: 2},
		"soft, by cost":                {rule: byCost.Soft(50), cost: 5, want: 3},
		"many, soft, by cost":          {rule: tokens(500_000).Soft(100), cost: 1, want: 1000},
		"divided, by cost":             {rule: byCost.Divide(4), cost: 1, want: 2},
		"divided, above, by cost":      {rule: byCost.Divide(4), cost: 3, want: 0},
		"elastic, all spare, by cost":  {rule: byCost.Elastic(spare(1), 0.2), cost: 2, want: 5},
		"elastic, half spare, by cost": {rule: byCost.Elastic(spare(0.5), 0.2), cost: 2, want: 3},
		"elastic, none spare, by cost": {rule: byCost.Elastic(spare(0), 0.2), cost: 2, want: 1},
		"elastic, above, by cost":      {rule: byCost.Elastic(spare(0), 0.2), cost: 3, want: 0},
		"blocked, by cost":             {rule: byCost.Plan("banned", core.Blocked), plan: "banned", cost: 1, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := testkit.Limiter(t, memstore.New(), c.rule).Plan(c.plan)
			var held []*core.Reservation // the last one is denied
			for len(held) == 0 || len(held) <= 1000 && held[len(held)-1].Decision().Allowed {
				held = append(held, testkit.Reserve(t, l, "k", c.cost))
			}
			n, d := len(held)-1, held[len(held)-1].Decision()
			runtime.KeepAlive(held) // the places of garbage are free
			if n != c.want || d.Allowed || (d.RetryAfter == core.Never) != (c.want == 0) {
				t.Errorf("got %d events at the same time, want %d, and then %v", n, c.want, d)
			}
		})
	}
	for name, r := range map[string]core.Rule{
		`"per" of a plan`: base.Plan("pro", core.PerMinute(5)),
		"many":            core.InFlight("exports", 1001),
		"none":            core.InFlight("exports", 0),
		"short hold":      base.Hold(time.Millisecond),
		"negative":        base.MaxHold(-1),
		"other rule":      core.TokenBucket("r", core.PerSecond(1)).MaxHold(time.Second),
		"hold of another": core.TokenBucket("r", core.PerSecond(1)).Hold(time.Second),
		"no period":       core.TokenBucket("r", core.Limit{Events: 5}),
		"elastic upwards": base.Elastic(func() float64 { return 1 }, 2),
	} {
		if _, err := core.New(memstore.New(), r); !errors.Is(err, core.ErrInvalidRule) {
			t.Errorf("%s: got %v, want ErrInvalidRule", name, err)
		} else {
			t.Log(err)
		}
	}
	for want, rule := range map[string]core.Rule{
		`in_flight "exports" 20 hold 1m max hold 1h plan "pro"`:        base,
		`in_flight "tokens" 20 by cost hold 1m max hold 1h plan "pro"`: byCost,
	} {
		if got := testkit.OfPlan(t, rule.Hold(time.Minute).MaxHold(time.Hour).Plan("pro", core.Limit{Events: 20}), "pro").String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Events keep their places when the limit shrinks.
func TestInFlight_Replace(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("exports", 3))
		held := []*core.Reservation{reserve(t, l, "k"), reserve(t, l, "k"), reserve(t, l, "k")}
		testkit.Must(t, l.Replace(core.InFlight("exports", 1)))
		for i, r := range held {
			time.Sleep(time.Hour)
			if d := reserve(t, l, "k").Decision(); d.Allowed || isLost(r) {
				t.Fatalf("%d events have ended: got %v, lost %t", i, d, isLost(r))
			}
			testkit.Must(t, r.Release(t.Context()))
		}
		r := reserve(t, l, "k")
		if !r.Decision().Allowed {
			t.Errorf("got %v", r.Decision())
		}
		testkit.Must(t, r.Release(t.Context()))
	})
}

// A rule that changes between ByCost and without keeps the places of running events.
func TestRule_ByCost_Replace(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, core.InFlight("tokens", 10))
		old := testkit.Reserve(t, l, "k", 4)
		testkit.Must(t, l.Replace(tokens(10)))
		costly := testkit.Reserve(t, l, "k", 9)
		if !costly.Decision().Allowed || left(t, l, "k") != 0 {
			t.Errorf("got %v beside an event that began before", costly.Decision())
		}
		time.Sleep(time.Hour)
		testkit.Must(t, l.Replace(tokens(5)))
		if d := testkit.Reserve(t, l, "k", 1).Decision(); d.Allowed || isLost(costly) || isLost(old) {
			t.Errorf("a smaller limit: got %v, and lost %t, %t", d, isLost(costly), isLost(old))
		}
		testkit.Must(t, costly.Release(t.Context()))
		if got := left(t, l, "k"); got != 4 {
			t.Errorf("got %d places left of 5 beside the old event, want 4", got)
		}
		testkit.Must(t, l.Replace(core.InFlight("tokens", 10)))
		if got := left(t, l, "k"); got != 9 {
			t.Errorf("got %d places left beside the old event, want 9", got)
		}
		testkit.Must(t, old.Release(t.Context()))
	})
}
