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

// Names and times of bans are checked.
func TestRule_BlockFor_invalid(t *testing.T) {
	r := core.SlidingLog("r", core.PerMinute(2))
	long := core.SlidingLog(fmt.Sprintf("%061d", 0), core.PerMinute(2)).BlockFor(time.Minute)
	for want, rules := range map[string][]core.Rule{
		`weir: rule "r": block for is -1ns, outside 1s to 366 days`:                 {r.BlockFor(0)},
		`weir: rule "r": block for is 999.999999ms, outside 1s to 366 days`:         {r.BlockFor(time.Second - 1)},
		`weir: rule "r": block for is 8784h0m0.000000001s, outside 1s to 366 days`:  {r.BlockFor(366*24*time.Hour + 1)},
		`weir: rule "p": block for has no meaning for in_flight`:                    {core.InFlight("p", 1).BlockFor(time.Minute)},
		`weir: rule "p": block for has no meaning for pause`:                        {core.Pause("p").BlockFor(time.Minute)},
		`weir: rule "r.ban": name is given to two rules of one limiter`:             {r.BlockFor(time.Minute), core.Pause("r.ban")},
		`weir: rule "` + long.Name() + `.ban": name is 65 bytes long, more than 64`: {long},
	} {
		if _, err := core.New(memstore.New(), rules...); err == nil || err.Error() != want {
			t.Errorf("got the error %v, want %s", err, want)
		}
	}
}
