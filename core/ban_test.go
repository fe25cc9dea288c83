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

const banTime = 10 * time.Minute

// banning are rules of each kind that may have a ban, of 3 events.
func banning() []core.Rule {
	limit := core.PerMinute(3)
	return []core.Rule{
		core.TokenBucket("bucket", limit), core.LeakyBucket("leaky", limit), core.FixedWindow("window", limit), core.FixedWindow("first", limit).FromFirst(),
		core.SlidingWindow("sliding", limit), core.SlidingLog("log", limit), core.Quota("quota", core.Daily(3)),
	}
}

// A denial closes the key until the end that it tells; later denials do not change the end.
func TestRule_BlockFor(t *testing.T) {
	for _, r := range banning() {
		t.Run(r.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), r.BlockFor(banTime))
				testkit.Admit(t, l, "k", 3)
				d := testkit.Allow(t, l, "k")
				s := d.State(0)
				wait := banTime
				if r.Kind().Calendar {
					wait = d.RetryAfter // the day ends later
				}
				if d.Allowed || s.Ban != banTime || d.RetryAfter != wait || d.RetryAfter < banTime || s.RetryAfter != wait || s.Window != wait || s.Remaining != 0 || d.Len() != 1 || d.Blocked() {
					t.Fatalf("the first denial is %+v", d)
				}
				for passed := time.Minute; passed < banTime; passed += time.Minute {
					time.Sleep(time.Minute)
					if d := testkit.Allow(t, l, "k"); d.Allowed || d.State(0).Ban != banTime-passed {
						t.Fatalf("after %v: got %+v", passed, d)
					}
				}
				time.Sleep(time.Minute - time.Microsecond)
				if d := testkit.Allow(t, l, "k"); d.Allowed {
					t.Errorf("before the end: got %+v", d)
				}
				time.Sleep(time.Microsecond)
				if d := testkit.Allow(t, l, "k"); d.Allowed == r.Kind().Calendar {
					t.Errorf("at the end: got %+v", d)
				}
				testkit.Admit(t, l, "other", 3)
			})
		})
	}
}

// Reset ends a ban, also in the limiter of another plan.
func TestRule_BlockFor_Reset(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.SlidingLog("r", core.PerMinute(1)).Plan("gold", core.PerHour(2)).BlockFor(time.Hour))
	testkit.Admit(t, l, "k", 1)
	if d := testkit.Allow(t, l, "k"); d.State(0).Ban != time.Hour {
		t.Errorf("got %+v, want a ban", d)
	}
	if d := testkit.Allow(t, l.Plan("gold"), "k"); d.State(0).Ban <= 0 {
		t.Errorf("another plan: got %+v, want the ban", d)
	}
	if found, err := l.Plan("gold").Reset(t.Context(), "k"); err != nil || !found {
		t.Errorf("Reset: got %t, %v", found, err)
	}
	testkit.Admit(t, l, "k", 1)
}

// Denials begin a ban if they are those of an event by the whole limit.
func TestRule_BlockFor_begins(t *testing.T) {
	spare := 0.0
	base := core.FixedWindow("r", core.PerHour(5)).FromFirst().BlockFor(banTime)
	ask := func(l *core.Limiter, n int) (core.Decision, error) { return l.AllowN(context.Background(), "k", n) }
	for name, c := range map[string]struct {
		rules []core.Rule
		deny  func(l *core.Limiter) (core.Decision, error) // after five events
		bans  bool
	}{
		"event":        {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 1) }, true},
		"larger event": {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 5) }, true},
		"reservation":  {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) { return reserved(l.Reserve(context.Background(), "k", 1)) }, true},
		"at most": {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) {
			return reserved(l.ReserveAtMost(context.Background(), "k", 3))
		}, true},
		"soft":                 {[]core.Rule{base.Soft(20)}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 2) }, true},
		"within the soft part": {[]core.Rule{base.Soft(20), core.Pause("p")}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 1) }, false},
		"largest elastic":      {[]core.Rule{base.Elastic(func() float64 { return 1 }, 2)}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 6) }, true},
		"smaller elastic":      {[]core.Rule{base.Elastic(func() float64 { return spare }, 2)}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 1) }, false},
		"half elastic":         {[]core.Rule{base.Elastic(func() float64 { return 0.5 }, 2)}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 4) }, false},
		"above the capacity":   {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 6) }, false},
		"peek":                 {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) { return l.Peek(context.Background(), "k") }, false},
		"peek of an ask": {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) {
			return core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "k", Peek: true}, core.Ask{Limiter: l, Key: "other"})
		}, false},
		"beside another key": {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) {
			return core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "other"}, core.Ask{Limiter: l, Key: "k"})
		}, true},
		"shadow":       {[]core.Rule{base.Shadow()}, func(l *core.Limiter) (core.Decision, error) { return ask(l, 1) }, false},
		"headroom":     {[]core.Rule{base.Headroom("low", 40)}, func(l *core.Limiter) (core.Decision, error) { return ask(l.Plan("low"), 1) }, false},
		"blocked plan": {[]core.Rule{base.Plan("no", core.Blocked)}, func(l *core.Limiter) (core.Decision, error) { return ask(l.Plan("no"), 1) }, false},
		"other rule": {[]core.Rule{base.Plan("gold", core.PerHour(50)), core.SlidingLog("log", core.PerHour(5))}, func(l *core.Limiter) (core.Decision, error) {
			return ask(l.Plan("gold"), 1)
		}, false},
		"wait": {[]core.Rule{base}, func(l *core.Limiter) (core.Decision, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := l.Wait(ctx, "k"); !errors.Is(err, core.ErrDeadlineTooNear) {
				return core.Decision{}, fmt.Errorf("got the error %w", err)
			}
			return core.Decision{}, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), c.rules...)
				testkit.Admit(t, l, "k", 5)
				d, err := c.deny(l)
				testkit.Must(t, err)
				if d.Len() > 0 && bans(d) != c.bans {
					t.Errorf("got %+v, want a ban: %t", d, c.bans)
				}
				if later := testkit.Peek(t, l, "k"); bans(later) != c.bans {
					t.Errorf("afterwards: got %+v, want a ban: %t", later, c.bans)
				}
				if d := testkit.Allow(t, l, "another"); d.Len() > 0 && !d.Allowed {
					t.Errorf("another key: got %+v", d)
				}
			})
		})
	}
}

// bans reports whether d has a State of a blocked key.
func bans(d core.Decision) bool {
	for _, s := range d.States() {
		if s.Ban > 0 {
			return true
		}
	}
	return false
}

func reserved(r *core.Reservation, err error) (core.Decision, error) {
	if err != nil {
		return core.Decision{}, err
	}
	return r.Decision(), nil
}

// Each rule that denies bans its key, and no other one.
func TestRule_BlockFor_severalRules(t *testing.T) {
	store := memstore.New()
	ip := testkit.Limiter(t, store, core.SlidingLog("ip", core.PerMinute(2)).BlockFor(time.Minute), core.SlidingLog("hour", core.PerHour(2)).BlockFor(time.Hour))
	user := testkit.Limiter(t, store, core.SlidingLog("user", core.PerMinute(5)).BlockFor(time.Hour))
	asks := []core.Ask{{Limiter: ip, Key: "a"}, {Limiter: user, Key: "u"}}
	for range 2 {
		_, err := core.AllowTogether(t.Context(), asks...)
		testkit.Must(t, err)
	}
	d, err := core.AllowTogether(t.Context(), asks...)
	if err != nil || d.State(0).Ban != time.Minute || d.State(1).Ban != time.Hour || d.State(2).Ban != 0 || !d.State(2).Allowed {
		t.Errorf("got %+v, %v", d, err)
	}
	if d := testkit.Allow(t, user, "u"); !d.Allowed || d.State(0).Remaining != 2 {
		t.Errorf("the user: got %+v", d)
	}
}

// A leaky bucket that has room begins no ban if the caller does not accept the delay. A full one does.
func TestRule_BlockFor_maxDelay(t *testing.T) {
	for name, c := range map[string]struct {
		taken    int
		maxDelay time.Duration
		cost     int
		bans     bool
	}{
		"room, but a long delay":           {1, time.Second, 1, false},
		"room for a part of a larger cost": {2, time.Second, 2, true},
		"full":                             {3, time.Second, 1, true},
		"full, and no delay is too long":   {3, 0, 1, true},
		"full, and a long delay":           {3, time.Hour, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), core.LeakyBucket("r", core.PerMinute(3)).BlockFor(banTime))
				testkit.Admit(t, l, "k", c.taken)
				d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: "k", Cost: c.cost, MaxDelay: c.maxDelay})
				if err != nil || d.Allowed || bans(d) != c.bans {
					t.Errorf("got %+v, %v, want a denial, and a ban: %t", d, err, c.bans)
				}
				if later := testkit.Peek(t, l, "k"); bans(later) != c.bans {
					t.Errorf("afterwards: got %+v, want a ban: %t", later, c.bans)
				}
			})
		})
	}
}

// Names and times of bans are checked.
func TestRule_BlockFor_invalid(t *testing.T) {
	r := core.SlidingLog("r", core.PerMinute(2))
	long := core.SlidingLog(fmt.Sprintf("%061d", 0), core.PerMinute(2)).BlockFor(time.Minute)
	longPlan := core.SlidingLog(long.Name(), core.Unlimited).Plan("gold", core.PerMinute(2)).BlockFor(time.Minute)
	rule := func(i int) core.Rule { return core.SlidingLog(fmt.Sprint("n", i), core.PerMinute(2)) }
	tooMany := `weir: rule "n0": rules and bans are 130 in one limiter, more than 128`
	for _, c := range []struct {
		want  string
		rules []core.Rule
	}{
		{`weir: rule "r": block for is 0s, outside 1s to 366 days`, []core.Rule{r.BlockFor(0)}},
		{`weir: rule "r": block for is 0s, outside 1s to 366 days`, []core.Rule{r.BlockFor(-time.Minute)}},
		{`weir: rule "r": block for is 999.999999ms, outside 1s to 366 days`, []core.Rule{r.BlockFor(time.Second - 1)}},
		{`weir: rule "r": block for is 8784h0m0.000000001s, outside 1s to 366 days`, []core.Rule{r.BlockFor(366*24*time.Hour + 1)}},
		{`weir: rule "p": block for has no meaning for in_flight`, []core.Rule{core.InFlight("p", 1).BlockFor(time.Minute)}},
		{`weir: rule "p": block for has no meaning for pause`, []core.Rule{core.Pause("p").BlockFor(time.Minute)}},
		{`weir: rule "r.ban": name is given to two rules of one limiter`, []core.Rule{r.BlockFor(time.Minute), core.Pause("r.ban")}},
		{`weir: rule "r": name is given to two rules of one limiter`, []core.Rule{core.Pause("r.ban"), r.BlockFor(time.Minute)}},
		{`weir: rule "` + long.Name() + `.ban": name is 65 bytes long, more than 64`, []core.Rule{long}},
		{`weir: rule "` + long.Name() + `.ban": name is 65 bytes long, more than 64`, []core.Rule{longPlan}},
		{tooMany, several(65, func(i int) core.Rule { return rule(i).BlockFor(time.Minute) })},
		{tooMany, several(65, func(i int) core.Rule {
			return core.SlidingLog(fmt.Sprint("n", i), core.Unlimited).Plan("gold", core.PerMinute(2)).BlockFor(time.Minute)
		})},
	} {
		if _, err := core.New(memstore.New(), c.rules...); !errors.Is(err, core.ErrInvalidRule) || err.Error() != c.want {
			t.Errorf("got the error %v, want %s", err, c.want)
		}
	}
	testkit.Limiter(t, memstore.New(), several(64, func(i int) core.Rule { return rule(i).BlockFor(time.Minute) })...)
	testkit.Limiter(t, memstore.New(), several(128, func(i int) core.Rule { return rule(i).BlockFor(time.Minute).Shadow() })...)
}

// several returns n rules.
func several(n int, rule func(i int) core.Rule) []core.Rule {
	all := make([]core.Rule, n)
	for i := range all {
		all[i] = rule(i)
	}
	return all
}

// Bans of a Variant count as rules of the limiter, and their names are no names of rules.
func TestRule_BlockFor_Variant(t *testing.T) {
	rule := func(i int) core.Rule { return core.SlidingLog(fmt.Sprint("n", i), core.PerMinute(2)) }
	pause := func(name string) func(i int) core.Rule {
		return func(i int) core.Rule {
			if i == 1 {
				return core.Pause(name)
			}
			return rule(i)
		}
	}
	for name, c := range map[string]struct {
		base    []core.Rule
		variant core.Rule
		want    string // "" if there is no error
	}{
		"a ban":              {several(127, rule), rule(0).BlockFor(banTime), ""},
		"of a shadow":        {several(128, rule), rule(0).BlockFor(banTime).Shadow(), ""},
		"too many":           {several(128, rule), rule(0).BlockFor(banTime), `weir: rule "n0": rules and bans are 129 in one limiter, more than 128`},
		"one less":           {append(several(126, rule), rule(126).BlockFor(banTime)), rule(126), ""},
		"the name of a rule": {several(2, pause("n0.ban")), rule(0).BlockFor(banTime), `weir: rule "n0": name is given to two rules of one limiter`},
		"another name":       {several(2, pause("n2.ban")), rule(0).BlockFor(banTime), ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := testkit.Limiter(t, memstore.New(), c.base...)
			v, err := l.Variant(c.variant)
			if c.want != "" {
				if !errors.Is(err, core.ErrInvalidRule) || err.Error() != c.want {
					t.Errorf("got the error %v, want %s", err, c.want)
				}
				return
			}
			testkit.Must(t, err)
			testkit.Admit(t, v, "k", 2)
			if d := testkit.Allow(t, v, "k"); d.Allowed || bans(d) != (c.variant.Spec().BlockFor > 0 && !c.variant.IsShadow()) {
				t.Errorf("got %+v", d)
			}
		})
	}
	l := testkit.Limiter(t, memstore.New(), several(2, rule)...)
	v, err := l.Variant(rule(0).BlockFor(banTime))
	testkit.Must(t, err)
	testkit.Must(t, l.Replace(several(128, rule)...))
	if d, err := v.Allow(t.Context(), "k"); !errors.Is(err, core.ErrInvalidAsk) {
		t.Errorf("after Replace: got %+v, %v, want an ErrInvalidAsk", d, err)
	}
	testkit.Must(t, l.Replace(rule(0), core.Pause("n0.ban")))
	testkit.Admit(t, v, "another", 2)
	if d := testkit.Allow(t, v, "another"); d.State(0).Ban != banTime {
		t.Errorf("with a pause of the name of the ban: got %+v, want a ban", d)
	}
	testkit.Must(t, l.Replace(several(127, rule)...))
	testkit.Admit(t, v, "k", 2)
	if d := testkit.Allow(t, v, "k"); d.State(0).Ban != banTime {
		t.Errorf("after the next Replace: got %+v, want a ban", d)
	}
}
