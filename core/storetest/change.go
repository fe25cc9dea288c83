package storetest

import (
	"context"
	"time"

	"github.com/weir-go/weir/core"
)

// The cases of this file are about clocks and limits that change.

func clockStepsBack(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(6)))
	s.admit(l, "spent", 6)
	s.admit(l, "half", 3)
	s.admit(l, "idle", 1)
	s.Advance(-time.Hour)
	s.deny(l, "spent", 1)
	if d := s.ask(l, "half", 4); d.Allowed {
		s.fail("%s: 3 and 4 of 6 were admitted across a step back", a.name)
	}
	d := s.ask(l, "spent", 1)
	if d.RetryAfter > time.Minute+grain {
		s.fail("%s: locked out for %v", a.name, d.RetryAfter)
	}
	s.Advance(d.RetryAfter)
	s.admit(l, "spent", 1)
	s.ask(l, "idle", 1)
	s.Advance(time.Minute + grain)
	s.admit(l, "half", 6)
	s.admit(l, "idle", 6)
}

func clockLeaps(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(6)))
	s.admit(l, "k", 6)
	s.Advance(10 * 365 * 24 * time.Hour)
	s.admit(l, "k", 6)
	s.deny(l, "k", 1)
}

// limitChanges goes past New, which would refuse the second definition: two
// processes may hold different ones while a new version is rolled out.
func limitChanges(s *subject, a algorithm) {
	large, small := a.rule(a.name, core.PerMinute(100)), a.rule(a.name, core.PerMinute(10))
	odd := a.rule(a.name, core.Per(7, 11*time.Second))
	take := func(r *core.Rule, cost int) core.State {
		charges := []core.Charge{{Key: "k", Rule: r, Cost: cost}}
		if err := s.Store.Take(context.Background(), charges); err != nil {
			s.fail("Take: %v", err)
		}
		return charges[0].State
	}
	take(&large, 95)
	for _, r := range []*core.Rule{&small, &odd, &small, &large, &odd} {
		if st := take(r, r.Capacity()); st.Allowed || st.RetryAfter > time.Minute+grain {
			s.fail("%s: with 95 of 100 used, all of %v: %+v", a.name, r, st)
		}
	}
	s.Advance(time.Minute + grain)
	if st := take(&small, 10); !st.Allowed {
		s.fail("%s: a minute later, all of %v: %+v", a.name, &small, st)
	}
	if st := take(&large, 100); st.Allowed {
		s.fail("%s: spent under %v, all of %v was admitted", a.name, &small, &large)
	}
}
