package storetest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core"
)

// The cases of this file are about what is decided together, or at the same time.

func denialTakesNothing(s *subject, a algorithm) {
	l := s.limiter(a.rule("small"+a.name, core.PerMinute(2)), a.rule("large"+a.name, core.PerMinute(100)))
	s.admit(l, "k", 2)
	before := s.states(l, "k")
	for range 50 {
		s.deny(l, "k", 1)
	}
	after := s.states(l, "k")
	for i := range before {
		if !sameState(before[i], after[i]) {
			s.fail("%s: 50 denials turned %+v into %+v", a.name, before[i], after[i])
		}
	}
	if got := after[1].Remaining; got != 98 {
		s.fail("%s: the rule that did not deny has %d left, want 98", a.name, got)
	}
}

// sameState compares all but the Rules.
func sameState(a, b core.State) bool {
	a.Rule, b.Rule = core.Rule{}, core.Rule{}
	return a == b
}

func allOrNone(s *subject, a algorithm) {
	user := s.limiter(a.rule("user"+a.name, core.PerHour(5)))
	ip := s.limiter(a.rule("ip"+a.name, core.PerHour(1000)))
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
			d, err := core.AllowTogether(context.Background(), asks...)
			if err != nil {
				s.fail("AllowTogether: %v", err)
			}
			if d.Len() != 2 {
				s.fail("%d states, want 2", d.Len())
			}
			if d.Allowed {
				admitted++
			}
		}
		if admitted != 5 {
			s.fail("%s, %s: %d of 50 were admitted, want 5", a.name, order, admitted)
		}
		if left := s.peek(ip, "ip "+order).State(0).Remaining; left != 995 {
			s.fail("%s, %s: the IP has %d left, want 995", a.name, order, left)
		}
	}
}

func sameRuleTwice(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerHour(5)))
	ask := core.Ask{Limiter: l, Key: "k", Cost: 3}
	d, err := core.AllowTogether(context.Background(), ask, ask)
	if err != nil || d.Allowed || d.RetryAfter != core.Never || d.Len() != 2 {
		s.fail("%s: 3 and 3 of 5: %+v, %v", a.name, d, err)
	}
	ask.Cost = 2
	d, err = core.AllowTogether(context.Background(), ask, ask)
	if err != nil || !d.Allowed || d.State(1).Remaining != 1 {
		s.fail("%s: 2 and 2 of 5: %+v, %v", a.name, d, err)
	}
}

func concurrency(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerHour(1000)), a.rule("wide"+a.name, core.PerHour(5000)))
	admitted := s.hammer(64, 100, func(int) (core.Decision, error) { return l.Allow(context.Background(), "k") })
	if admitted != 1000 {
		s.fail("%s: %d were admitted, want 1000", a.name, admitted)
	}
	if left := s.states(l, "k")[1].Remaining; left != 4000 {
		s.fail("%s: the wider rule has %d left, want 4000", a.name, left)
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
		s.fail("%d were admitted, want 100", admitted)
	}
	if left := s.peek(ip, "i").State(0).Remaining; left != 4900 {
		s.fail("the IP has %d left, want 4900", left)
	}
}

// hammer makes calls from many goroutines and counts what was admitted.
func (s *subject) hammer(goroutines, calls int, call func(i int) (core.Decision, error)) int64 {
	s.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for g := range goroutines {
		wg.Go(func() {
			for range calls {
				d, err := call(g)
				if err != nil {
					failed.Store(&err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		s.fail("a call failed: %v", *err)
	}
	return admitted.Load()
}
