package core_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
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
	if err != nil {
		t.Fatal(err)
	}
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
