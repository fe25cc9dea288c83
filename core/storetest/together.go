package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/bounds"
	"github.com/weir-go/weir/internal/testkit"
)

func denialTakesNothing(s *subject, a algorithm) {
	l := s.limiter(a.Rule("small"+a.Name, core.PerMinute(2)), a.Rule("large"+a.Name, core.PerMinute(100)))
	s.admit(l, "k", 2)
	before := s.states(l, "k")
	for range 50 {
		s.deny(l, "k", 1)
	}
	for i, after := range s.states(l, "k") {
		if !sameState(before[i], after) {
			s.fail("after 50 denials: got %+v, want %+v", after, before[i])
		}
	}
	s.remain(l, "k", 0, 98)
}

// sameState reports whether a and b are equal except for their rules.
func sameState(a, b core.State) bool {
	a.Rule, b.Rule = core.Rule{}, core.Rule{}
	return a == b
}

func allOrNone(s *subject, a algorithm) {
	user := s.limiter(a.Rule("user"+a.Name, core.PerHour(5)))
	ip := s.limiter(a.Rule("ip"+a.Name, core.PerHour(1000)))
	for _, order := range []string{"user first", "ip first"} {
		asks := []core.Ask{
			{Limiter: user, Key: "user " + order, Cost: 1},
			{Limiter: ip, Key: "ip " + order, Cost: 1},
		}
		if order == "ip first" {
			asks[0], asks[1] = asks[1], asks[0]
		}
		admitted := 0
		for range 50 {
			d := s.together(asks...)
			if d.Len() != 2 {
				s.fail("got %d states, want 2", d.Len())
			}
			if d.Allowed {
				admitted++
			}
		}
		if admitted != 5 {
			s.fail("%s: %d of 50 events were admitted, want 5", order, admitted)
		}
		s.remain(ip, "ip "+order, 995)
	}
}

// mostCharges makes decisions of as many charges as every Store must take together.
func mostCharges(s *subject, a algorithm) {
	const most = bounds.Charges
	rules := make([]core.Rule, most)
	for i := range rules {
		rules[i] = a.Rule(fmt.Sprint(a.Name, i), core.Per(10+i, 90*24*time.Hour))
	}
	l, asks := s.limiter(rules...), make([]core.Ask, most)
	s.admit(l, "k", 3)
	for i, st := range s.states(l, "k") {
		if st.Used() != 3 {
			s.fail("rule %d has used %d, want 3", i, st.Used())
		}
	}
	if d := s.deny(l, "k", 8); d.State(0).Allowed || !d.State(most-1).Allowed {
		s.fail("got %+v, want a denial by the first rule only", d)
	}
	one := s.limiter(rules[0])
	for i := range asks {
		asks[i] = core.Ask{Limiter: one, Key: fmt.Sprint("key", i)}
	}
	if d := s.together(asks...); !d.Allowed || d.Len() != most {
		s.fail("%d keys: got %+v", most, d)
	}
	if _, err := core.AllowTogether(context.Background(), append(asks, core.Ask{Limiter: one, Key: "another"})...); !errors.Is(err, core.ErrInvalidAsk) {
		s.fail("%d keys: got %v, want core.ErrInvalidAsk", most+1, err)
	}
	if _, err := core.New(s.Store, append(rules, a.Rule("another", core.PerDay(1)))...); !errors.Is(err, core.ErrInvalidRule) {
		s.fail("%d rules: got %v, want core.ErrInvalidRule", most+1, err)
	}

	lengths := rules[0]
	for i := range most + 1 {
		lengths = lengths.Plan(fmt.Sprint(i), core.Per(10, time.Duration(i+1)*time.Hour))
	}
	l = s.limiter(lengths)
	plans := lengths.Spec().Plans
	for _, p := range plans {
		s.admit(l.Plan(p.Name), "plans", 1)
	}
	if _, err := l.Reset(context.Background(), "plans"); err != nil {
		s.fail("Reset of the states of %d plans: %v", len(plans), err)
	}
	for _, p := range plans {
		if got := s.peek(l.Plan(p.Name), "plans").State(0).Used(); got != 0 {
			s.fail("plan %s has used %d after Reset", p.Name, got)
		}
	}
}

func sameRuleTwice(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerHour(5)))
	ask := core.Ask{Limiter: l, Key: "k", Cost: 3}
	if d := s.together(ask, ask); d.Allowed || d.RetryAfter != core.Never || d.Len() != 2 {
		s.fail("costs 3 and 3 under a limit of 5: got %+v, want RetryAfter Never and two states", d)
	}
	ask.Cost = 2
	if d := s.together(ask, ask); !d.Allowed || d.State(1).Remaining != 1 {
		s.fail("costs 2 and 2 under a limit of 5: got %+v, want Remaining 1", d)
	}
}

func concurrency(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerHour(1000)), a.Rule("wide"+a.Name, core.PerHour(5000)))
	admitted := s.hammer(64, 25, func(int) (core.Decision, error) { return l.Allow(context.Background(), "k") })
	if admitted != 1000 {
		s.fail("%d events were admitted, want 1000", admitted)
	}
	s.remain(l, "k", 0, 4000)

	rule := testkit.Compiled(a.Rule("receipts"+a.Name, core.PerHour(100)))
	admitted = s.hammer(64, 5, func(int) (core.Decision, error) {
		charges := []driver.Charge{{Key: "k", Rule: rule, Cost: 1}}
		err := s.Store.Take(context.Background(), charges)
		c := charges[0]
		if has := c.Receipt != (driver.Receipt{}); err == nil && has != c.Verdict.Allowed { // a Store may have decided twice
			err = fmt.Errorf("got the Receipt %+v and %+v", c.Receipt, c.Verdict)
		}
		return core.Decision{Allowed: c.Verdict.Allowed}, err
	})
	if admitted != 100 {
		s.fail("%d events were admitted, want 100", admitted)
	}
}

func concurrentAllOrNone(s *subject) {
	user := s.limiter(core.TokenBucket("user", core.PerHour(100)))
	ip := s.limiter(core.SlidingLog("ip", core.PerHour(5000)))
	admitted := s.hammer(16, 50, func(i int) (core.Decision, error) {
		asks := []core.Ask{{Limiter: user, Key: "u", Cost: 1}, {Limiter: ip, Key: "i", Cost: 1}}
		if i%2 == 0 {
			asks[0], asks[1] = asks[1], asks[0]
		}
		return core.AllowTogether(context.Background(), asks...)
	})
	if admitted != 100 {
		s.fail("%d events were admitted, want 100", admitted)
	}
	s.remain(ip, "i", 4900)
}
