package core_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// The window of a key begins with its first admitted event, and all decisions name its end.
func TestRule_FromFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.Per(4, time.Minute)
		l := testkit.Limiter(t, memstore.New(), core.FixedWindow("r", limit).FromFirst())
		time.Sleep(7*time.Second + 123_456*time.Microsecond)
		var end time.Time
		check := func(name string, d core.Decision, allowed bool, remaining int) {
			t.Helper()
			s := d.State(0)
			if d.Allowed != allowed || s.Remaining != remaining {
				t.Errorf("%s: got allowed %t and %d remaining, want %t and %d", name, d.Allowed, s.Remaining, allowed, remaining)
			}
			if at := time.Now().Add(s.Window); !at.Equal(end) || s.ResetAfter > 0 && s.ResetAfter != s.Window || !allowed && s.RetryAfter != s.Window {
				t.Errorf("%s: got %+v, want an end at %v", name, s, end)
			}
		}
		peek := func() core.Decision {
			d, err := l.Peek(t.Context(), "k")
			testkit.Must(t, err)
			return d
		}
		for _, name := range []string{"a peek", "another peek"} { // which begin no window
			end = time.Now().Add(time.Minute)
			check(name, peek(), true, 4)
			time.Sleep(time.Second)
		}
		tooMuch, err := l.AllowN(t.Context(), "k", 5)
		if testkit.Must(t, err); tooMuch.Allowed || tooMuch.RetryAfter != core.Never {
			t.Errorf("5 of 4: got %+v", tooMuch)
		}
		time.Sleep(time.Second)

		end = time.Now().Add(time.Minute)
		check("the first event", testkit.Allow(t, l, "k"), true, 3)
		time.Sleep(59 * time.Second)
		for left := 2; left >= 0; left-- {
			check("an event near the end", testkit.Allow(t, l, "k"), true, left)
		}
		check("one too many", testkit.Allow(t, l, "k"), false, 0)
		time.Sleep(time.Until(end) - time.Microsecond)
		check("a microsecond before the end", testkit.Allow(t, l, "k"), false, 0)
		time.Sleep(time.Microsecond)
		end = time.Now().Add(time.Minute)
		for left := 3; left >= 0; left-- { // 7 in a little more than a second, and at most 7 in any minute
			check("the next window", testkit.Allow(t, l, "k"), true, left)
		}
		time.Sleep(3 * time.Hour) // nothing begins meanwhile
		end = time.Now().Add(time.Minute)
		check("after a pause", peek(), true, 4)

		r := testkit.Reserve(t, l, "k", 2)
		time.Sleep(10 * time.Second)
		testkit.Must(t, r.Settle(t.Context(), 1))
		check("a refund of a part", peek(), true, 3)
		testkit.Must(t, r.Refund(t.Context()))
		end = time.Now().Add(time.Minute)
		check("a refund of all", peek(), true, 4)
		time.Sleep(5 * time.Second)
		end = time.Now().Add(time.Minute)
		check("the event after it", testkit.Allow(t, l, "k"), true, 3)
	})
}

// Other algorithms have no windows that could begin so, and windows of both kinds share no state.
func TestRule_FromFirst_Others(t *testing.T) {
	limit := core.PerMinute(3)
	others := []core.Rule{core.InFlight("r", 3), core.Quota("r", core.Monthly(3)), core.Pause("r")}
	for _, a := range testkit.Algorithms {
		if r := a.Rule("r", limit); r.Algorithm() != driver.FixedWindow {
			others = append(others, r)
		}
	}
	for _, r := range others {
		var of *core.RuleError
		if _, err := core.New(memstore.New(), r.FromFirst()); !errors.As(err, &of) || of.Field != "from first" {
			t.Errorf("%v: got error %v", r, err)
		}
	}
	s := memstore.New()
	clock, own := testkit.Limiter(t, s, core.FixedWindow("r", limit)), core.FixedWindow("r", limit).FromFirst()
	testkit.Admit(t, clock, "k", 3)
	testkit.Must(t, clock.Replace(own))
	if d := testkit.Allow(t, clock, "k"); !d.Allowed || d.State(0).Remaining != 2 {
		t.Errorf("after 3 events of the clock's windows: got %+v, want 2 left", d.State(0))
	}
	if got, want := own.String(), `fixed_window "r" 3/m from the first event`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	testkit.Must(t, err)
	return l
}

// Only quotas have periods of the calendar, a zone and an anchor.
func TestQuota_ErrInvalidRule(t *testing.T) {
	anchor := func(context.Context, string) time.Time { return time.Time{} }
	for name, r := range map[string]core.Rule{
		"quota of a span":      core.Quota("q", core.PerHour(5)),
		"quota of no span":     core.Quota("q", core.Limit{Events: 5}),
		"bucket of a month":    core.TokenBucket("q", core.Monthly(5)),
		"log of a day":         core.SlidingLog("q", core.Daily(5)),
		"plan of a span":       core.Quota("q", core.Monthly(5)).Plan("pro", core.PerHour(5)),
		"places of a week":     core.InFlight("q", 5).Plan("pro", core.Weekly(5)),
		"burst":                core.Quota("q", core.Monthly(5).WithBurst(7)),
		"location of a window": core.FixedWindow("q", core.PerHour(5)).In(time.UTC),
		"anchor of a window":   core.FixedWindow("q", core.PerHour(5)).Anchor(anchor),
	} {
		if _, err := core.New(memstore.New(), r); !errors.Is(err, core.ErrInvalidRule) {
			t.Errorf("%s: got %v, want ErrInvalidRule", name, err)
		} else {
			t.Log(err)
		}
	}
	for want, r := range map[string]core.Rule{
		`quota "calls" 1000000/month`:                 core.Quota("calls", core.Monthly(1_000_000)),
		`quota "calls" 7/week in Asia/Tokyo anchored`: core.Quota("calls", core.Weekly(7)).In(location(t, "Asia/Tokyo")).Anchor(anchor),
		`quota "calls" 5/week rollover 3`:             core.Quota("calls", core.Weekly(5)).Rollover(3),
		`quota "calls" 5/day soft 20% plan "pro"`:     testkit.OfPlan(t, core.Quota("calls", core.Daily(2)).Plan("pro", core.Daily(5)).Soft(20), "pro"),
	} {
		if got := r.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

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
