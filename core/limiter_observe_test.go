package core_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// An observer counts observations by their text.
type observer struct {
	core.Store
	log    strings.Builder
	mu     sync.Mutex
	counts map[string]int
}

func newObserver(s core.Store) *observer { return &observer{Store: s, counts: make(map[string]int)} }

func (o *observer) add(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[text]++
}

func (o *observer) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(&o.log, nil)) }

func (o *observer) Counter(rule, plan string) func(driver.Observation) {
	return func(n driver.Observation) {
		text := rule + "/" + plan + " " + n.Key + " " + n.Result.String()
		if n.Decision != 0 {
			text += " = " + n.Decision.String()
		}
		o.add(text)
	}
}

func (o *observer) Ask(peek bool) {
	if peek {
		o.add("peek")
	} else {
		o.add("attempt")
	}
}

func TestObserver(t *testing.T) {
	type counts = map[string]int
	hour := func(name string, n int) core.Rule { return core.SlidingLog(name, core.PerHour(n)) }
	for _, c := range []struct {
		name  string
		rules []core.Rule
		do    func(l *core.Limiter)
		want  counts
	}{
		{"allowed, then denied", []core.Rule{hour("api", 1)},
			func(l *core.Limiter) { testkit.Allow(t, l, "k"); testkit.Allow(t, l, "k") },
			counts{"api/ k allowed = allowed": 1, "api/ k denied = denied": 1}},
		{"above the capacity", []core.Rule{hour("api", 1)},
			func(l *core.Limiter) { testkit.Ask(t, l, "k", 2) },
			counts{"api/ k never = never": 1}},
		{"soft", []core.Rule{hour("api", 1).Soft(100)},
			func(l *core.Limiter) { testkit.Ask(t, l, "k", 2) },
			counts{"api/ k soft = soft": 1}},
		{"shadow", []core.Rule{hour("api", 1).Shadow()},
			func(l *core.Limiter) { testkit.Ask(t, l, "k", 2) },
			counts{"api/ k shadow_denied = allowed": 1}},
		{"shadow beside an enforced rule", []core.Rule{hour("trial", 1).Shadow(), hour("api", 1)},
			func(l *core.Limiter) { testkit.Allow(t, l, "k"); testkit.Allow(t, l, "k") },
			counts{"trial/ k allowed": 1, "api/ k allowed = allowed": 1, "trial/ k shadow_denied": 1, "api/ k denied = denied": 1}},
		{"the longest RetryAfter determines a denial", []core.Rule{core.SlidingLog("minute", core.PerMinute(1)), hour("hour", 1), hour("wide", 9)},
			func(l *core.Limiter) { testkit.Allow(t, l, "k"); testkit.Allow(t, l, "k") },
			counts{
				"minute/ k allowed = allowed": 1, "hour/ k allowed": 1, "wide/ k allowed": 2,
				"minute/ k denied": 1, "hour/ k denied = denied": 1,
			}},
		{"soft beside a rule within its limit", []core.Rule{hour("wide", 9), hour("api", 1).Soft(100)},
			func(l *core.Limiter) { testkit.Ask(t, l, "k", 2) },
			counts{"wide/ k allowed": 1, "api/ k soft = soft": 1}},
		{"blocked and unlimited", []core.Rule{
			core.SlidingLog("first", core.Unlimited).Plan("bad", core.Blocked), hour("second", 9)},
			func(l *core.Limiter) { testkit.Allow(t, l, "k"); testkit.Allow(t, l.Plan("bad"), "k") },
			counts{"first/ k allowed = allowed": 1, "second/ k allowed": 1, "first/bad k blocked = blocked": 1, "second/ k unknown": 1}},
		{"plans", []core.Rule{hour("api", 5).Plan("pro", core.PerHour(9))},
			func(l *core.Limiter) { testkit.Allow(t, l.Plan("pro"), "k"); testkit.Allow(t, l.Plan("none"), "k") },
			counts{"api/pro k allowed = allowed": 1, "api/unknown k allowed = allowed": 1}},
		{"peeks", []core.Rule{hour("api", 1)},
			func(l *core.Limiter) { testkit.Peek(t, l, "k"); testkit.Ask(t, l, "k", 0) },
			counts{"peek": 2}},
		{"a peek beside a charge", []core.Rule{hour("api", 1)},
			func(l *core.Limiter) {
				if _, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: "a", Peek: true}, core.Ask{Limiter: l, Key: "b"}); err != nil {
					t.Error(err)
				}
			},
			counts{"api/ a allowed = allowed": 1, "api/ b allowed": 1}},
		{"reservations", []core.Rule{hour("api", 1)},
			func(l *core.Limiter) { testkit.Must(t, testkit.Reserve(t, l, "k", 1).Settle(t.Context(), 5)) },
			counts{"api/ k allowed = allowed": 1}},
		{"invalid arguments", []core.Rule{hour("api", 1)},
			func(l *core.Limiter) {
				if _, err := l.Allow(t.Context(), ""); !errors.Is(err, core.ErrEmptyKey) {
					t.Error(err)
				}
				if _, err := core.AllowTogether(t.Context()); !errors.Is(err, core.ErrInvalidAsk) {
					t.Error(err)
				}
			},
			counts{}},
		{"a context that has ended", []core.Rule{hour("api", 1), hour("other", 1)},
			func(l *core.Limiter) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if _, err := l.Allow(ctx, "k"); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			},
			counts{"api/ k canceled = canceled": 1, "other/ k canceled": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newObserver(memstore.New())
			c.do(testkit.Limiter(t, o, c.rules...))
			if !maps.Equal(o.counts, c.want) {
				t.Errorf("got %v, want %v", o.counts, c.want)
			}
		})
	}
}

// The failed attempts of a Wait are not decisions.
func TestObserver_Wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObserver(memstore.New())
		l := testkit.Limiter(t, o, core.TokenBucket("api", core.PerSecond(1)))
		for range 3 {
			testkit.Must(t, l.Wait(t.Context(), "k"))
		}
		if want := (map[string]int{"api/ k allowed = allowed": 3, "attempt": 2}); !maps.Equal(o.counts, want) {
			t.Errorf("got %v, want %v", o.counts, want)
		}
	})
}

// An error of the Store is counted for each rule, and as one decision.
func TestObserver_Errors(t *testing.T) {
	o := newObserver(failing{})
	l := testkit.Limiter(t, o, core.SlidingLog("a", core.PerHour(1)), core.SlidingLog("b", core.PerHour(1)))
	for _, ask := range []func() error{
		func() error { _, err := l.Allow(t.Context(), "k"); return err },
		func() error { _, err := l.Reserve(t.Context(), "k", 1); return err },
	} {
		if err := ask(); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("got %v, want core.ErrUnavailable", err)
		}
	}
	if want := (map[string]int{"a/ k error = error": 2, "b/ k error": 2}); !maps.Equal(o.counts, want) {
		t.Errorf("got %v, want %v", o.counts, want)
	}
}

type failing struct{}

func (failing) Take(context.Context, []driver.Charge) error   { return core.ErrUnavailable }
func (failing) Adjust(context.Context, []driver.Charge) error { return core.ErrUnavailable }

// A Rule of limiters on several Stores is counted by the Observer of each.
func TestObserver_SharedRule(t *testing.T) {
	rule := core.SlidingLog("api", core.PerHour(9))
	first, second := newObserver(memstore.New()), newObserver(memstore.New())
	limiters := []*core.Limiter{testkit.Limiter(t, first, rule), testkit.Limiter(t, second, rule)}
	for range 3 {
		for _, l := range limiters {
			testkit.Allow(t, l, "k")
		}
	}
	for i, o := range []*observer{first, second} {
		if want := (map[string]int{"api/ k allowed = allowed": 3}); !maps.Equal(o.counts, want) {
			t.Errorf("observer %d: got %v, want %v", i, o.counts, want)
		}
	}
}

// The warning about an unknown plan goes to the log of the Observer.
func TestObserver_Logger(t *testing.T) {
	o := newObserver(memstore.New())
	l := testkit.Limiter(t, o, core.SlidingLog("api", core.PerHour(9)).Plan("pro", core.PerHour(10)))
	testkit.Allow(t, l.Plan("por"), "k")
	if !strings.Contains(o.log.String(), `plan=por`) {
		t.Errorf("got %q, want a warning about the plan", o.log.String())
	}
}
