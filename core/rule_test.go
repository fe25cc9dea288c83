package core_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A modified rule has another definition and text.
func TestRule_Modifiers_ChangeTheDefinition(t *testing.T) {
	plain := core.SlidingWindow("r", core.PerHour(100))
	for text, r := range map[string]core.Rule{
		`sliding_window "r" 100/h in 30 sub-windows`:              plain.SubWindows(30),
		`sliding_window "r" 100/h soft 7.5%`:                      plain.Soft(7.5),
		`sliding_window "r" 100/h elastic up to 2`:                plain.Elastic(idle, 2),
		`sliding_window "r" 100/h shadow`:                         plain.Shadow(),
		`sliding_window "r" 100/h soft 5% elastic up to 3 shadow`: plain.Shadow().Elastic(idle, 3).Soft(5),
	} {
		if r.String() != text {
			t.Errorf("got %s, want %s", r, text)
		}
		s := memstore.New()
		for range 2 {
			if _, err := core.New(s, r); err != nil {
				t.Errorf("%s: got %v, want a limiter", text, err)
			}
		}
		if _, err := core.New(s, plain); !errors.Is(err, core.ErrRuleConflict) {
			t.Errorf("%s beside the plain rule: got %v, want ErrRuleConflict", text, err)
		}
	}
	if r := plain.Soft(10).Soft(0); r.Spec().Soft != 0 || r.String() != plain.String() {
		t.Errorf("Soft(0): got %s, want %s", r, plain)
	}
}

func TestRule_SoftAndElastic_Capacity(t *testing.T) {
	log := func(n int) core.Rule { return core.SlidingLog("r", core.PerDay(n)) }
	elastic := log(10).Elastic(idle, 3)
	for _, c := range []struct {
		rule core.Rule
		want int
	}{
		{log(5).Soft(10), 5}, {log(10).Soft(10), 11}, {log(19).Soft(10), 20}, {log(1000).Soft(0.1), 1001},
		{log(3).Soft(100), 6}, {log(1).Soft(1000), 11},
		{log(100).Elastic(idle, 1.15), 115},   // 114.99999999999999 as a float
		{elastic, 30}, {elastic.Soft(50), 45}, // a modified copy has steps of its own
	} {
		l, admitted := testkit.Limiter(t, memstore.New(), c.rule), 0
		for range c.want + 5 {
			if testkit.Allow(t, l, "k").Allowed {
				admitted++
			}
		}
		if admitted != c.want {
			t.Errorf("%v: got %d admitted, want %d", c.rule, admitted, c.want)
		}
	}
}

// The limit rises with the signal at once, and falls with it by more than half a step.
func TestRule_Elastic_Hysteresis(t *testing.T) {
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
		s := testkit.Peek(t, l, "k").State(0)
		if got := s.Rule.Limit().Events; got != c.want || s.Rule.Capacity() != c.want {
			t.Errorf("step %d, %v to spare: got the limit %d, want %d", i, c.spare, got, c.want)
		}
	}
	if got := l.Rules()[0].Capacity(); got != 100 {
		t.Errorf("the rule itself: got a capacity of %d, want 100", got)
	}
}

func label(r core.Rule, text string) core.Rule {
	s := r.Spec()
	s.Label = text
	return core.NewRule(s)
}

// A label replaces the name for clients in every copy of the rule, and nothing else.
func TestRule_Label(t *testing.T) {
	plain := core.TokenBucket("api.r", core.PerSecond(10))
	labelled := label(plain, "r").Plan("before", core.PerSecond(20))
	for _, c := range []struct {
		rule core.Rule
		want string
	}{
		{plain, ""}, {labelled, "r"}, {label(labelled, ""), ""}, {label(labelled, "s"), "s"}, {core.Rule{}, ""},
		{labelled.Divide(3), "r"}, {labelled.Shadow(), "r"}, {label(plain.Elastic(idle, 2), "r"), "r"}, {label(plain, "r").Elastic(idle, 2), "r"},
	} {
		if got := c.rule.Spec().Label; got != c.want {
			t.Errorf("%v: got the name %q for clients, want %q", c.rule, got, c.want)
		}
	}
	s := memstore.New()
	testkit.Limiter(t, s, plain.Plan("before", core.PerSecond(20)))
	l := testkit.Limiter(t, s, labelled) // a label is no conflict
	for _, plan := range []string{"", "before", "other"} {
		if got := testkit.Allow(t, l.Plan(plan), "k").State(0).Rule; got.Spec().Label != "r" || got.Name() != "api.r" {
			t.Errorf("plan %q: got the rule %v with the name %q for clients", plan, got, got.Spec().Label)
		}
	}
	var half storetest.Fake
	half.Set(func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
		charges[0].Verdict = driver.Verdict{Allowed: true, Rule: charges[0].Rule.Divide(2)}
		return nil
	})
	if got := testkit.Allow(t, testkit.Limiter(t, &half, labelled), "k").State(0).Rule; got.Limit().Events != 5 || got.Spec().Label != "r" {
		t.Errorf("a part: got the rule %v with the name %q for clients", got, got.Spec().Label)
	}
}

// A unit is that of every copy of the rule, and changes nothing else.
func TestRule_Unit(t *testing.T) {
	plain := core.TokenBucket("r", core.PerSecond(10))
	tokens := plain.Unit("tokens").Plan("pro", core.PerSecond(20))
	for name, c := range map[string]struct {
		rule core.Rule
		want string
	}{
		"none": {plain, ""}, "a unit": {tokens, "tokens"}, "removed": {tokens.Unit(""), ""},
		"another": {tokens.Unit("bytes"), "bytes"}, "the longest": {plain.Unit(strings.Repeat("x", 32)), strings.Repeat("x", 32)},
		"the zero Rule": {core.Rule{}.Unit("tokens"), ""}, "divided": {tokens.Divide(3), "tokens"},
		"modified": {tokens.Shadow().Soft(10), "tokens"}, "elastic": {tokens.Elastic(idle, 2), "tokens"}, "blocked": {core.TokenBucket("r", core.Blocked).Unit("tokens"), "tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.rule.Spec().Unit; got != c.want {
				t.Errorf("got the unit %q, want %q", got, c.want)
			}
		})
	}
	if tokens.String() != plain.String() {
		t.Errorf("got %v, want %v", tokens, plain)
	}
	s := memstore.New()
	testkit.Limiter(t, s, plain.Plan("pro", core.PerSecond(20)))
	l := testkit.Limiter(t, s, tokens) // a unit is no conflict
	l = core.Must(l.Variant(tokens.Unit("bytes").Elastic(idle, 2)))
	for _, plan := range []string{"", "pro", "other"} {
		if got := testkit.Allow(t, l.Plan(plan), "k").State(0).Rule; got.Spec().Unit != "bytes" || got.Limit().Events < 20 {
			t.Errorf("plan %q of a variant: got the rule %v with the unit %q", plan, got, got.Spec().Unit)
		}
	}
	var half storetest.Fake
	half.Set(func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
		charges[0].Verdict = driver.Verdict{Allowed: true, Rule: charges[0].Rule.Divide(2)}
		return nil
	})
	if got := testkit.Allow(t, testkit.Limiter(t, &half, tokens), "k").State(0).Rule; got.Limit().Events != 5 || got.Spec().Unit != "tokens" {
		t.Errorf("a part: got the rule %v with the unit %q", got, got.Spec().Unit)
	}
}

func TestRule_LabelAndUnit_Invalid(t *testing.T) {
	for name, c := range map[string]struct {
		set          func(core.Rule, string) core.Rule
		text, reason string
	}{
		"label, control character": {label, "\n", "is not printable ASCII"},
		"label, not ASCII":         {label, "\u00e9", "is not printable ASCII"},
		"label, too long":          {label, strings.Repeat("x", 65), "is 65 bytes long, more than 64"},
		"unit, control character":  {core.Rule.Unit, "a\x7f", "is not printable ASCII"},
		"unit, not ASCII":          {core.Rule.Unit, "\u00e9", "is not printable ASCII"},
		"unit, not UTF-8":          {core.Rule.Unit, "\xff", "is not printable ASCII"},
		"unit, too long":           {core.Rule.Unit, strings.Repeat("x", 33), "is 33 bytes long, more than 32"},
	} {
		t.Run(name, func(t *testing.T) {
			field, _, _ := strings.Cut(name, ",")
			for _, r := range []core.Rule{
				core.TokenBucket("r", core.PerSecond(1)), core.TokenBucket("r", core.Blocked), core.SlidingLog("r", core.PerDay(9)).Plan("pro", core.Unlimited),
			} {
				_, err := core.New(memstore.New(), c.set(r, c.text))
				var invalid *core.RuleError
				if !errors.As(err, &invalid) || !errors.Is(err, core.ErrInvalidRule) || invalid.Field != field || invalid.Rule != "r" || !strings.HasPrefix(invalid.Reason, c.reason) {
					t.Errorf("%v: got %v, want a RuleError about the %s that %s", r, err, field, c.reason)
				}
			}
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

// The estimate of a denial is the time after which enough places have lapsed.
func TestRule_ByCost_Estimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, newRemote(), tokens(10))
		for _, cost := range []int{4, 5} { // which are not renewed
			ctx, cancel := context.WithCancel(t.Context())
			_, err := l.Reserve(ctx, "k", cost)
			testkit.Must(t, err)
			cancel()
			time.Sleep(7 * time.Second)
		}
		for cost, want := range map[int]time.Duration{1: 0, 2: defaultHold - 14*time.Second, 5: defaultHold - 14*time.Second, 6: defaultHold - 7*time.Second, 10: defaultHold - 7*time.Second} {
			ask := core.Ask{Limiter: l, Key: "k", Cost: cost, Peek: true}
			if d, err := core.AllowTogether(t.Context(), ask); err != nil || d.RetryAfter != want || d.State(0).Window != want && want > 0 || d.State(0).Remaining != 1 {
				t.Errorf("a cost of %d: got %v, %v, want %v", cost, d, err, want)
			}
		}
		time.Sleep(defaultHold - 14*time.Second)
		if got := testkit.Left(t, l, "k"); got != 5 {
			t.Errorf("got %d places left after the first ones have lapsed, want 5", got)
		}
		time.Sleep(time.Minute) // until no renewal is due
	})
}

// A shadow takes as many places as the cost if they are free, and otherwise none.
func TestRule_ByCost_Shadow(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, tokens(10), core.InFlight("trial", 5).ByCost().Shadow())
		small, large := testkit.Reserve(t, l, "k", 3), testkit.Reserve(t, l, "k", 7)
		if d := large.Decision(); !d.Allowed || d.State(1).Allowed || d.State(1).RetryAfter != core.Never || d.RetryAfter != 0 {
			t.Errorf("got %v with %+v", d, d.State(1))
		}
		for i, want := range [][]int{{10, 3}, {3, 3}, {0, 0}} {
			if i > 0 {
				testkit.Must(t, []*core.Reservation{large, small}[i-1].Release(t.Context()))
			}
			if used := testkit.Used(t, l, "k"); !slices.Equal(used, want) {
				t.Errorf("after the end of %d events: %v are in use, want %v", i, used, want)
			}
		}
	})
}

// After a Release that has failed, another one frees all places, also those of a smaller cost that was settled.
func TestRule_ByCost_ReleaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := testkit.Limiter(t, s, tokens(10), core.FixedWindow("rate", core.PerHour(50)))
		for name, end := range map[string]func(r *core.Reservation) error{
			"Release": func(r *core.Reservation) error { return r.Release(t.Context()) },
			"Refund":  func(r *core.Reservation) error { return r.Refund(t.Context()) },
		} {
			all, part := testkit.Reserve(t, l, "k", 3), reserveAtMost(t, l, 100)
			if part.Cost() != 7 {
				t.Errorf("%s: got %d of the 7 free places", name, part.Cost())
			}
			testkit.Must(t, part.Settle(t.Context(), 1))
			s.fails.Store(true)
			for _, r := range []*core.Reservation{all, part} {
				if err := end(r); !errors.Is(err, core.ErrUnavailable) {
					t.Errorf("%s: got %v from a store that is down", name, err)
				}
			}
			s.fails.Store(false)
			for i, r := range []*core.Reservation{all, part} {
				if testkit.Must(t, end(r)); testkit.Left(t, l, "k") != []int{3, 10}[i] {
					t.Errorf("%s: got %d places left after %d events have ended", name, testkit.Left(t, l, "k"), i+1)
				}
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if testkit.Left(t, l, "k") != 10 {
			t.Errorf("got %d places left at the end", testkit.Left(t, l, "k"))
		}
	})
}
