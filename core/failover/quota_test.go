package failover_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/internal/testkit"
)

// In the outages of a period, the backup of each process admits an n-th of a quota in all, in the periods
// of its calendar. The primary has its own count afterwards.
func TestInstances_Quota(t *testing.T) {
	testkit.WithoutRace(t)
	zone := time.FixedZone("", -3600)
	for _, rule := range []core.Rule{core.Quota("q", core.Daily(20)).In(zone), core.Quota("q", core.Daily(20)).In(zone).Soft(20)} {
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true, failover.Instances(4))
				l := testkit.Limiter(t, p, rule)
				time.Sleep(23 * time.Hour) // 2000-01-01 23:00 UTC, 22:00 in the zone
				part := testkit.Compiled(rule).Divide(4).Constants.Capacity
				testkit.Admit(t, l, "k", 8)
				for _, want := range []int64{part, 0} {
					p.leave()
					if got := drain(t, l, "k"); got != want {
						t.Errorf("the backup has admitted %d, expected %d", got, want)
					}
					p.comeBack()
					testkit.Admit(t, l, "k", 1)
				}
				if got := testkit.Used(t, l, "k")[0]; got != 10 {
					t.Errorf("the primary has counted %d, expected 10", got)
				}
				p.leave()
				if d := testkit.Allow(t, l, "k"); d.Allowed || d.State(0).Period() != 24*time.Hour || d.RetryAfter > 2*time.Hour {
					t.Errorf("got %v, period %v, expected a denial until the end of the day", d, d.State(0).Period())
				} else {
					time.Sleep(d.RetryAfter)
				}
				if got := drain(t, l, "k"); got != part {
					t.Errorf("the backup has admitted %d on the next day, expected %d", got, part)
				}
			})
		})
	}
}

// A part of a limit keeps its headroom.
func TestInstances_Headroom(t *testing.T) {
	rules := []core.Rule{core.Quota("q", core.Daily(40))}
	for _, a := range testkit.Algorithms {
		rules = append(rules, a.Rule(a.Name, core.PerDay(40)))
	}
	for _, rule := range rules {
		rule = rule.Headroom("sheddable", 50)
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true, failover.Instances(4))
				l := testkit.Limiter(t, p, rule)
				p.leave()
				if got := drain(t, l.Plan("sheddable"), "k"); got != 5 {
					t.Errorf("the backup has admitted %d of the plan, expected 5", got)
				}
				if got := drain(t, l, "k"); got != 5 {
					t.Errorf("the backup has admitted %d of all others, expected 5", got)
				}
			})
		})
	}
}

// A quota that must not be exceeded is decided by the primary only.
func TestFailClosedFor_Quota(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t, true, failover.FailClosedFor("q"))
		l := testkit.Limiter(t, p, core.Quota("q", core.Monthly(20)).Plan("pro", core.Monthly(30)))
		testkit.Admit(t, l, "k", 8)
		p.leave()
		for _, l := range []*core.Limiter{l, l.Plan("pro")} {
			if d, err := l.Allow(t.Context(), "k"); !errors.Is(err, core.ErrFailClosed) {
				t.Errorf("got %v, %v, expected ErrFailClosed", d, err)
			}
		}
		p.comeBack()
		if got := testkit.Used(t, l, "k")[0]; got != 8 {
			t.Errorf("%d are used, expected 8", got)
		}
	})
}

// drain asks for single events until one is denied, and returns the number of the others.
func drain(t *testing.T, l *core.Limiter, key string) (n int64) {
	t.Helper()
	for testkit.Allow(t, l, key).Allowed {
		n++
	}
	return n
}
