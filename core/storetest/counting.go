package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// subWindows is the number of sub-windows by default, and subWindow their length in a minute. A sliding window may count an event for that
// much longer than a sliding log.
const (
	subWindows = 60
	subWindow  = time.Minute / subWindows
)

func capacity(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)))
	for left := 9; left >= 0; left-- {
		st := s.admit(l, "k", 1).State(0)
		if st.Remaining != left {
			s.fail("got Remaining %d, want %d", st.Remaining, left)
		}
		if st.ResetAfter <= 0 || st.ResetAfter > time.Minute+subWindow {
			s.fail("got ResetAfter %v, want at most %v", st.ResetAfter, time.Minute+subWindow)
		}
	}
	d := s.deny(l, "k", 1)
	if d.RetryAfter <= 0 || d.RetryAfter > time.Minute+subWindow || d.State(0).RetryAfter != d.RetryAfter {
		s.fail("got RetryAfter %v, and %v in the State, want the same, at most %v", d.RetryAfter, d.State(0).RetryAfter, time.Minute+subWindow)
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
				s.fail("%v: a microsecond before RetryAfter, cost %d: got RetryAfter %v, want 1µs", limit, cost, again.RetryAfter)
			}
			s.Advance(time.Microsecond)
			s.admit(l, key, cost)
		}
	}
}

// A client that reads r=0 from the RateLimit header field sends its next request after t, so t must
// be the time until an event is available.
func windowOfNothing(s *subject, a algorithm) {
	for i, limit := range []core.Limit{core.PerMinute(10), core.PerSecond(7), core.PerSecond(1)} {
		for j, percent := range []float64{0, 50} {
			l := s.limiter(a.Rule(fmt.Sprint(a.Name, i, j), limit).Soft(percent))
			most := l.Rules()[0].Capacity() * (100 + int(percent)) / 100
			for cost := limit.Events; cost <= most; cost++ {
				key := fmt.Sprint("k", cost)
				st := s.admit(l, key, cost).State(0)
				if st.Remaining != 0 || st.Window <= 0 {
					s.fail("%v soft %v%%: after %d events: got %+v, want Remaining 0 and a Window", limit, percent, cost, st)
				}
				s.Advance(st.Window - time.Microsecond)
				if st := s.peek(l, key).State(0); st.Remaining != 0 {
					s.fail("%v soft %v%%: after %d events, a microsecond before the end of Window: got %+v, want Remaining 0", limit, percent, cost, st)
				}
				s.Advance(time.Microsecond)
				if st := s.peek(l, key).State(0); st.Remaining == 0 {
					s.fail("%v soft %v%%: after %d events, at the end of Window: got %+v, want Remaining above 0", limit, percent, cost, st)
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
		switch most := limit.Per + limit.Per/subWindows; {
		case a.Name == "fixed_window" && d.RetryAfter > 0 && d.RetryAfter <= limit.Per:
		case a.Name == "sliding_window" && d.RetryAfter >= limit.Per && d.RetryAfter <= most:
		case d.RetryAfter != limit.Per:
			s.fail("%v: with nothing left, the capacity has RetryAfter %v", limit, d.RetryAfter)
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
	const steps, step = 3000, 7 * time.Millisecond // the step is no multiple of a seventh of a second
	for range steps {
		if s.allow(l, "k", 1).Allowed {
			admitted++
		}
		s.Advance(step)
	}
	// The last step ends after the last call.
	if want := limit.Burst + int((steps-1)*step*time.Duration(limit.Events)/limit.Per); admitted != want {
		s.fail("%d events were admitted in %v, want %d", admitted, steps*step, want)
	}
}

func peek(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(3)))
	for range 10 {
		if d := s.peek(l, "k"); !d.Allowed || d.State(0).Remaining != 3 {
			s.fail("Peek of an unused key: got %+v, want Remaining 3", d)
		}
		s.admit(l, "k", 0)
	}
	s.admit(l, "k", 3)
	if d := s.peek(l, "k"); d.Allowed || d.RetryAfter != s.deny(l, "k", 1).RetryAfter {
		s.fail("Peek of a key with nothing left: got %+v, want a denial with the RetryAfter of Allow", d)
	}
}

func probe(s *subject, a algorithm) {
	rule := a.Rule(a.Name, core.PerMinute(3))
	l := s.limiter(rule)
	for _, left := range []int{3, 0} {
		for range 10 {
			err := driver.Probe(context.Background(), s.Store, []driver.Charge{{Key: "k", Rule: testkit.Compiled(rule), Op: driver.Peek, Cost: 1}})
			if err != nil {
				s.fail("Probe: %v", err)
			}
		}
		s.remain(l, "k", left)
		s.allow(l, "k", left)
	}
}

func reset(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(3)), a.Rule("second"+a.Name, core.PerMinute(4)))
	s.admit(l, "k", 3)
	s.deny(l, "k", 1)
	for _, found := range []bool{true, false} {
		if got, err := l.Reset(context.Background(), "k"); err != nil || got != found {
			s.fail("Reset: got %t, %v; want %t", got, err, found)
		}
	}
	s.admit(l, "k", 3)
	s.remain(l, "k", 0, 1)
}

func credit(s *subject, a algorithm) {
	ctx := context.Background()
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)), a.Rule("wide"+a.Name, core.PerMinute(20)))
	credit := func(n int) {
		if err := l.Credit(ctx, "k", n); err != nil {
			s.fail("Credit(%d): %v", n, err)
		}
	}
	credit(3) // nothing is in use
	s.admit(l, "k", 10)
	s.deny(l, "k", 1)
	credit(4)
	s.remain(l, "k", 4, 14)
	s.admit(l, "k", 4)
	credit(0)
	s.deny(l, "k", 1)
	credit(atMost(1 << 60))
	s.remain(l, "k", 10, 20)
	s.admit(l, "k", 10)
	s.deny(l, "k", 1)
	if err := l.Credit(ctx, "k", -1); !errors.Is(err, core.ErrNegativeCost) {
		s.fail("Credit(-1): got %v, want %v", err, core.ErrNegativeCost)
	}
}
