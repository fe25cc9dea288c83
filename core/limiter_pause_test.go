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
