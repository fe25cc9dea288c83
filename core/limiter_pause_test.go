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
	"github.com/weir-go/weir/internal/testkit"
)

const longestPause = 366 * 24 * time.Hour

// pause pauses key of l for d.
func pause(t *testing.T, l *core.Limiter, key string, d time.Duration) {
	t.Helper()
	testkit.Must(t, l.Pause(t.Context(), key, d))
}

// paused fails unless every ask about key of l is denied for exactly d, or admitted if d is zero.
func paused(t *testing.T, l *core.Limiter, key string, d time.Duration) {
	t.Helper()
	for _, cost := range []int{0, 1, math.MaxInt} {
		got := testkit.Ask(t, l, key, cost)
		s, found := got.StateOf("pause")
		if !found || got.Allowed != (d == 0) || s.Allowed != (d == 0) || got.RetryAfter != d || s.RetryAfter != d || s.ResetAfter != d || s.Window != d {
			t.Fatalf("cost %d: got %v, %+v, want a pause of %v", cost, got, s, d)
		}
		limit, remaining := core.Unlimited, math.MaxInt
		if d > 0 {
			limit, remaining = core.Blocked, 0
		}
		if s.Limit() != limit || s.Remaining != remaining || s.Used() != 0 || got.Blocked() {
			t.Fatalf("cost %d: got the limit %v and %d remaining, want %v and %d", cost, s.Limit(), s.Remaining, limit, remaining)
		}
	}
}

// The pause that ends last holds, and a pause of zero ends all of them.
func TestPause(t *testing.T) {
	type step struct {
		at    time.Duration // since the beginning
		pause time.Duration // -1 is none
		want  time.Duration // the time for which the key is paused then
	}
	const none = time.Duration(-1)
	for name, steps := range map[string][]step{
		"none":              {{0, none, 0}, {time.Hour, none, 0}},
		"one":               {{0, 3 * time.Second, 3 * time.Second}, {3*time.Second - time.Microsecond, none, time.Microsecond}, {3 * time.Second, none, 0}},
		"a shorter one":     {{0, 3 * time.Second, 3 * time.Second}, {time.Second, time.Second, 2 * time.Second}, {3 * time.Second, none, 0}},
		"a longer one":      {{0, time.Second, time.Second}, {0, 3 * time.Second, 3 * time.Second}, {2 * time.Second, none, time.Second}},
		"the same again":    {{0, time.Second, time.Second}, {time.Second / 2, time.Second, time.Second}, {3 * time.Second / 2, none, 0}},
		"one after another": {{0, time.Second, time.Second}, {5 * time.Second, time.Second, time.Second}},
		"an end":            {{0, time.Hour, time.Hour}, {time.Second, 0, 0}, {time.Second, time.Minute, time.Minute}, {time.Second, 0, 0}},
		"an end of none":    {{0, 0, 0}, {0, time.Second, time.Second}},
		"nanoseconds":       {{0, time.Microsecond + time.Nanosecond, 2 * time.Microsecond}, {2 * time.Microsecond, 1, time.Microsecond}},
		"366 days":          {{0, longestPause, longestPause}, {longestPause - 1000, none, time.Microsecond}, {longestPause, none, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), core.Pause("pause"))
				begin := time.Now()
				for _, s := range steps {
					if time.Sleep(time.Until(begin.Add(s.at))); s.pause != none {
						pause(t, l, "k", s.pause)
					}
					paused(t, l, "k", s.want)
					paused(t, l, "other", 0)
				}
			})
		})
	}
}

// A denial by a pause charges no other rule and takes no place, and the end of a pause changes nothing else.
func TestPause_OtherRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rules []core.Rule
		for _, a := range testkit.Algorithms {
			rules = append(rules, a.Rule(a.Name, core.PerHour(10)))
		}
		rules = append(rules, core.Pause("pause"), core.InFlight("places", 3), core.Quota("quota", core.Monthly(10)))
		l := testkit.Limiter(t, memstore.New(), rules...)
		used := func(want int) {
			t.Helper()
			for i, n := range testkit.Used(t, l, "k") {
				if name := rules[i].Name(); name != "pause" && n != want {
					t.Errorf("%s: %d are used, want %d", name, n, want)
				}
			}
		}
		first := testkit.Reserve(t, l, "k", 1)
		used(1)
		pause(t, l, "k", time.Second)
		for range 20 {
			if r := testkit.Reserve(t, l, "k", 1); r.Decision().Allowed || r.Decision().RetryAfter != time.Second || r.Cost() != 0 || r.Lost() != nil {
				t.Fatalf("got %v, cost %d", r.Decision(), r.Cost())
			}
		}
		used(1)
		pause(t, l, "k", 0)
		used(1)
		pause(t, l, "k", time.Second)
		testkit.Must(t, first.Settle(t.Context(), 4)) // of an event from before
		for i, n := range testkit.Used(t, l, "k") {
			want := map[string]int{"pause": 0, "places": 1}
			if w, ok := want[rules[i].Name()]; n != w && (ok || n != 4) {
				t.Errorf("%s, settled: %d are used", rules[i].Name(), n)
			}
		}
		testkit.Must(t, first.Refund(t.Context()))
		used(0)
		if found, err := l.Reset(t.Context(), "k"); err != nil || !found {
			t.Errorf("a Reset: got %t, %v, want the pause found", found, err)
		}
		if d := testkit.Peek(t, l, "k"); !d.Allowed {
			t.Errorf("after a Reset: got %v", d)
		}
	})
}

// A cost is charged to the other rules as without a pause, and changes no pause.
func TestPause_Costs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.Pause("pause"), core.SlidingLog("log", core.PerHour(10)))
		used := func(want int) {
			t.Helper()
			if n := testkit.Used(t, l, "k")[1]; n != want {
				t.Errorf("%d are used, want %d", n, want)
			}
		}
		r, err := l.ReserveAtMost(t.Context(), "k", 20)
		if testkit.Must(t, err); r.Cost() != 10 {
			t.Errorf("at most 20 of 10: got %d", r.Cost())
		}
		testkit.Must(t, r.Settle(t.Context(), 2))
		used(2)
		testkit.Must(t, l.Debit(t.Context(), "k", 5))
		testkit.Must(t, l.Credit(t.Context(), "k", 3))
		used(4)
		d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: "k", Cost: 2}, core.Ask{Limiter: l, Key: "k"})
		if testkit.Must(t, err); !d.Allowed {
			t.Errorf("two asks with one pause: got %v", d)
		}
		used(7)
		pause(t, l, "k", time.Minute)
		testkit.Must(t, l.Debit(t.Context(), "k", math.MaxInt))
		testkit.Must(t, l.Credit(t.Context(), "k", math.MaxInt))
		if r, err = l.ReserveAtMost(t.Context(), "k", 20); err != nil || r.Decision().Allowed || r.Cost() != 0 {
			t.Errorf("at most 20 of a paused key: got %d, %v", r.Cost(), err)
		}
		if d := testkit.Peek(t, l, "k"); d.RetryAfter != time.Minute {
			t.Errorf("after a Debit and a Credit: got %v", d)
		}
		only := testkit.Limiter(t, memstore.New(), core.Pause("pause"))
		testkit.Must(t, only.WaitN(t.Context(), "k", math.MaxInt))
		if r, err = only.ReserveAtMost(t.Context(), "k", math.MaxInt); err != nil || r.Cost() != math.MaxInt {
			t.Errorf("at most MaxInt without another rule: got %d, %v", r.Cost(), err)
		}
	})
}

// Wait waits for the end of a pause, whoever changes it meanwhile.
func TestPause_Wait(t *testing.T) {
	for name, c := range map[string]struct {
		then func(t *testing.T, l, other *core.Limiter) // a second later
		want time.Duration
	}{
		"nothing":                   {func(*testing.T, *core.Limiter, *core.Limiter) {}, 10 * time.Second},
		"a longer pause":            {func(t *testing.T, l, _ *core.Limiter) { pause(t, l, "k", time.Hour) }, time.Hour + time.Second},
		"a shorter pause":           {func(t *testing.T, l, _ *core.Limiter) { pause(t, l, "k", time.Second) }, 10 * time.Second},
		"an end":                    {func(t *testing.T, l, _ *core.Limiter) { pause(t, l, "k", 0) }, time.Second},
		"an end by another process": {func(t *testing.T, _, other *core.Limiter) { pause(t, other, "k", 0) }, 2 * time.Second},
		"a pause of another key":    {func(t *testing.T, l, _ *core.Limiter) { pause(t, l, "other", time.Hour) }, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				rules := []core.Rule{core.Pause("pause"), core.TokenBucket("rate", core.PerSecond(1000)), core.InFlight("places", 100)}
				l, other := testkit.Limiter(t, s, rules...), testkit.Limiter(t, s, rules...)
				begin := time.Now()
				pause(t, l, "k", 10*time.Second)
				admitted := make(chan time.Duration, 3)
				for range cap(admitted) {
					go func() {
						_, err := l.Acquire(t.Context(), "k")
						if err != nil {
							t.Error(err)
						}
						admitted <- time.Since(begin)
					}()
				}
				time.Sleep(time.Second)
				synctest.Wait()
				c.then(t, l, other)
				for range cap(admitted) {
					if got := <-admitted; got < c.want || got > c.want+c.want/20 {
						t.Errorf("a caller was admitted after %v, want %v", got, c.want)
					}
				}
			})
		})
	}
}

// A caller that a queue has delayed does not come back in a pause that has begun meanwhile, and has a turn after it.
func TestPause_Wait_Delayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		begin := time.Now()
		returned := make(chan time.Duration, 5)
		for range cap(returned) { // processes
			l := testkit.Limiter(t, s, core.Pause("pause"), core.LeakyBucket("queue", core.PerSecond(5)))
			go func() {
				if err := l.Wait(t.Context(), "k"); err != nil {
					t.Error(err)
				}
				returned <- time.Since(begin)
			}()
		}
		time.Sleep(50 * time.Millisecond)
		const until = 3050 * time.Millisecond
		pause(t, testkit.Limiter(t, s, core.Pause("pause")), "k", until-50*time.Millisecond)
		var last time.Duration
		for i := range cap(returned) {
			got := <-returned
			if i == 0 {
				if got != 0 {
					t.Errorf("the first caller came back after %v", got)
				}
				continue
			}
			if got < until || got-last < 200*time.Millisecond || got > until+2*time.Second {
				t.Errorf("caller %d came back after %v, and the one before after %v", i, got, last)
			}
			last = got
		}
	})
}

// A wait that cannot end in time fails at once.
func TestPause_Wait_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.Pause("pause"))
		pause(t, l, "k", time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		begin := time.Now()
		if err := l.Wait(ctx, "k"); !errors.Is(err, core.ErrDeadlineTooNear) || time.Since(begin) != 0 {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

func TestLimiter_Pause_Errors(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l := testkit.Limiter(t, memstore.New(), core.Pause("pause"))
	for name, c := range map[string]struct {
		ctx  context.Context
		l    *core.Limiter
		key  string
		d    time.Duration
		want error
	}{
		"a negative length":      {t.Context(), l, "k", -1, core.ErrInvalidAsk},
		"more than 366 days":     {t.Context(), l, "k", longestPause + 1, core.ErrInvalidAsk},
		"Never":                  {t.Context(), l, "k", core.Never, core.ErrInvalidAsk},
		"no Pause":               {t.Context(), testkit.Limiter(t, memstore.New(), core.InFlight("r", 3)), "k", time.Second, core.ErrInvalidAsk},
		"no key":                 {t.Context(), l, "", time.Second, core.ErrEmptyKey},
		"no key, to end a pause": {t.Context(), l, "", 0, core.ErrEmptyKey},
		"the end of the context": {ended, l, "k", time.Second, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.l.Pause(c.ctx, c.key, c.d); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if d := testkit.Peek(t, l, "k"); !d.Allowed {
				t.Errorf("the key is paused: %v", d)
			}
		})
	}
}

// Views of a limiter, and limiters with a Pause of the same name, have its pauses.
func TestPause_Views(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		base := testkit.Limiter(t, s, core.Pause("pause"), core.TokenBucket("r", core.PerHour(5)).Plan("pro", core.PerHour(9)))
		variant, err := base.Variant(core.Pause("pause").Shadow())
		testkit.Must(t, err)
		unlimited, err := base.Variant(core.TokenBucket("r", core.Unlimited))
		testkit.Must(t, err)
		fails := errors.New("the function of Choose fails")
		views := map[string]*core.Limiter{
			"base": base, "plan": base.Plan("pro"), "variant": variant, "unlimited": unlimited,
			"another limiter": testkit.Limiter(t, s, core.Pause("pause")),
			"choice":          base.Choose(func(context.Context, string) (*core.Limiter, error) { return unlimited, nil }),
			"failing choice":  base.Choose(func(context.Context, string) (*core.Limiter, error) { return nil, fails }),
		}
		for by, l := range views {
			pause(t, l, "k", time.Minute)
			for name, l := range views {
				d, err := l.Peek(t.Context(), "k")
				switch {
				case name == "failing choice":
					if !errors.Is(err, fails) {
						t.Errorf("%s: %v", name, err)
					}
				case name == "variant": // which reports the pause, and does not enforce it
					if s, _ := d.StateOf("pause"); err != nil || !d.Allowed || s.Allowed || s.RetryAfter != time.Minute {
						t.Errorf("paused by %s, %s: got %v, %+v, %v", by, name, d, s, err)
					}
				case err != nil || d.Allowed || d.RetryAfter != time.Minute:
					t.Errorf("paused by %s, %s: got %v, %v", by, name, d, err)
				}
			}
			pause(t, l, "k", 0)
			if d := testkit.Peek(t, base, "k"); !d.Allowed {
				t.Errorf("%s has not ended the pause: %v", by, d)
			}
		}
		pause(t, base, "k", time.Minute)
		d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: base, Key: "k"}, core.Ask{Limiter: views["another limiter"], Key: "k"})
		testkit.Must(t, err)
		for _, s := range []core.State{d.State(0), d.State(2)} {
			if s.Allowed || s.Limit() != core.Blocked || s.RetryAfter != time.Minute {
				t.Errorf("two asks with pauses of one name: got %+v", s)
			}
		}
		testkit.Must(t, base.Replace(core.FixedWindow("other", core.PerHour(5)), core.Pause("pause")))
		if d := testkit.Peek(t, base, "k"); d.RetryAfter != time.Minute {
			t.Errorf("after Replace: got %v", d)
		}
	})
}

// New reports a second Pause, and whatever has no meaning for a Pause.
func TestPause_Invalid(t *testing.T) {
	p := core.Pause("p")
	with := func(change func(*core.Spec)) core.Rule {
		s := core.Spec{Name: "p", Algorithm: core.AlgorithmPause}
		change(&s)
		return core.NewRule(s)
	}
	for field, rules := range map[string][]core.Rule{
		"algorithm":   {p, core.Pause("q")},
		"plan":        {p.Plan("a", core.Unlimited)},
		"headroom":    {with(func(s *core.Spec) { s.Plans = []core.Plan{{Name: "a", Limit: core.Blocked, Headroom: 5}} })},
		"soft":        {p.Soft(5)},
		"elastic":     {p.Elastic(idle, 2)},
		"from first":  {p.FromFirst()},
		"sub-windows": {p.SubWindows(5)},
		"hold":        {p.Hold(time.Minute)},
		"max hold":    {p.MaxHold(time.Minute)},
		"location":    {p.In(time.UTC)},
		"limit":       {with(func(s *core.Spec) { s.Limit = core.PerHour(5) })},
		"limit ":      {with(func(s *core.Spec) { s.Limit = core.Limit{Burst: 5} })},
		"limit  ":     {with(func(s *core.Spec) { s.Limit = core.Daily(5) })},
	} {
		t.Run(field, func(t *testing.T) {
			_, err := core.New(memstore.New(), rules...)
			want := map[string]string{"headroom": "plan", "limit ": "limit", "limit  ": "limit"}[field]
			if want == "" {
				want = field
			}
			if of := new(core.RuleError); !errors.As(err, &of) || of.Field != want {
				t.Errorf("got %v, want an error of the field %q", err, want)
			}
		})
	}
}

// A Pause with the limit Blocked, as an override has it, denies for ever, and Divide changes no Pause.
func TestPause_Limits(t *testing.T) {
	p := core.Pause("pause")
	if got := p.Divide(5); got.String() != p.String() {
		t.Errorf("a fifth of a Pause: got %v", got)
	}
	for _, r := range []core.Rule{p, core.NewRule(p.Spec()), core.NewRule(core.Spec{Name: "pause", Algorithm: core.AlgorithmPause})} {
		if got := r.String(); got != `pause "pause"` || r.Limit() != core.Unlimited || r.Capacity() != math.MaxInt {
			t.Errorf("got %s, the limit %v", got, r.Limit())
		}
	}
	s := p.Spec()
	s.Limit = core.Blocked
	l := testkit.Limiter(t, memstore.New(), core.NewRule(s))
	if err := l.Pause(t.Context(), "k", time.Second); !errors.Is(err, core.ErrInvalidAsk) {
		t.Errorf("a blocked Pause: got %v", err)
	}
	if d := testkit.Peek(t, l, "k"); d.Allowed || d.RetryAfter != core.Never || l.Rules()[0].String() != `pause "pause" blocked` {
		t.Errorf("a blocked Pause: got %v of %v", d, l.Rules()[0])
	}
}
