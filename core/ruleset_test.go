package core_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A plan is unknown to a variant if none of its rules has the plan, not even a rule of the limiter.
func TestLimiter_Variant_unknownPlan(t *testing.T) {
	a, b := core.TokenBucket("a", core.PerHour(10)), core.TokenBucket("b", core.PerHour(10))
	l := testkit.Limiter(t, memstore.New(), a.Plan("pro", core.PerHour(20)), b.Plan("max", core.PerHour(30)))
	v, err := l.Variant(a.Plan("free", core.PerHour(5)))
	testkit.Must(t, err)
	for plan, want := range map[string][2]string{
		"": {}, "free": {"free", ""}, "max": {"", "max"}, "pro": {"unknown", "unknown"},
	} {
		d := testkit.Allow(t, v.Plan(plan), "k")
		if got := [2]string{d.State(0).Rule.PlanName(), d.State(1).Rule.PlanName()}; got != want {
			t.Errorf("plan %q: got the plans %q, want %q", plan, got, want)
		}
	}
}

// Asks under plans with equal limits are merged, and each State names the plan of its ask.
func TestAllowTogether_plansWithEqualLimits(t *testing.T) {
	r := core.TokenBucket("a", core.PerHour(10)).Plan("pro", core.PerHour(10)).Plan("max", core.PerHour(10))
	l := testkit.Limiter(t, memstore.New(), r)
	d, err := core.AllowTogether(t.Context(),
		core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "k", Plan: "pro"}, core.Ask{Limiter: l, Key: "k", Plan: "max"})
	testkit.Must(t, err)
	for i, want := range []string{"", "pro", "max"} {
		if s := d.State(i); s.Rule.PlanName() != want || s.Remaining != 7 {
			t.Errorf("ask %d: got plan %q and Remaining %d, want %q and 7", i, s.Rule.PlanName(), s.Remaining, want)
		}
	}
}

// A call that makes no decision leaves nothing behind for the next one, which uses its memory again.
func TestLimiter_afterCallWithoutDecision(t *testing.T) {
	s := memstore.New()
	blocked := testkit.Limiter(t, s, core.TokenBucket("a", core.PerHour(10)), core.TokenBucket("b", core.Blocked))
	plans := testkit.Limiter(t, s, core.TokenBucket("c", core.PerHour(10)).Plan("pro", core.PerHour(20)), core.TokenBucket("d", core.Blocked))
	l := testkit.Limiter(t, s, core.TokenBucket("e", core.PerHour(1000)))
	for range 20 {
		testkit.Must(t, blocked.Debit(t.Context(), "k", 1))
		if d := testkit.Allow(t, l, "k"); !d.Allowed {
			t.Fatalf("after a Debit of a blocked limiter: got %v", d)
		}
		_, err := core.AllowTogether(t.Context(), core.Ask{Limiter: plans, Key: "k"}, core.Ask{Limiter: plans, Key: "k", Plan: "pro"})
		if !errors.Is(err, core.ErrInvalidAsk) {
			t.Fatalf("two plans: got error %v, want ErrInvalidAsk", err)
		}
		d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "o"})
		if testkit.Must(t, err); !d.Allowed || d.State(1).Ask != 1 {
			t.Fatalf("after an invalid ask: got %v with the ask %d of the second State", d, d.State(1).Ask)
		}
	}
}

// Rules with plans of different names do not take memory for each rule times each plan.
func TestNew_memoryOfPlans(t *testing.T) {
	testkit.WithoutRace(t)
	const rules, plans = 16, 1000
	var all []core.Rule
	for i := range rules {
		r := core.TokenBucket(fmt.Sprint("r", i), core.PerHour(10))
		for j := range plans {
			r = r.Plan(fmt.Sprint("p", i, ".", j), core.PerHour(20))
		}
		all = append(all, r)
	}
	var l *core.Limiter
	_, allocated := testkit.Allocated(1, func() { l = testkit.Limiter(t, memstore.New(), all...) })
	if got := allocated / (rules * plans); got > 1450 {
		t.Errorf("got %d bytes for each plan, want at most 1450", got)
	}
	d := testkit.Allow(t, l.Plan("p7.999"), "k")
	for i := range rules {
		want := ""
		if i == 7 {
			want = "p7.999"
		}
		if got := d.State(i).Rule.PlanName(); got != want {
			t.Errorf("rule %d: got the plan %q, want %q", i, got, want)
		}
	}
}

// An exhausted key changes to a plan of the same length, whose state it shares, and to a plan of
// another length, which has a state of its own.
func TestRule_Plan_States(t *testing.T) {
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(),
					a.Rule("r", core.PerMinute(10)).Plan("pro", core.PerMinute(100)).Plan("hour", core.PerHour(500)))
				testkit.Admit(t, l, "k", 10)
				pro := core.State{Allowed: true, Remaining: 89}
				if a.Kind().Refills {
					pro = core.State{RetryAfter: 600 * time.Millisecond}
				}
				for _, c := range []struct {
					plan string
					want core.State
				}{{"", core.State{}}, {"pro", pro}, {"hour", core.State{Allowed: true, Remaining: 499}}} {
					s := testkit.Allow(t, l.Plan(c.plan), "k").State(0)
					if s.Allowed != c.want.Allowed || s.Remaining != c.want.Remaining || c.want.RetryAfter != 0 && s.RetryAfter != c.want.RetryAfter {
						t.Errorf("plan %q: got %+v, want %+v", c.plan, s, c.want)
					}
					if s.Rule.PlanName() != c.plan {
						t.Errorf("plan %q: got the plan %q", c.plan, s.Rule.PlanName())
					}
				}
				if found, err := l.Reset(t.Context(), "k"); !found || err != nil {
					t.Errorf("Reset: got %v, %v, want true", found, err)
				}
				for _, plan := range []string{"", "pro", "hour"} {
					if used := testkit.Used(t, l.Plan(plan), "k")[0]; used != 0 {
						t.Errorf("plan %q after Reset: got %d in use, want 0", plan, used)
					}
				}
			})
		})
	}
}

// Modifiers apply to every plan, in any order.
func TestRule_Plan_Modifiers(t *testing.T) {
	base := core.SlidingWindow("r", core.PerHour(100))
	plan := func(r core.Rule) core.Rule { return r.Plan("pro", core.PerHour(200)) }
	for want, modify := range map[string]func(core.Rule) core.Rule{
		`sliding_window "r" 200/h in 30 sub-windows plan "pro"`: func(r core.Rule) core.Rule { return r.SubWindows(30) },
		`sliding_window "r" 200/h soft 7.5% plan "pro"`:         func(r core.Rule) core.Rule { return r.Soft(7.5) },
		`sliding_window "r" 200/h elastic up to 2 plan "pro"`:   func(r core.Rule) core.Rule { return r.Elastic(idle, 2) },
		`sliding_window "r" 200/h shadow plan "pro"`:            core.Rule.Shadow,
	} {
		s := memstore.New() // on which different definitions are in conflict
		for _, r := range []core.Rule{plan(modify(base)), modify(plan(base))} {
			l := testkit.Limiter(t, s, r)
			if got := l.Plan("pro").Rules()[0].String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got, want := l.Rules()[0].String(), modify(base).String(); got != want {
				t.Errorf("without a plan: got %s, want %s", got, want)
			}
			want := 200
			if strings.Contains(r.String(), "elastic") {
				want = 400
			}
			if got := testkit.Peek(t, l.Plan("pro"), "k").State(0).Limit().Events; got != want {
				t.Errorf("%v: got a limit of %d in force, want %d", r, got, want)
			}
		}
	}
}

// A second plan of the same name replaces the first, in the new rule only.
func TestRule_Plan_Twice(t *testing.T) {
	r := core.TokenBucket("r", core.PerMinute(1)).Plan("a", core.PerMinute(2)).Plan("b", core.PerMinute(3))
	again, other := r.Plan("a", core.PerMinute(4)), r.Plan("a", core.PerMinute(5))
	for _, c := range []struct {
		rule core.Rule
		want []int
	}{{r, []int{1, 2, 3}}, {again, []int{1, 4, 3}}, {other, []int{1, 5, 3}}, {core.Rule{}.Plan("a", core.PerMinute(1)), nil}} {
		l, err := core.New(memstore.New(), c.rule)
		if c.want == nil {
			if !errors.Is(err, core.ErrInvalidRule) {
				t.Errorf("the zero rule: got %v, want ErrInvalidRule", err)
			}
			continue
		}
		var got []int
		for _, plan := range []string{"", "a", "b"} {
			got = append(got, l.Plan(plan).Rules()[0].Limit().Events)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got the limits %v, want %v", got, c.want)
		}
	}
}

// The events of one plan do not change the step of an elastic limit in another plan.
func TestRule_Plan_ElasticHysteresis(t *testing.T) {
	var spare float64
	l := testkit.Limiter(t, memstore.New(), core.SlidingLog("r", core.PerHour(100)).
		Plan("pro", core.PerHour(200)).Plan("staff", core.Unlimited).Elastic(func() float64 { return spare }, 2))
	for i, c := range []struct {
		plan  string
		spare float64
		want  int
	}{{"", 0.5, 150}, {"pro", 0.46, 280}, {"staff", 0, 0}, {"", 0.46, 150}, {"unknown", 0.46, 140}, {"", 0.46, 150}, {"", 0.44, 140}} {
		spare = c.spare
		if got := testkit.Peek(t, l.Plan(c.plan), "k").State(0).Limit().Events; got != c.want {
			t.Errorf("step %d, plan %q: got the limit %d, want %d", i, c.plan, got, c.want)
		}
	}
}

func TestNew_InvalidPlans(t *testing.T) {
	good := core.PerMinute(10)
	bucket, window := core.TokenBucket("r", good), core.FixedWindow("r", good)
	long := strings.Repeat("x", 65)
	for want, r := range map[string]core.Rule{
		`plan has no name`:                                                              bucket.Plan("", good),
		`plan cannot be called "unknown"`:                                               bucket.Plan("unknown", core.Unlimited),
		`plan "p": limit is zero`:                                                       bucket.Plan("p", core.Limit{}),
		`plan "p": limit has no number of events`:                                       bucket.Plan("p", core.Unlimited.WithBurst(5)),
		`plan "p": events is -2, not positive`:                                          bucket.Plan("ok", good).Plan("p", core.PerMinute(-2)),
		`plan "p": limit reaches over more than 100 years`:                              bucket.Plan("p", core.Per(1, 366*24*time.Hour).WithBurst(101)),
		`plan "p": burst has no meaning for`:                                            window.Plan("p", good.WithBurst(5)),
		`plan "` + long + `" is not a name of at most 64 characters of printable ASCII`: bucket.Plan(long, good),
		`plan "é" is not a name of at most 64 characters of printable ASCII`:            bucket.Plan("é", core.Blocked),
		`limit is zero`: core.TokenBucket("r", core.Limit{}).Plan("", good),
		`sub-windows has no meaning for token_bucket`: core.TokenBucket("r", core.Unlimited).SubWindows(5).Plan("p", good),
		`soft is 2000 percent, outside 0 to 1000`:     core.TokenBucket("r", core.Blocked).Soft(2000),
		`elastic has no signal: the function is nil`:  core.TokenBucket("r", core.Unlimited).Elastic(nil, 2),
	} {
		_, err := core.New(memstore.New(), r)
		var rule *core.RuleError
		field, _, _ := strings.Cut(want, " ")
		switch {
		case !errors.As(err, &rule) || !errors.Is(err, core.ErrInvalidRule):
			t.Errorf("%s: got %v, want a RuleError", want, err)
		case !strings.HasPrefix(err.Error(), `weir: rule "r": `+want) || rule.Rule != "r" || rule.Field != field:
			t.Errorf("got %v of the field %q, want %s", err, rule.Field, want)
		}
	}
}

// A plan that no rule has applies the limits without a plan. A limiter warns of it once.
func TestLimiter_Plan_Unknown(t *testing.T) {
	for _, c := range []struct {
		name     string
		rules    []core.Rule
		plans    []string // of the rules
		warnings int
	}{
		{"a rule has plans", []core.Rule{
			core.TokenBucket("a", core.PerMinute(10)).Plan("pro", core.PerMinute(20)), core.SlidingLog("b", core.PerMinute(30)),
		}, []string{"unknown", ""}, 4},
		{"no rule has plans", []core.Rule{core.TokenBucket("a", core.PerMinute(10))}, []string{""}, 0},
	} {
		var log bytes.Buffer
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		l := testkit.Limiter(t, memstore.New(), c.rules...)
		for i, plan := range []string{"pr\x00\xff\n" + strings.Repeat("x", 1<<20), "unknown", "Pro", " "} {
			d := testkit.Admit(t, l.Plan(plan), "k", 1)
			if i%2 == 0 {
				var err error
				d, err = core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: "k", Plan: plan})
				testkit.Must(t, err)
			}
			for j, s := range d.States() {
				if s.Limit() != c.rules[j].Limit() || s.Rule.PlanName() != c.plans[j] {
					t.Errorf("%s, plan %.10q: got %v, want the limit of %v and the plan %q", c.name, plan, s.Rule, c.rules[j], c.plans[j])
				}
			}
		}
		if got := testkit.Used(t, l, "k")[0]; got != 6 {
			t.Errorf("%s: got %d in use without a plan, want the 6 events of all plans", c.name, got)
		}
		if got := strings.Count(log.String(), "level=WARN msg=\"weir: unknown plan"); got != c.warnings || log.Len() > 1000 {
			t.Errorf("%s: got the log %.1000s, want %d warnings", c.name, log.String(), c.warnings)
		}
	}
}

// The number of warnings is bounded until the rules are replaced.
func TestLimiter_Plan_UnknownNames(t *testing.T) {
	var log bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	r := core.TokenBucket("a", core.PerHour(1000)).Plan("pro", core.PerHour(2000))
	l := testkit.Limiter(t, memstore.New(), r)
	for _, want := range []int{16, 32} {
		for i := range 200 {
			testkit.Admit(t, l.Plan(fmt.Sprint("plan ", i%20)), "k", 1)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != want {
			t.Errorf("got %d warnings, want %d", got, want)
		}
		testkit.Must(t, l.Replace(r))
	}
}

// A rule without the plan of the event has its limit without a plan.
func TestLimiter_Plan_OfOneRule(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(),
		core.TokenBucket("a", core.PerMinute(1)).Plan("pro", core.PerMinute(2)),
		core.TokenBucket("b", core.PerMinute(3)).Plan("gold", core.PerMinute(4)))
	for plan, want := range map[string][2]string{
		"":      {`token_bucket "a" 1/m`, `token_bucket "b" 3/m`},
		"pro":   {`token_bucket "a" 2/m plan "pro"`, `token_bucket "b" 3/m`},
		"gold":  {`token_bucket "a" 1/m`, `token_bucket "b" 4/m plan "gold"`},
		"other": {`token_bucket "a" 1/m plan "unknown"`, `token_bucket "b" 3/m plan "unknown"`},
	} {
		if got := l.Plan(plan).Rules(); got[0].String() != want[0] || got[1].String() != want[1] {
			t.Errorf("plan %q: got %v, want %v", plan, got, want)
		}
	}
}

// Unlimited and Blocked decide without a call of the Store, in every method.
func TestLimiter_UnlimitedAndBlocked(t *testing.T) {
	for limit, want := range map[core.Limit]core.State{
		core.Unlimited: {Allowed: true, Remaining: math.MaxInt},
		core.Blocked:   {RetryAfter: core.Never, Window: core.Never},
	} {
		for _, a := range testkit.Algorithms {
			ctx, name := t.Context(), a.Name+" "+limit.String()
			var store storetest.Fake
			want.Rule = a.Rule("r", limit)
			l := testkit.Limiter(t, &store, want.Rule)
			check := func(method string, d core.Decision, err error) {
				t.Helper()
				if err != nil || d.Allowed != want.Allowed || d.RetryAfter != want.RetryAfter || d.Len() != 1 || d.State(0) != want || d.Soft() || d.State(0).Used() != 0 {
					t.Errorf("%s: %s: got %+v, %v, want %+v", name, method, d, err, want)
				}
			}
			d, err := l.Allow(ctx, "k")
			check("Allow", d, err)
			for _, n := range []int{0, 1, math.MaxInt} {
				d, err = l.AllowN(ctx, "k", n)
				check("AllowN", d, err)
			}
			d, err = l.Peek(ctx, "k")
			check("Peek", d, err)
			d, err = core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "k", MaxDelay: 1}, core.Ask{Limiter: l, Key: "k", Peek: true})
			if err != nil || d.Allowed != want.Allowed || d.Len() != 2 || d.State(1).Ask != 1 {
				t.Errorf("%s: AllowTogether: got %+v, %v", name, d, err)
			}
			r := testkit.Reserve(t, l, "k", 5)
			check("Reserve", r.Decision(), nil)
			for _, err := range []error{r.Settle(ctx, 9), r.SettleFor(ctx, l, math.MaxInt), inner.RefundDelayed(r, ctx), r.Refund(ctx), l.Debit(ctx, "k", 5), l.Credit(ctx, "k", 5)} {
				testkit.Must(t, err)
			}
			if found, err := l.Reset(ctx, "k"); found || err != nil {
				t.Errorf("%s: Reset: got %v, %v, want false", name, found, err)
			}
			if err := l.Wait(ctx, "k"); want.Allowed && err != nil || !want.Allowed && !errors.Is(err, core.ErrNeverAdmitted) {
				t.Errorf("%s: Wait: got %v", name, err)
			}
			if got := store.Calls(); got != 0 {
				t.Errorf("%s: got %d calls of the store, want none", name, got)
			}
			for method, call := range map[string]func() error{
				"Allow":  func() error { _, err := l.Allow(ctx, ""); return err },
				"Reset":  func() error { _, err := l.Reset(ctx, ""); return err },
				"Credit": func() error { return l.Credit(ctx, "", 1) },
				"Wait":   func() error { return l.Wait(ctx, "") },
			} {
				if err := call(); !errors.Is(err, core.ErrEmptyKey) {
					t.Errorf("%s: %s of an empty key: got %v, want ErrEmptyKey", name, method, err)
				}
			}
		}
	}
}

// A limit that is never charged beside a rule that counts.
func TestLimiter_UnlimitedAndBlocked_BesideOthers(t *testing.T) {
	log := core.SlidingLog("log", core.PerHour(3))
	for _, c := range []struct {
		name          string
		rules         []core.Rule
		want          string // for one event
		calls, used   int    // of the Store; of log
		settled, left int    // Used of log after Settle(2), and after Refund
	}{
		{"unlimited", []core.Rule{core.TokenBucket("r", core.Unlimited), log}, `allowed: "r" unlimited, "log" 2 of 3 left`, 1, 1, 2, 0},
		{"unlimited last", []core.Rule{log, core.TokenBucket("r", core.Unlimited)}, `allowed: "log" 2 of 3 left, "r" unlimited`, 1, 1, 2, 0},
		{"blocked", []core.Rule{core.TokenBucket("r", core.Blocked), log}, `denied for ever: "r" blocked, "log" unknown`, 0, 0, 0, 0},
		{"blocked last", []core.Rule{log, core.TokenBucket("r", core.Blocked)}, `denied for ever: "log" unknown, "r" blocked`, 0, 0, 0, 0},
		{"blocked shadow", []core.Rule{core.TokenBucket("r", core.Blocked).Shadow(), log}, `allowed: "r" blocked, "log" 2 of 3 left`, 1, 1, 2, 0},
		{"unlimited shadow", []core.Rule{core.TokenBucket("r", core.Unlimited).Shadow(), log}, `allowed: "r" unlimited, "log" 2 of 3 left`, 1, 1, 2, 0},
		{"blocked, beside a shadow", []core.Rule{core.TokenBucket("r", core.Blocked), log.Shadow()}, `denied for ever: "r" blocked, "log" unknown`, 0, 0, 0, 0},
	} {
		var store storetest.Fake
		l := testkit.Limiter(t, &store, c.rules...)
		at := slices.IndexFunc(c.rules, func(r core.Rule) bool { return r.Name() == "log" })
		counted := testkit.Limiter(t, &store, log)
		r := testkit.Reserve(t, l, "k", 1)
		d := r.Decision()
		if d.String() != c.want || store.Calls() != c.calls || d.State(at).Unknown == d.Allowed || !d.State(at).Allowed {
			t.Errorf("%s: got %v after %d calls, want %s after %d", c.name, d, store.Calls(), c.want, c.calls)
		}
		got := []int{testkit.Used(t, counted, "k")[0]}
		testkit.Must(t, r.Settle(t.Context(), 2))
		got = append(got, testkit.Used(t, counted, "k")[0])
		testkit.Must(t, r.Refund(t.Context()))
		if got = append(got, testkit.Used(t, counted, "k")[0]); !slices.Equal(got, []int{c.used, c.settled, c.left}) {
			t.Errorf("%s: got %v in use after Reserve, Settle and Refund, want %v", c.name, got, []int{c.used, c.settled, c.left})
		}
	}
}

// Two asks of one rule and key with different limits are invalid, and charge nothing. The plans may
// differ.
func TestAllowTogether_PlansOfOneKey(t *testing.T) {
	var store storetest.Fake
	l := testkit.Limiter(t, &store, core.SlidingLog("r", core.PerHour(10)).
		Plan("same", core.PerHour(10).WithBurst(10)).Plan("pro", core.PerHour(20)).Plan("staff", core.Unlimited))
	variant := core.Must(l.Variant(core.SlidingLog("r", core.PerHour(10)).Shadow().Plan("staff", core.Unlimited)))
	for _, c := range []struct {
		name string
		a, b core.Ask
		want error
	}{
		{"one plan", core.Ask{Limiter: l.Plan("pro"), Key: "k"}, core.Ask{Limiter: l, Key: "k", Plan: "pro"}, nil},
		{"equal limits", core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "k", Plan: "same"}, nil},
		{"an unknown plan", core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "k", Plan: "other"}, nil},
		{"two plans", core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "k", Plan: "pro"}, core.ErrInvalidAsk},
		{"two plans, a Peek", core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "k", Plan: "pro", Peek: true}, core.ErrInvalidAsk},
		{"unlimited", core.Ask{Limiter: l, Key: "k", Plan: "staff"}, core.Ask{Limiter: l, Key: "k"}, core.ErrInvalidAsk},
		{"a shadow", core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: variant, Key: "k"}, core.ErrInvalidAsk},
		{"a shadow, unlimited", core.Ask{Limiter: l, Key: "k", Plan: "staff"}, core.Ask{Limiter: variant, Key: "k", Plan: "staff"}, core.ErrInvalidAsk},
		{"two plans of two keys", core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "other", Plan: "pro"}, nil},
	} {
		calls := store.Calls()
		d, err := core.AllowTogether(t.Context(), c.a, c.b)
		if !errors.Is(err, c.want) || err != nil && c.want == nil || d.Allowed != (err == nil) {
			t.Errorf("%s: got %v, %v, want the error %v", c.name, d, err, c.want)
		}
		if called := store.Calls() - calls; called > 0 != (c.want == nil) {
			t.Errorf("%s: got %d calls of the store", c.name, called)
		}
	}
}

// A decision does not depend on the calls before it, whose memory it uses.
func TestLimiter_Allow_AfterOtherCalls(t *testing.T) {
	ctx, store := t.Context(), memstore.New()
	plans := testkit.Limiter(t, store, core.TokenBucket("r", core.PerHour(10)).Plan("pro", core.PerHour(20)).Plan("banned", core.Blocked))
	blocked := testkit.Limiter(t, store, core.TokenBucket("s", core.PerHour(1000)), core.TokenBucket("blocked", core.Blocked))
	l := testkit.Limiter(t, store, core.TokenBucket("x", core.PerHour(1000)), core.TokenBucket("y", core.PerHour(1000)))
	for name, call := range map[string]func() error{
		"two plans": func() error {
			_, err := core.AllowTogether(ctx, core.Ask{Limiter: plans, Key: "k"}, core.Ask{Limiter: plans, Key: "k", Plan: "pro"})
			return ignore(err, core.ErrInvalidAsk)
		},
		"two plans, blocked": func() error {
			_, err := core.AllowTogether(ctx, core.Ask{Limiter: plans, Key: "k", Plan: "banned"}, core.Ask{Limiter: plans, Key: "k"})
			return ignore(err, core.ErrInvalidAsk)
		},
		"blocked":                 func() error { _, err := blocked.Allow(ctx, "k"); return err },
		"a debit beside blocked":  func() error { return blocked.Debit(ctx, "k", 1) },
		"a credit of one blocked": func() error { return plans.Plan("banned").Credit(ctx, "k", 1) },
		"three asks": func() error {
			_, err := core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "a"}, core.Ask{Limiter: l, Key: "b"}, core.Ask{Limiter: l, Key: "c"})
			return err
		},
	} {
		for range 20 { // the memory may be that of another call
			testkit.Must(t, call())
			for i, s := range testkit.Admit(t, l, "k", 1).States() {
				if s.Ask != 0 || s.Unknown || s.Rule != l.Rules()[i] {
					t.Fatalf("after %s: got %+v", name, s)
				}
			}
		}
	}
}

// A plan with a smaller limit leaves a reserve to the others in a window or log, but not in a bucket.
func TestRule_Plan_Reserve(t *testing.T) {
	for _, a := range testkit.Algorithms {
		synctest.Test(t, func(t *testing.T) {
			l := testkit.Limiter(t, memstore.New(), a.Rule("r", core.PerMinute(10)).Plan("sheddable", core.PerMinute(8)))
			for range 8 {
				testkit.Admit(t, l.Plan("sheddable"), "k", 1)
			}
			want := 2
			if a.Rule("r", core.PerMinute(10)).Kind().Refills {
				want = 0
			}
			if d := testkit.Allow(t, l.Plan("sheddable"), "k"); d.Allowed {
				t.Errorf("%s: the ninth event was admitted", a.Name)
			}
			if got := testkit.Left(t, l, "k"); got != want {
				t.Errorf("%s: got %d left, want %d", a.Name, got, want)
			}
		})
	}
}

func TestRule_Spec_Plans(t *testing.T) {
	r := core.TokenBucket("api", core.PerMinute(10)).Plan("pro", core.PerMinute(100)).Headroom("pro", 5).Plan("staff", core.Unlimited).Soft(10)
	want := []core.Plan{{"pro", core.PerMinute(100), 5}, {"staff", core.Unlimited, 0}}
	if got := r.Spec().Plans; !slices.Equal(got, want) || len((core.Rule{}).Spec().Plans) != 0 {
		t.Errorf("got %v, want %v", got, want)
	}
	r.Spec().Plans[0] = core.Plan{}
	of := core.Spec{Name: "api", Algorithm: core.AlgorithmTokenBucket, Limit: core.PerMinute(10), Soft: 10, Plans: want}
	same := core.NewRule(of)
	of.Plans[0].Name = "other"
	for _, r := range []core.Rule{r, same} {
		if got := r.Spec().Plans[0]; got != (core.Plan{"pro", core.PerMinute(100), 5}) {
			t.Errorf("a change of a result has changed the rule: %v", got)
		}
		state := testkit.OfPlan(t, r, "pro").Spec()
		if got := state.Plans; !slices.Equal(got, []core.Plan{{"pro", core.PerMinute(100), 5}}) || state.Limit != core.PerMinute(100) {
			t.Errorf("got %+v for the plan", state)
		}
	}
}
