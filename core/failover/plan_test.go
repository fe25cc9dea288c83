package failover_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// The parts of the limits of one length share a state of the backup: a caller that alternates
// between the plans gains nothing.
func TestInstances_Plans(t *testing.T) {
	const n, span = 4, 10 * time.Minute
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true, failover.Instances(n))
				base := testkit.Limiter(t, p, a.Rule("r", core.PerMinute(10)).Plan("pro", core.PerMinute(100)))
				pro := base.Plan("pro")
				p.leave()
				used, begun := 0.0, time.Now() // the sum of the admitted parts of the limits
				for time.Since(begun) < span {
					for _, l := range []*core.Limiter{pro, base} {
						d := testkit.Ask(t, l, "k", 1)
						for ; d.Allowed; d = testkit.Ask(t, l, "k", 1) {
							used += n / float64(l.Rules()[0].Capacity())
						}
						if got, want := d.State(0).Rule.PlanName(), l.Rules()[0].PlanName(); got != want {
							t.Fatalf("got the plan %q, want %q", got, want)
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				if most := 1 + float64(span)/float64(time.Minute); used > most*1.001 || used < most*0.6 {
					t.Errorf("got %.2f limits in %v, want %.2f at most", used, span, most)
				}
			})
		})
	}
}

// The Answer of a rule is that of all its plans. The limits Unlimited and Blocked need no store.
func TestFailClosedFor_Plans(t *testing.T) {
	for _, c := range []struct {
		name    string
		option  failover.Option
		err     error // of the plans that call a store
		allowed bool
	}{
		{"closed", failover.FailClosedFor("r"), core.ErrFailClosed, false},
		{"open", failover.FailOpenFor("r"), nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			primary := absent()
			s := failover.New(primary, memstore.New(), c.option)
			defer s.Close()
			l := testkit.Limiter(t, s, core.SlidingLog("r", core.PerHour(1)).Plan("pro", core.PerHour(2)).
				Plan("staff", core.Unlimited).Plan("banned", core.Blocked))
			testkit.Must(t, s.Check())
			for plan, allowed := range map[string]bool{"staff": true, "banned": false} {
				if d := testkit.Allow(t, l.Plan(plan), "k"); d.Allowed != allowed || primary.Calls() > 0 {
					t.Errorf("%s: got %v and %d calls, expected allowed %v and no call", plan, d, primary.Calls(), allowed)
				}
			}
			for _, plan := range []string{"", "pro"} {
				for range 4 {
					if d, err := l.Plan(plan).Allow(t.Context(), "k"); !errors.Is(err, c.err) || d.Allowed != c.allowed {
						t.Errorf("plan %q: got %v and %v, expected allowed %v and %v", plan, d, err, c.allowed, c.err)
					}
				}
			}
		})
	}
}

// If the backup rejects one of several changes, neither store nor Check knows any of them.
func TestStore_Declare_BackupRejects(t *testing.T) {
	primary, backup := memstore.New(), memstore.New()
	s := failover.New(primary, backup, failover.Instances(2), failover.FailClosedFor("c"))
	defer s.Close()
	rule := func(name string, n int) core.Rule {
		return core.TokenBucket(name, core.PerMinute(n)).Plan("pro", core.PerMinute(2*n))
	}
	a, b := testkit.Limiter(t, s, rule("a", 10)), testkit.Limiter(t, s, rule("b", 10))
	testkit.Limiter(t, backup, rule("c", 5))
	err := core.ReplaceAll(map[*core.Limiter][]core.Rule{a: {rule("a", 20)}, b: {rule("b", 20), rule("c", 20)}})
	if !errors.Is(err, core.ErrRuleConflict) {
		t.Fatalf("got %v, expected core.ErrRuleConflict", err)
	}
	if s.Check() == nil {
		t.Error("Check: got nil, expected an error about c, which no limiter has")
	}
	for _, store := range []core.Store{primary, backup} {
		for _, name := range []string{"a", "b"} {
			if _, err := core.New(store, rule(name, 30)); !errors.Is(err, core.ErrRuleConflict) {
				t.Errorf("%s: got %v, expected core.ErrRuleConflict with the old rule", name, err)
			}
		}
	}
	testkit.Limiter(t, primary, rule("a", 10), rule("b", 10), rule("c", 30))
	testkit.Limiter(t, backup, rule("a", 5), rule("b", 5), rule("c", 5))
}
