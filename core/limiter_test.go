package core_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"strconv"
	"strings"
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

// idle is the signal of a resource that is wholly free.
func idle() float64 { return 1 }

// The faults of a limit are those of driver.Definition.Compile, and tested there.
func TestNew_InvalidRules(t *testing.T) {
	good := core.PerSecond(1)
	type row struct {
		rule  core.Rule
		field string
	}
	rows := map[string]row{
		"the zero rule":            {core.Rule{}, "algorithm"},
		"the zero rule, modified":  {core.Rule{}.Soft(5), "algorithm"},
		"a zero limit":             {core.TokenBucket("r", core.Limit{}), "limit"},
		"no name":                  {core.TokenBucket("", good).Shadow(), "name"},
		"no sub-windows":           {core.SlidingWindow("r", good).SubWindows(0), "sub-windows"},
		"no sub-windows, a bucket": {core.TokenBucket("r", good).SubWindows(0), "sub-windows"},
		"elastic without a signal": {core.SlidingLog("r", good).Elastic(nil, 2), "elastic"},
		"elastic that shrinks":     {core.SlidingLog("r", good).Elastic(idle, 0.5), "elastic"},
		"elastic above 1000":       {core.SlidingLog("r", good).Elastic(idle, 1001), "elastic"},
		"elastic to no number":     {core.SlidingLog("r", good).Elastic(idle, math.NaN()), "elastic"},
	}
	if strconv.IntSize == 64 {
		events := int64(1) << 47
		rows["elastic beyond counting"] = row{core.SlidingLog("r", core.PerSecond(int(events))).Elastic(idle, 3), "elastic"}
	}
	for name, c := range rows {
		l, err := core.New(memstore.New(), c.rule)
		var ruleErr *core.RuleError
		if l != nil || !errors.Is(err, core.ErrInvalidRule) || !errors.As(err, &ruleErr) || ruleErr.Field != c.field {
			t.Errorf("%s: got %v, %v, want a RuleError of the field %q", name, l, err, c.field)
		}
	}
	if _, err := core.New(memstore.New()); !errors.Is(err, core.ErrInvalidRule) {
		t.Errorf("no rules: got %v, want ErrInvalidRule", err)
	}
	if _, err := core.New(memstore.New(), core.TokenBucket("r", good), core.SlidingLog("r", good)); !errors.Is(err, core.ErrInvalidRule) {
		t.Errorf("one name twice: got %v, want ErrInvalidRule", err)
	}
	var none *memstore.Store
	for _, s := range []core.Store{nil, none, struct {
		core.Store
		incomparable func()
	}{}} {
		if _, err := core.New(s, core.TokenBucket("r", good)); !errors.Is(err, core.ErrNoStore) {
			t.Errorf("store %T: got %v, want ErrNoStore", s, err)
		}
	}
}

func TestDecision_Zero(t *testing.T) {
	var d core.Decision
	if d.Allowed || d.Len() != 0 {
		t.Errorf("got %+v, want a denial without States", d)
	}
	for range d.States() {
		t.Error("got a State, want none")
	}
}

func TestLimiter_Allow_LongestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.TokenBucket("second", core.PerSecond(1)), core.SlidingLog("hour", core.PerHour(2)))
		for range 2 {
			testkit.Admit(t, l, "k", 1)
			time.Sleep(time.Second)
		}
		d := testkit.Allow(t, l, "k")
		if want := time.Hour - 2*time.Second; d.Allowed || d.RetryAfter != want {
			t.Errorf("got a RetryAfter of %v, want %v", d.RetryAfter, want)
		}
		if !d.State(0).Allowed || d.State(0).Remaining != 1 || d.State(1).Allowed {
			t.Errorf("got the States %+v", d)
		}
		time.Sleep(d.RetryAfter)
		testkit.Admit(t, l, "k", 1)
	})
}

func TestDecision_States_InOrderOfAsks(t *testing.T) {
	s := memstore.New()
	a := core.Must(core.New(s, core.TokenBucket("a1", core.PerSecond(1)), core.TokenBucket("a2", core.PerSecond(2))))
	b := core.Must(core.New(s, core.TokenBucket("b1", core.PerSecond(3))))
	d, err := core.AllowTogether(context.Background(), core.Ask{Limiter: b, Key: "x", Cost: 1}, core.Ask{Limiter: a, Key: "y", Cost: 1})
	testkit.Must(t, err)
	var names []string
	for i, st := range d.States() {
		if st != d.State(i) {
			t.Errorf("State(%d): got %+v, want %+v", i, d.State(i), st)
		}
		names = append(names, st.Rule.Name())
	}
	if got := strings.Join(names, " "); got != "b1 a1 a2" {
		t.Errorf("got the States of %s, want b1 a1 a2", got)
	}
	if st, ok := d.StateOf("a2"); !ok || st != d.State(2) {
		t.Errorf("a2: got %+v, %v, want State 2", st, ok)
	}
	if _, ok := d.StateOf("a3"); ok {
		t.Error("a3: got a State, want none")
	}
}

func TestAllowTogether_InvalidAsks(t *testing.T) {
	ctx := context.Background()
	a := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(1))))
	b := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(1))))
	for name, c := range map[string]struct {
		asks []core.Ask
		want error
	}{
		"nothing":         {nil, core.ErrInvalidAsk},
		"no limiter":      {[]core.Ask{{Key: "k"}}, core.ErrInvalidAsk},
		"no 2nd limiter":  {[]core.Ask{{Limiter: a, Key: "k", Cost: 1}, {Key: "k"}}, core.ErrInvalidAsk},
		"negative delay":  {[]core.Ask{{Limiter: a, Key: "k", MaxDelay: -1}}, core.ErrInvalidAsk},
		"two stores":      {[]core.Ask{{Limiter: a, Key: "k", Cost: 1}, {Limiter: b, Key: "k", Cost: 1}}, core.ErrInvalidAsk},
		"a negative cost": {[]core.Ask{{Limiter: a, Key: "k", Cost: 1}, {Limiter: a, Key: "k2", Cost: -1}}, core.ErrNegativeCost},
	} {
		if d, err := core.AllowTogether(ctx, c.asks...); !errors.Is(err, c.want) || d.Allowed {
			t.Errorf("%s: got %+v, %v, want %v", name, d, err, c.want)
		}
	}
	if got := testkit.Left(t, a, "k"); got != 1 {
		t.Errorf("after calls that failed: got %d left, want 1", got)
	}
}

func TestAllowTogether_AskWithoutCost(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerHour(3))))
	for i := range 5 {
		d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: "k"})
		if err != nil || d.Allowed != (i < 3) {
			t.Errorf("event %d of a limit of 3: got %v, %v", i+1, d, err)
		}
	}
}

// The largest of the Peeks for the same rule and key counts, in any order. A Peek beside an Ask that
// charges does not count.
func TestAllowTogether_PeeksOfOneKey(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerHour(10))))
	peek := func(n int) core.Ask { return core.Ask{Limiter: l, Key: "k", Cost: n, Peek: true} }
	for _, c := range []struct {
		name string
		asks []core.Ask
		want bool
	}{
		{"5 and 10", []core.Ask{peek(5), peek(10)}, true},
		{"5 and 50", []core.Ask{peek(5), peek(50)}, false},
		{"50 and 5", []core.Ask{peek(50), peek(5)}, false},
		{"1 charged and 50", []core.Ask{{Limiter: l, Key: "k"}, peek(50)}, true},
		{"50 and 1 charged", []core.Ask{peek(50), {Limiter: l, Key: "k"}}, true},
	} {
		if d, err := core.AllowTogether(t.Context(), c.asks...); err != nil || d.Allowed != c.want {
			t.Errorf("%s: got %v, %v, want allowed %v", c.name, d, err, c.want)
		}
	}
	if got := testkit.Used(t, l, "k")[0]; got != 2 {
		t.Errorf("got %d events in use, want the 2 that were charged", got)
	}
}

func TestAllowTogether_SumAboveMaxInt(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(10))))
	ask := core.Ask{Limiter: l, Key: "k", Cost: math.MaxInt - 1}
	d, err := core.AllowTogether(context.Background(), ask, ask, ask)
	if err != nil || d.Allowed || d.RetryAfter != core.Never || d.Len() != 3 {
		t.Errorf("got %+v, %v, want a denial for ever with 3 States", d, err)
	}
}

func TestLimiter_Allow_StoreFails(t *testing.T) {
	broken := errors.New("broken")
	var store storetest.Fake
	store.Set(storetest.Lose(broken)) // with Verdicts, which are undefined
	l := core.Must(core.New(&store, core.TokenBucket("r", core.PerSecond(10))))
	d, err := l.Allow(t.Context(), "k")
	if !errors.Is(err, broken) || d.Allowed || d.Len() != 0 {
		t.Errorf("got %+v, %v, want the zero Decision and %v", d, err, broken)
	}
}

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
