package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// The cases of this file are about one key at a time: how much is admitted, and
// when again.

// grain is a sub-window of a minute: for so long a sliding window counter may
// hold on to what an exact one would have let go.
const grain = time.Minute / core.DefaultSubWindows

func capacity(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)))
	for left := 9; left >= 0; left-- {
		st := s.admit(l, "k", 1).State(0)
		if st.Remaining != left {
			s.fail("Remaining is %d, want %d", st.Remaining, left)
		}
		if st.ResetAfter <= 0 || st.ResetAfter > time.Minute+grain {
			s.fail("ResetAfter is %v", st.ResetAfter)
		}
	}
	d := s.deny(l, "k", 1)
	if d.RetryAfter <= 0 || d.RetryAfter > time.Minute+grain || d.State(0).RetryAfter != d.RetryAfter {
		s.fail("RetryAfter is %v, and %v in the State", d.RetryAfter, d.State(0).RetryAfter)
	}
	s.admit(l, "another", 10)
}

func retryAfter(s *subject, a algorithm) {
	for i, limit := range []core.Limit{core.PerSecond(3), core.PerSecond(7), core.Per(5, 13*time.Millisecond), core.PerHour(11)} {
		l := s.limiter(a.Rule(fmt.Sprint(a.Name, i), limit))
		for cost := 1; cost <= limit.Events; cost++ {
			key := fmt.Sprint("k", cost)
			s.admit(l, key, limit.Events-1)
			s.Advance(time.Microsecond)
			s.admit(l, key, 1)
			d := s.deny(l, key, cost)
			s.Advance(d.RetryAfter - time.Microsecond)
			if again := s.deny(l, key, cost); again.RetryAfter != time.Microsecond {
				s.fail("%v: a microsecond before its time, cost %d has RetryAfter %v", limit, cost, again.RetryAfter)
			}
			s.Advance(time.Microsecond)
			s.admit(l, key, cost)
		}
	}
}

// windowOfNothing: a client that paces itself by r and t of the RateLimit field comes back
// after t, so t must not be zero while r is.
func windowOfNothing(s *subject, a algorithm) {
	for i, limit := range []core.Limit{core.PerMinute(10), core.PerSecond(7), core.PerSecond(1)} {
		for j, percent := range []float64{0, 50} {
			l := s.limiter(a.Rule(fmt.Sprint(a.Name, i, j), limit).Soft(percent))
			most := l.Rules()[0].Capacity() * (100 + int(percent)) / 100
			for cost := limit.Events; cost <= most; cost++ {
				key := fmt.Sprint("k", cost)
				st := s.admit(l, key, cost).State(0)
				if st.Remaining != 0 || st.Window <= 0 {
					s.fail("%v soft %v%%: after %d events: %+v", limit, percent, cost, st)
				}
				s.Advance(st.Window - time.Microsecond)
				if st := s.peek(l, key).State(0); st.Remaining != 0 {
					s.fail("%v soft %v%%: %d events, a microsecond before Window ends: %+v", limit, percent, cost, st)
				}
				s.Advance(time.Microsecond)
				if st := s.peek(l, key).State(0); st.Remaining == 0 {
					s.fail("%v soft %v%%: %d events, Window is over: %+v", limit, percent, cost, st)
				}
			}
		}
	}
}

func periods(s *subject, a algorithm) {
	for i, limit := range []core.Limit{
		core.Per(2, time.Millisecond),
		core.Per(3, 100*time.Millisecond),
		core.PerSecond(30_000),
		core.PerSecond(999_983),
		core.PerSecond(1_000_000),
		core.PerHour(1),
		core.Per(997, 365*24*time.Hour),
	} {
		l := s.limiter(a.Rule(fmt.Sprint(a.Name, i), limit))
		s.admit(l, "k", limit.Events)
		d := s.deny(l, "k", limit.Events)
		switch most := limit.Per + limit.Per/core.DefaultSubWindows; {
		case a.Name == "fixed_window" && d.RetryAfter > 0 && d.RetryAfter <= limit.Per:
		case a.Name == "sliding_window" && d.RetryAfter >= limit.Per && d.RetryAfter <= most:
		case d.RetryAfter != limit.Per:
			s.fail("%v: all of it is back after %v", limit, d.RetryAfter)
		}
		s.Advance(d.RetryAfter - time.Microsecond)
		s.deny(l, "k", limit.Events)
		s.Advance(time.Microsecond)
		s.admit(l, "k", limit.Events)
	}
}

func noDrift(s *subject) {
	limit := core.PerSecond(7).WithBurst(3)
	l := s.limiter(core.TokenBucket("drift", limit))
	var admitted int
	const steps, step = 3000, 7 * time.Millisecond // 21 s, and 7/s do not divide it
	for range steps {
		if s.ask(l, "k", 1).Allowed {
			admitted++
		}
		s.Advance(step)
	}
	// The last step ends after the last call.
	if want := limit.Burst + int((steps-1)*step*time.Duration(limit.Events)/limit.Per); admitted != want {
		s.fail("%d were admitted in %v, want %d", admitted, steps*step, want)
	}
}

func peek(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(3)))
	for range 10 {
		if d := s.peek(l, "k"); !d.Allowed || d.State(0).Remaining != 3 {
			s.fail("a fresh key looks like %+v", d)
		}
		s.admit(l, "k", 0)
	}
	s.admit(l, "k", 3)
	if d := s.peek(l, "k"); d.Allowed || d.RetryAfter != s.deny(l, "k", 1).RetryAfter {
		s.fail("a spent key looks like %+v", d)
	}
}

func probe(s *subject, a algorithm) {
	rule := a.Rule(a.Name, core.PerMinute(3))
	l := s.limiter(rule)
	for _, left := range []int{3, 0} {
		for range 10 {
			err := driver.Probe(context.Background(), s.Store, []driver.Charge{{Key: "k", Rule: rule.Compiled(), Op: driver.Peek, Cost: 1}})
			if err != nil {
				s.fail("Probe: %v", err)
			}
		}
		s.remain(l, "k", left)
		s.ask(l, "k", left)
	}
}

func reset(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(3)), a.Rule("second"+a.Name, core.PerMinute(4)))
	s.admit(l, "k", 3)
	s.deny(l, "k", 1)
	for _, found := range []bool{true, false} {
		if got, err := l.Reset(context.Background(), "k"); err != nil || got != found {
			s.fail("Reset: %t, %v; expected %t", got, err, found)
		}
	}
	s.admit(l, "k", 3)
	s.remain(l, "k", 0, 1)
}

func credit(s *subject, a algorithm) {
	ctx := context.Background()
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)), a.Rule("wide"+a.Name, core.PerMinute(20)))
	give := func(n int) {
		if err := l.Credit(ctx, "k", n); err != nil {
			s.fail("Credit(%d): %v", n, err)
		}
	}
	give(3) // of nothing
	s.admit(l, "k", 10)
	s.deny(l, "k", 1)
	give(4)
	s.remain(l, "k", 4, 14)
	s.admit(l, "k", 4)
	give(0)
	s.deny(l, "k", 1)
	give(atMost(1 << 60))
	s.remain(l, "k", 10, 20)
	s.admit(l, "k", 10)
	s.deny(l, "k", 1)
	if err := l.Credit(ctx, "k", -1); !errors.Is(err, core.ErrNegativeCost) {
		s.fail("Credit(-1): %v", err)
	}
}
