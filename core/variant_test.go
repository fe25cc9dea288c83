package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// texts returns the texts of rules.
func texts(rules []core.Rule) (texts []string) {
	for _, r := range rules {
		texts = append(texts, r.String())
	}
	return texts
}

// A variant replaces rules and their plans, also after Replace. It ignores its rules whose name or
// algorithm the limiter has no longer.
func TestLimiter_Variant_Rules(t *testing.T) {
	a := core.TokenBucket("a", core.PerMinute(1))
	b := core.SlidingLog("b", core.PerMinute(2)).Plan("pro", core.PerMinute(3))
	l := testkit.Limiter(t, memstore.New(), a, b)
	views := map[string]*core.Limiter{
		"a":    core.Must(l.Variant(core.TokenBucket("a", core.PerHour(10)).Plan("gold", core.PerHour(20)))),
		"b":    core.Must(l.Variant(core.SlidingLog("b", core.PerDay(30)).Shadow())),
		"b, a": core.Must(l.Variant(core.SlidingLog("b", core.PerDay(31)), core.TokenBucket("a", core.PerHour(11)))),
	}
	for _, step := range []struct {
		name string
		now  []core.Rule
		want map[string][]string // by the name of the view and the plan
	}{
		{"at first", []core.Rule{a, b}, map[string][]string{
			"a ":        {`token_bucket "a" 10/h`, `sliding_log "b" 2/m`},
			"a gold":    {`token_bucket "a" 20/h plan "gold"`, `sliding_log "b" 2/m`},
			"a pro":     {`token_bucket "a" 10/h`, `sliding_log "b" 3/m plan "pro"`},
			"a other":   {`token_bucket "a" 10/h plan "unknown"`, `sliding_log "b" 2/m plan "unknown"`},
			"b ":        {`token_bucket "a" 1/m`, `sliding_log "b" 30/d shadow`},
			"b pro":     {`token_bucket "a" 1/m`, `sliding_log "b" 30/d shadow`},
			"b, a pro":  {`token_bucket "a" 11/h`, `sliding_log "b" 31/d`},
			"b, a gold": {`token_bucket "a" 11/h`, `sliding_log "b" 31/d`},
		}},
		{"other limits", []core.Rule{a.Plan("pro", core.Unlimited), core.SlidingLog("b", core.PerMinute(4))}, map[string][]string{
			"a pro":  {`token_bucket "a" 10/h plan "unknown"`, `sliding_log "b" 4/m`}, // the plan of the replaced rule
			"a gold": {`token_bucket "a" 20/h plan "gold"`, `sliding_log "b" 4/m`},
			"b pro":  {`token_bucket "a" unlimited plan "pro"`, `sliding_log "b" 30/d shadow`},
		}},
		{"without a, b with another algorithm", []core.Rule{core.FixedWindow("b", core.PerMinute(5)), core.FixedWindow("c", core.PerMinute(6))}, map[string][]string{
			"a ":       {`fixed_window "b" 5/m`, `fixed_window "c" 6/m`},
			"a gold":   {`fixed_window "b" 5/m`, `fixed_window "c" 6/m`},
			"b, a pro": {`fixed_window "b" 5/m`, `fixed_window "c" 6/m`},
		}},
		{"as at first", []core.Rule{b, a}, map[string][]string{
			"a gold": {`sliding_log "b" 2/m`, `token_bucket "a" 20/h plan "gold"`},
			"b, a ":  {`sliding_log "b" 31/d`, `token_bucket "a" 11/h`},
		}},
	} {
		testkit.Must(t, l.Replace(step.now...))
		for name, v := range views {
			for _, plan := range []string{"", "pro", "gold", "other"} {
				if want, ok := step.want[name+" "+plan]; ok {
					if got := texts(v.Plan(plan).Rules()); !slices.Equal(got, want) {
						t.Errorf("%s: %s of plan %q: got %q, want %q", step.name, name, plan, got, want)
					}
				}
			}
		}
	}
}

// Limits of one length share a state. Reset of a variant resets the states of l and its own.
func TestLimiter_Variant_States(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerMinute(10)))
	twenty := core.Must(l.Variant(core.TokenBucket("r", core.PerMinute(20))))
	hour := core.Must(l.Variant(core.TokenBucket("r", core.PerHour(20)).Plan("day", core.PerDay(20))))
	day := core.Must(hour.Variant(core.TokenBucket("r", core.PerDay(20)))) // replaces hour
	for key, c := range map[string]struct {
		reset *core.Limiter
		want  []int // in use by l, twenty, hour, day
	}{"l": {l, []int{0, 0, 2, 3}}, "twenty": {twenty, []int{0, 0, 2, 3}}, "hour": {hour, []int{0, 0, 0, 0}}, "day": {day, []int{0, 0, 2, 0}}} {
		testkit.Admit(t, l, key, 5)
		testkit.Admit(t, hour, key, 2)
		testkit.Admit(t, hour.Plan("day"), key, 3)
		used := func() (used []int) {
			for _, v := range []*core.Limiter{l, twenty, hour, day} {
				used = append(used, testkit.Used(t, v, key)[0])
			}
			return used
		}
		if got, want := used(), []int{5, 10, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("got %v in use, want %v", got, want)
		}
		if found, err := c.reset.Reset(t.Context(), key); !found || err != nil {
			t.Errorf("Reset of %s: got %v, %v, want true", key, found, err)
		}
		if got := used(); !slices.Equal(got, c.want) {
			t.Errorf("Reset of %s: got %v in use, want %v", key, got, c.want)
		}
	}
}

// Reset calls the Store for at most as many states as it must accept.
func TestLimiter_Reset_ManyLengths(t *testing.T) {
	rule := core.TokenBucket("r", core.PerMinute(10))
	for i := range 300 {
		rule = rule.Plan(fmt.Sprint(i), core.Per(10, time.Duration(1+i/2)*time.Hour)) // two plans have one length
	}
	var store storetest.Fake
	var calls []int
	store.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		calls = append(calls, len(charges))
		return next(ctx, charges)
	})
	l := testkit.Limiter(t, &store, rule)
	testkit.Admit(t, l.Plan("299"), "k", 1)
	calls = nil
	if found, err := l.Reset(t.Context(), "k"); !found || err != nil || !slices.Equal(calls, []int{128, 23}) {
		t.Errorf("got %v, %v in calls of %v states, want true in calls of 128 and 23", found, err, calls)
	}
	store.Set(storetest.Fail(core.ErrUnavailable))
	if found, err := l.Reset(t.Context(), "k"); found || !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("after the store failed: got %v, %v, want ErrUnavailable", found, err)
	}
}

func TestLimiter_Variant_Errors(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerMinute(10)))
	for want, rules := range map[string][]core.Rule{
		`weir: rule "s": name and the algorithm token_bucket belong to no rule of the limiter`: {core.TokenBucket("s", core.PerMinute(1))},
		`weir: rule "r": name and the algorithm sliding_log belong to no rule of the limiter`:  {core.SlidingLog("r", core.PerMinute(1))},
		`weir: rule "r": limit is zero`:                                                          {core.TokenBucket("r", core.Limit{})},
		`weir: rule "": rules are missing: a limiter needs at least one`:                         nil,
		`weir: rule "": algorithm is none: make rules with TokenBucket, SlidingLog and the like`: {{}},
		`weir: rule "r": name is given to two rules of one limiter`:                              {core.TokenBucket("r", core.PerMinute(1)), core.TokenBucket("r", core.PerMinute(2))},
		`weir: rule "r": plan "p": per is not a whole number of microseconds`:                    {core.TokenBucket("r", core.PerMinute(1)).Plan("p", core.Per(1, 1))},
	} {
		v, err := l.Variant(rules...)
		var rule *core.RuleError
		if v != nil || !errors.As(err, &rule) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The plan of the picked view has precedence over the plan of the event, which has precedence over
// the plan of the limiter. A picked view replaces the variant of the limiter.
func TestLimiter_Choose_Precedence(t *testing.T) {
	rule := func(n int) core.Rule {
		return core.SlidingLog("r", core.PerHour(n)).Plan("a", core.PerHour(n+1)).Plan("b", core.PerHour(n+2)).Plan("c", core.PerHour(n+3))
	}
	l := testkit.Limiter(t, memstore.New(), rule(10))
	twenty, thirty := core.Must(l.Variant(rule(20))), core.Must(l.Variant(rule(30)))
	for i, c := range []struct {
		limiter *core.Limiter
		ask     string // the plan of the event
		picked  *core.Limiter
		want    int
	}{
		{l, "", nil, 10},
		{l, "", l, 10},
		{l.Plan("a"), "", nil, 11},
		{l.Plan("a"), "b", nil, 12},
		{l.Plan("a"), "b", l.Plan("c"), 13},
		{l.Plan("a"), "b", twenty, 22},
		{l.Plan("a"), "", twenty, 21},
		{l.Plan("a"), "b", twenty.Plan("c"), 23},
		{l.Plan("a"), "b", twenty.Plan("c").Plan(""), 22},
		{twenty, "", nil, 20},
		{twenty, "", l, 10},
		{twenty, "", l.Plan("a"), 11},
		{twenty, "a", thirty, 31},
	} {
		chosen := c.limiter.Choose(func(context.Context, string) (*core.Limiter, error) { return l.Plan("b"), nil }).
			Choose(func(context.Context, string) (*core.Limiter, error) { return c.picked, nil }) // replaces the first
		d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: chosen, Key: "k", Plan: c.ask, Peek: true})
		testkit.Must(t, err)
		if got := d.State(0).Limit().Events; got != c.want {
			t.Errorf("case %d: got the limit %d, want %d", i, got, c.want)
		}
	}
	chosen := l.Choose(func(context.Context, string) (*core.Limiter, error) { return twenty, nil })
	if got, want := texts(chosen.Rules()), texts(l.Rules()); !slices.Equal(got, want) {
		t.Errorf("Rules: got %q, want %q", got, want)
	}
}

// Every method that has a key calls pick once, with that key, and returns its errors without a call
// of the Store.
func TestLimiter_Choose_Methods(t *testing.T) {
	ctx, broken := t.Context(), errors.New("broken")
	var store storetest.Fake
	rule := core.TokenBucket("r", core.PerHour(10_000))
	l := testkit.Limiter(t, &store, rule)
	foreign := testkit.Limiter(t, &store, rule)
	var keys []string
	var picked *core.Limiter
	var fault error
	chosen := l.Choose(func(_ context.Context, key string) (*core.Limiter, error) {
		keys = append(keys, key)
		return picked, fault
	})
	for name, c := range map[string]struct {
		call func() error
		want []string // the keys
	}{
		"Allow":   {func() error { _, err := chosen.Allow(ctx, "k"); return err }, []string{"k"}},
		"AllowN":  {func() error { _, err := chosen.AllowN(ctx, "k", 2); return err }, []string{"k"}},
		"Peek":    {func() error { _, err := chosen.Peek(ctx, "k"); return err }, []string{"k"}},
		"Reserve": {func() error { _, err := chosen.Reserve(ctx, "k", 1); return err }, []string{"k"}},
		"Reset":   {func() error { _, err := chosen.Reset(ctx, "k"); return err }, []string{"k"}},
		"Debit":   {func() error { return chosen.Debit(ctx, "k", 1) }, []string{"k"}},
		"Credit":  {func() error { return chosen.Credit(ctx, "k", 1) }, []string{"k"}},
		"Wait":    {func() error { return chosen.Wait(ctx, "wait") }, []string{"wait", "wait"}}, // also before it waits
		"AllowTogether": {func() error {
			_, err := core.AllowTogether(ctx, core.Ask{Limiter: chosen, Key: "k"}, core.Ask{Limiter: l, Key: "l"}, core.Ask{Limiter: chosen, Key: "m"})
			return err
		}, []string{"k", "m"}},
		"ReserveTogether": {func() error {
			_, err := core.ReserveTogether(ctx, core.Ask{Limiter: l, Key: "l"}, core.Ask{Limiter: chosen, Key: "k"})
			return err
		}, []string{"k"}},
		"no key":         {func() error { _, err := chosen.Allow(ctx, ""); return ignore(err, core.ErrEmptyKey) }, nil},
		"Debit, no key":  {func() error { return ignore(chosen.Debit(ctx, "", 1), core.ErrEmptyKey) }, nil},
		"Reset, no key":  {func() error { _, err := chosen.Reset(ctx, ""); return ignore(err, core.ErrEmptyKey) }, nil},
		"Wait, no key":   {func() error { return ignore(chosen.Wait(ctx, ""), core.ErrEmptyKey) }, nil},
		"Debit, no cost": {func() error { return chosen.Debit(ctx, "k", 0) }, nil},
		"Wait, no cost":  {func() error { return chosen.WaitN(ctx, "k", 0) }, nil},
		"Plan, Rules":    {func() error { chosen.Plan("p").Rules(); return nil }, nil},
	} {
		for _, p := range []struct {
			picked *core.Limiter
			err    error
			want   error
		}{{l, nil, nil}, {nil, nil, nil}, {nil, broken, broken}, {l, broken, broken}, {foreign, nil, core.ErrInvalidAsk}, {chosen, nil, core.ErrInvalidAsk}, {new(core.Limiter), nil, core.ErrInvalidAsk}} {
			keys, picked, fault = nil, p.picked, p.err
			if len(c.want) == 0 {
				p.want = nil
			}
			calls := store.Calls()
			err := c.call()
			if !errors.Is(err, p.want) || p.want == nil && err != nil {
				t.Errorf("%s: got %v, want %v", name, err, p.want)
			}
			if p.want == nil && !slices.Equal(keys, c.want) {
				t.Errorf("%s: got calls of pick with the keys %q, want %q", name, keys, c.want)
			}
			if p.want != nil && store.Calls() > calls {
				t.Errorf("%s: got a call of the store, although pick returned %v, %v", name, p.picked, p.err)
			}
		}
	}
}

// ignore returns err, unless it is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return fmt.Errorf("got %v, want %v", err, expected)
}

// A variant for single keys, and one for a tenth of them.
// An error that says that the data for the choice is unavailable is that of the method.
func TestLimiter_Choose_Unavailable(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	other := errors.New("other")
	for _, c := range []struct {
		ctx                context.Context
		err                error
		invalid, unchanged bool
	}{
		{t.Context(), fmt.Errorf("%w: overrides", core.ErrUnavailable), false, true},
		{t.Context(), core.ErrFailClosed, true, false}, // alone it says nothing about the Store
		{t.Context(), context.Canceled, true, false},
		{ended, context.Canceled, false, true},
		{ended, other, false, true},
		{t.Context(), other, true, false},
	} {
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerMinute(10)))
		chosen := l.Choose(func(context.Context, string) (*core.Limiter, error) { return nil, c.err })
		_, err := chosen.Allow(c.ctx, "k")
		if !errors.Is(err, c.err) || errors.Is(err, core.ErrInvalidAsk) != c.invalid || (err == c.err) != c.unchanged {
			t.Errorf("%v: got error %v", c.err, err)
		}
	}
}

func TestLimiter_Choose_replacesRules(t *testing.T) {
	rule := core.TokenBucket("r", core.PerSecond(10))
	l := testkit.Limiter(t, memstore.New(), rule)
	other := testkit.Limiter(t, memstore.New(), rule)
	chosen := l.Choose(func(context.Context, string) (*core.Limiter, error) { return nil, other.Replace(rule) })
	for name, ask := range map[string]func() error{
		"Allow": func() error { _, err := chosen.Allow(t.Context(), "k"); return err },
		"Wait":  func() error { return chosen.Wait(t.Context(), "k") },
		"Reset": func() error { _, err := chosen.Reset(t.Context(), "k"); return err },
		"AllowTogether": func() error {
			_, err := core.AllowTogether(t.Context(), core.Ask{Limiter: chosen, Key: "k"}, core.Ask{Limiter: l, Key: "l"})
			return err
		},
	} {
		if err := ask(); !errors.Is(err, core.ErrInvalidAsk) {
			t.Errorf("%s: got %v, want ErrInvalidAsk", name, err)
		}
	}
	if n := testkit.Left(t, l, "k"); n != 10 {
		t.Errorf("%d of 10 events are left", n)
	}
}

// Two asks about one key have one choice, also if the function of Choose changes its mind.
func TestLimiter_Choose_OncePerKey(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerMinute(10)))
	large := core.Must(l.Variant(core.TokenBucket("r", core.PerMinute(100))))
	picks := 0
	chosen := l.Choose(func(context.Context, string) (*core.Limiter, error) {
		picks++
		return []*core.Limiter{nil, large}[picks%2], nil
	})
	d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: chosen, Key: "a"}, core.Ask{Limiter: chosen, Key: "b"}, core.Ask{Limiter: chosen, Key: "a"})
	testkit.Must(t, err)
	if picks != 2 || d.State(0).Limit() != d.State(2).Limit() || d.State(0).Limit() == d.State(1).Limit() {
		t.Errorf("got %d calls of pick and %v", picks, d)
	}
}

func TestLimiter_Choose_Variants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerMinute(10)))
		large := core.Must(l.Variant(core.TokenBucket("r", core.PerMinute(100))))
		chosen := l.Choose(func(_ context.Context, key string) (*core.Limiter, error) {
			if key == "large" {
				return large, nil
			}
			return nil, nil
		})
		for key, want := range map[string]int{"large": 100, "small": 10} {
			testkit.Admit(t, chosen, key, want)
			if d := testkit.Allow(t, chosen, key); d.Allowed || d.RetryAfter != time.Minute/time.Duration(want) {
				t.Errorf("%s: got %v, want a denial for the time of one event", key, d)
			}
			begin := time.Now()
			testkit.Must(t, chosen.Wait(t.Context(), key))
			if got, want := time.Since(begin), time.Minute/time.Duration(want); got != want {
				t.Errorf("%s: got a wait of %v, want %v", key, got, want)
			}
		}
	})
}

// until returns a view of l that uses the rules until a time, and l afterwards.
func until(t testing.TB, l *core.Limiter, end time.Time, rules ...core.Rule) *core.Limiter {
	t.Helper()
	v, err := l.Variant(rules...)
	testkit.Must(t, err)
	return inner.ChooseFor(l, func(context.Context, string) (*core.Limiter, time.Duration, error) {
		if left := time.Until(end); left > 0 {
			return v, left, nil
		}
		return nil, 0, nil
	})
}

// A Blocked rule of a choice that ends denies until then, unless it is Blocked without the choice, too.
func TestChooseFor_States(t *testing.T) {
	const end = 5 * time.Second
	rule := func(name string, l core.Limit) core.Rule { return core.SlidingLog(name, l) }
	hour := core.PerHour(9)
	for name, c := range map[string]struct {
		own, chosen []core.Rule
		plan        string
		ends        time.Duration
		want        time.Duration   // of the decision
		states      []time.Duration // RetryAfter, or zero
	}{
		"one rule":            {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Blocked)}, "", end, end, []time.Duration{end}},
		"a nanosecond":        {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Blocked)}, "", 1, 1, []time.Duration{1}},
		"no end":              {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Blocked)}, "", core.Never, core.Never, []time.Duration{core.Never}},
		"one of two rules":    {[]core.Rule{rule("a", hour), rule("b", hour)}, []core.Rule{rule("b", core.Blocked)}, "", end, end, []time.Duration{0, end}},
		"blocked before":      {[]core.Rule{rule("a", core.Blocked)}, []core.Rule{rule("a", core.Blocked)}, "", end, core.Never, []time.Duration{core.Never}},
		"one blocked before":  {[]core.Rule{rule("a", hour), rule("b", core.Blocked)}, []core.Rule{rule("a", core.Blocked)}, "", end, core.Never, []time.Duration{end, core.Never}},
		"a shadow before":     {[]core.Rule{rule("a", core.Blocked).Shadow()}, []core.Rule{rule("a", core.Blocked)}, "", end, end, []time.Duration{end}},
		"a shadow":            {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Blocked).Shadow()}, "", end, 0, []time.Duration{end}},
		"a shadow, then one":  {[]core.Rule{rule("a", core.Blocked)}, []core.Rule{rule("a", core.Blocked).Shadow()}, "", end, 0, []time.Duration{core.Never}},
		"a plan":              {[]core.Rule{rule("a", core.Blocked).Plan("pro", hour)}, []core.Rule{rule("a", core.Blocked)}, "pro", end, end, []time.Duration{end}},
		"a blocked plan":      {[]core.Rule{rule("a", hour).Plan("pro", core.Blocked)}, []core.Rule{rule("a", core.Blocked)}, "pro", end, core.Never, []time.Duration{core.Never}},
		"an unknown plan":     {[]core.Rule{rule("a", hour).Plan("pro", core.Blocked)}, []core.Rule{rule("a", core.Blocked)}, "none", end, end, []time.Duration{end}},
		"unlimited in a plan": {[]core.Rule{rule("a", hour)}, []core.Rule{rule("a", core.Unlimited)}, "", end, 0, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(storetest.Fake)
				l := testkit.Limiter(t, store, c.own...)
				v, err := l.Variant(c.chosen...)
				testkit.Must(t, err)
				view := inner.ChooseFor(l, func(context.Context, string) (*core.Limiter, time.Duration, error) { return v, c.ends, nil })
				asks := map[string]core.Ask{
					"the plan of the ask":     {Limiter: view, Key: "k", Plan: c.plan},
					"the plan of the limiter": {Limiter: view.Plan(c.plan), Key: "k"},
					"a peek":                  {Limiter: view, Key: "k", Plan: c.plan, Peek: true},
				}
				for name, ask := range asks {
					r, err := core.ReserveTogether(t.Context(), ask)
					testkit.Must(t, err)
					for range 2 { // the Decision of a Reservation does not change
						d := r.Decision()
						if d.Allowed != (c.want == 0) || d.Blocked() != (c.want > 0) || d.RetryAfter != c.want {
							t.Errorf("%s: got %v, blocked: %t, want RetryAfter %v", name, d, d.Blocked(), c.want)
						}
						for i, s := range d.States() {
							reset := c.states[i]
							if reset == core.Never {
								reset = 0
							}
							if want := c.states[i]; s.RetryAfter != want || want > 0 && (s.Window != want || s.ResetAfter != reset || s.Remaining != 0) {
								t.Errorf("%s: got the state %+v, want RetryAfter %v", name, s, want)
							}
						}
					}
				}
				if n := store.Calls(); c.want > 0 && n != 0 {
					t.Errorf("got %d calls of the store, want none", n)
				}
			})
		})
	}
}

// A decision about several blocks lasts until the last of them ends. No block outlives its decision.
func TestChooseFor_Together(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store, now := t.Context(), memstore.New(), time.Now()
		plain := testkit.Limiter(t, store, core.SlidingLog("a", core.PerHour(9)))
		ever := core.Must(plain.Variant(core.SlidingLog("a", core.Blocked)))
		short := until(t, plain, now.Add(2*time.Second), core.SlidingLog("a", core.Blocked))
		long := until(t, testkit.Limiter(t, store, core.SlidingLog("b", core.PerHour(9))), now.Add(7*time.Second), core.SlidingLog("b", core.Blocked))
		for i, c := range []struct {
			after time.Duration
			asks  []core.Ask
			want  string
		}{
			{0, []core.Ask{{Limiter: short, Key: "k"}, {Limiter: long, Key: "k"}}, `denied, retry after 7s: "a" blocked, "b" blocked`},
			{0, []core.Ask{{Limiter: ever, Key: "k"}}, `denied for ever: "a" blocked`},
			{0, []core.Ask{{Limiter: ever, Key: "j"}, {Limiter: long, Key: "k"}}, `denied for ever: "a" blocked, "b" blocked`},
			{time.Second, []core.Ask{{Limiter: short, Key: "k"}}, `denied, retry after 1s: "a" blocked`},
			{time.Second - 1, []core.Ask{{Limiter: plain, Key: "k"}, {Limiter: short, Key: "j"}}, `denied, retry after 1ns: "a" unknown, "a" blocked`},
			{1, []core.Ask{{Limiter: short, Key: "k"}}, `allowed: "a" 8 of 9 left`},
			{0, []core.Ask{{Limiter: short, Key: "k"}, {Limiter: long, Key: "k"}}, `denied, retry after 5s: "a" unknown, "b" blocked`},
			{5 * time.Second, []core.Ask{{Limiter: short, Key: "k"}, {Limiter: long, Key: "k"}}, `allowed: "a" 7 of 9 left, "b" 8 of 9 left`},
		} {
			time.Sleep(c.after)
			d, err := core.AllowTogether(ctx, c.asks...)
			if testkit.Must(t, err); d.String() != c.want {
				t.Errorf("step %d: got %v, want %s", i, d, c.want)
			}
		}
	})
}

// The decision of a Reservation stays that of its time.
func TestReservation_Decision_BlockWithEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.SlidingLog("a", core.PerHour(9)))
		blocked := until(t, l, time.Now().Add(time.Second), core.SlidingLog("a", core.Blocked))
		r, err := core.ReserveTogether(t.Context(), core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: blocked, Key: "j"})
		testkit.Must(t, err)
		time.Sleep(time.Minute)
		if got, want := r.Decision().String(), `denied, retry after 1s: "a" unknown, "a" blocked`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Wait waits for the end of a block, and then for the rule.
func TestLimiter_Wait_BlockWithEnd(t *testing.T) {
	const end = 5 * time.Second
	for name, c := range map[string]struct {
		rule    core.Rule
		cost    int
		timeout time.Duration
		callers int
		want    []time.Duration // for each caller, until its event is admitted or denied
		err     error           // of the last caller
	}{
		"one caller":                   {core.TokenBucket("r", core.PerSecond(1)), 1, time.Hour, 1, []time.Duration{end}, nil},
		"in order":                     {core.TokenBucket("r", core.PerSecond(1)), 1, time.Hour, 3, []time.Duration{end, end + time.Second, end + 2*time.Second}, nil},
		"a deadline at the end":        {core.TokenBucket("r", core.PerSecond(1)), 1, end, 1, []time.Duration{0}, core.ErrDeadlineTooNear},
		"a deadline after the end":     {core.TokenBucket("r", core.PerSecond(1)), 1, end + 1, 1, []time.Duration{end}, nil},
		"a deadline behind others":     {core.TokenBucket("r", core.PerSecond(1)), 1, end, 2, []time.Duration{0, 0}, core.ErrDeadlineTooNear},
		"a cost above the later limit": {core.TokenBucket("r", core.PerSecond(1)), 2, time.Hour, 1, []time.Duration{end}, core.ErrNeverAdmitted},
		"blocked afterwards, too":      {core.TokenBucket("r", core.Blocked), 1, time.Hour, 1, []time.Duration{0}, core.ErrNeverAdmitted},
		"unlimited afterwards":         {core.TokenBucket("r", core.Unlimited), 1, time.Hour, 2, []time.Duration{end, end}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				l := until(t, testkit.Limiter(t, memstore.New(), c.rule), begin.Add(end), core.TokenBucket("r", core.Blocked))
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				var wg sync.WaitGroup
				for i := range c.callers {
					wg.Go(func() {
						err := l.WaitN(ctx, "k", c.cost)
						want := c.err
						if took := time.Since(begin); !errors.Is(err, want) || err != nil && want == nil || took != c.want[i] {
							t.Errorf("caller %d: got %v after %v, want %v after %v", i, err, took, want, c.want[i])
						}
					})
					synctest.Wait()
				}
				wg.Wait()
			})
		})
	}
}

// A second block with another end follows the first one.
func TestLimiter_Wait_LongerBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerSecond(1)))
		v := core.Must(l.Variant(core.TokenBucket("r", core.Blocked)))
		calls := 0
		view := inner.ChooseFor(l, func(context.Context, string) (*core.Limiter, time.Duration, error) {
			calls++
			for _, end := range []time.Duration{2 * time.Second, 7 * time.Second} {
				if left := time.Until(begin.Add(end)); left > 0 {
					return v, left, nil
				}
			}
			return nil, 0, nil
		})
		if err := view.Wait(t.Context(), "k"); err != nil || time.Since(begin) != 7*time.Second || calls > 4 {
			t.Errorf("got %v after %v and %d calls, want nil after 7s and at most 4 calls", err, time.Since(begin), calls)
		}
	})
}

// An error of the function is that of Choose.
func TestChooseFor_Errors(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.TokenBucket("r", core.PerSecond(1)))
	failed := errors.New("failed")
	view := inner.ChooseFor(l, func(context.Context, string) (*core.Limiter, time.Duration, error) { return nil, time.Second, failed })
	for name, call := range map[string]func() error{
		"Allow": func() error { _, err := view.Allow(t.Context(), "k"); return err },
		"Wait":  func() error { return view.Wait(t.Context(), "k") },
	} {
		if err := call(); !errors.Is(err, failed) || !errors.Is(err, core.ErrInvalidAsk) {
			t.Errorf("%s: got %v, want %v", name, err, fmt.Errorf("%w of %w", core.ErrInvalidAsk, failed))
		}
	}
}
