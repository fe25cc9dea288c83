package core_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
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
