package lease_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// withPlans returns a bucket and a window with three limits of one length. The smallest limit is not
// leased.
func withPlans(base core.Limit) []core.Rule {
	rules := bucketAndWindow(base)
	for i, r := range rules {
		pro, small := base, base
		pro.Events, small.Events = 4*base.Events, 100
		rules[i] = r.Plan("pro", pro).Plan("small", small)
	}
	return rules
}

// A recorder keeps the definitions that are declared on it.
type recorder struct {
	storetest.Fake
	declared []driver.Definition
}

func (r *recorder) Declare(changes ...driver.Change) error {
	r.declared = changes[0].New
	return nil
}

// plansOf returns the compiled rules of r and its plans, r itself first.
func plansOf(t testing.TB, r core.Rule) (all []*driver.Compiled) {
	t.Helper()
	var s recorder
	testkit.Limiter(t, &s, r)
	for _, d := range s.declared {
		c, err := d.Compile()
		testkit.Must(t, err)
		all = append(all, c)
	}
	return all
}

// Two plans in turn hold tokens of their own, and neither evicts those of the other.
func TestStore_Take_AlternatingPlans(t *testing.T) {
	bubbleEach(t, withPlans(core.PerDay(50_000)), func(x *fixture, rule core.Rule) {
		s := x.lease()
		base := x.limiter(s, rule)
		pro := base.Plan("pro")
		both := func(n int) {
			for range n {
				x.admit(base, 1)
				x.admit(pro, 1)
			}
		}
		both(1000)
		x.expect(1, 100, x.calls(func() { both(2000) }), "calls for 4000 events")
		synctest.Wait()
		if stats := s.Stats(); stats.Keys != 2 || stats.Held < 100 {
			x.Errorf("expected 2 accounts that hold tokens, got %+v", stats)
		}
	})
}

// A denial of one plan denies no other plan. Each plan of a window admits events until as many are
// counted as its limit has; an empty bucket is empty for every plan.
func TestStore_Take_DeniedPlan(t *testing.T) {
	bubbleEach(t, withPlans(core.PerDay(1000)), func(x *fixture, rule core.Rule) {
		base := x.limiter(x.lease(), rule)
		pro, small := base.Plan("pro"), base.Plan("small")
		x.expect(1000, 1000, x.drain(base), "events without a plan")
		want := 0
		if rule.Algorithm() == driver.FixedWindow {
			want = 3000
		}
		x.expect(0, 0, x.drain(small), "events of the small plan after them")
		x.expect(want, want, x.drain(pro), "events of the large plan after them")
		x.expect(0, 0, x.drain(base)+x.drain(pro), "events after them")
	})
}

// An Adjust through any plan reaches the accounts of every plan of its length, and no other account.
func TestStore_Adjust_Plans(t *testing.T) {
	for _, tt := range []struct {
		name      string
		op        driver.Op
		cost      int
		exhausted bool // before the Adjust
		held      bool // afterwards
	}{
		{"reset", driver.Reset, 1, false, false},
		{"debit", driver.Debit, 5_000_000, false, false},
		{"credit", driver.Credit, 5_000_000, true, true},
		{"undo", driver.Undo, 1_000_000, true, true},
	} {
		for plan, name := range []string{"base", "pro", "small"} {
			t.Run(tt.name+" by "+name, func(t *testing.T) {
				bubbleEach(t, withPlans(core.PerHour(50_000)), func(x *fixture, rule core.Rule) {
					s := x.lease()
					base, other := x.limiter(s, rule), core.TokenBucket("other", core.PerHour(50_000))
					pro := base.Plan("pro")
					x.hold(s, other)
					kept := s.Stats().Held
					x.admit(base, 200)
					x.admit(pro, 200)
					synctest.Wait()
					c := driver.Charge{Key: "k", Rule: plansOf(x, rule)[plan], Op: tt.op, Cost: tt.cost}
					if tt.exhausted {
						debit := c
						debit.Op, debit.Cost = driver.Debit, 1_000_000
						debits := []driver.Charge{debit}
						testkit.Must(x, x.memory.Adjust(x.Context(), debits))
						c.Receipt = debits[0].Receipt
						x.drain(pro)
						x.drain(base)
					} else if s.Stats().Held < kept+20 {
						x.Fatalf("expected tokens that are held, got %+v", s.Stats())
					}
					testkit.Must(x, s.Adjust(x.Context(), []driver.Charge{c}))
					if held := s.Stats().Held; !tt.exhausted && held != kept {
						x.Errorf("expected %d tokens that are held, got %d", kept, held)
					}
					for name, l := range map[string]*core.Limiter{"without a plan": base, "pro": pro} {
						if d := x.ask(l, 1); d.Allowed != (tt.op != driver.Debit) {
							x.Errorf("%s: got %+v", name, d.State(0))
						}
					}
				})
			})
		}
	}
}

// Another limit of a plan drops the tokens of that plan alone.
func TestStore_Take_ChangedPlan(t *testing.T) {
	bubbleEach(t, withPlans(core.PerHour(50_000)), func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		pro := l.Plan("pro")
		x.admit(pro, 300)
		synctest.Wait()
		kept := s.Stats().Held
		x.admit(l, 300)
		smaller := core.TokenBucket("bucket", core.PerHour(40_000))
		if rule.Algorithm() == driver.FixedWindow {
			smaller = core.FixedWindow("window", core.PerHour(40_000))
		}
		variant, err := l.Variant(smaller)
		testkit.Must(x, err)
		before := s.Stats().Held
		x.admit(variant, 1)
		synctest.Wait()
		if stats := s.Stats(); before <= kept || stats.Held != kept || stats.Keys != 2 {
			x.Errorf("expected %d tokens of 2 accounts, got %+v; before %d", kept, stats, before)
		}
		x.expect(0, 0, x.calls(func() { x.admit(pro, 1) }), "calls")
	})
}

// Accounts of several plans are evicted one by one.
func TestMaxKeys_Plans(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		rng, names := rand.New(rand.NewPCG(1, 1)), []string{"", "b", "c", "d"}
		for _, name := range names[1:] {
			rule = rule.Plan(name, core.PerHour(50_000+len(name)))
		}
		s := x.lease(lease.MaxKeys(3))
		l := x.limiter(s, rule)
		for range 3000 {
			x.admit(l.Plan(names[rng.IntN(len(names))]), 1)
			if n := s.Stats().Keys; n > 3 {
				x.Fatalf("expected 3 accounts, got %d", n)
			}
		}
		time.Sleep(time.Second)
		x.expect(3, 3, s.Stats().Keys, "accounts")
		testkit.Must(x, s.Close())
		if stats := s.Stats(); stats.Keys != 0 || stats.Held != 0 {
			x.Errorf("expected no account after Close, got %+v", stats)
		}
	})
}

// A plan with headroom is passed through. It takes events that are not leased from the Store behind, and leaves
// the headroom, which leases of the other callers use up with the rest.
func TestStore_Take_Headroom(t *testing.T) {
	rules := bucketAndWindow(core.Per(10_000, 365*24*time.Hour))
	for i, r := range rules {
		rules[i] = r.Headroom("sheddable", 20)
	}
	bubbleEach(t, rules, func(x *fixture, rule core.Rule) {
		s := x.lease()
		base := x.limiter(s, rule)
		sheddable := base.Plan("sheddable")
		admitted := 0
		for range 500 {
			x.admit(base, 1)
			x.expect(1, 2, x.calls(func() { x.admit(sheddable, 1) }), "calls of the plan, and for the next bundle")
			admitted += 2
		}
		synctest.Wait()
		held := int(s.Stats().Held)
		x.expect(1, 500, held, "tokens that are held")
		x.expect(1, 1, s.Stats().Keys, "accounts")
		admitted += x.drain(sheddable)
		x.expect(8000-held, 8000-held, admitted, "events of both, until the plan is denied")
		x.expect(8000, 8000, 10_000-x.left(rule), "tokens that are charged")
		admitted += x.drain(base)
		x.expect(10_000, 10_000, admitted, "events of both")
		x.expect(0, 0, x.drain(sheddable)+x.drain(base), "events after them")
	})
}

// Every event of a quota is a call.
func TestStore_Take_Quota(t *testing.T) {
	bubble(t, func(x *fixture) {
		s := x.lease()
		l := x.limiter(s, core.Quota("calls", core.Daily(100_000)))
		x.expect(1000, 1000, x.calls(func() { x.admit(l, 1000) }), "calls of the Store behind")
		if stats := s.Stats(); stats.Keys != 0 || stats.Held != 0 {
			x.Errorf("expected no accounts, got %+v", stats)
		}
	})
}
