package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

func begunPauses(s *subject) {
	p := s.pause("begun")
	begin := func(d, rest time.Duration) {
		c := p.charge(driver.Debit, 1)
		c.Pause, c.Ban = d, true
		p.expect(p.call(c)[0], rest)
		p.pausedFor(rest)
	}
	begin(time.Minute, time.Minute)
	s.Advance(10 * time.Second)
	begin(time.Hour, 50*time.Second)
	begin(time.Second, 50*time.Second)
	p.debit(time.Hour, time.Hour)
	s.Advance(time.Hour - time.Microsecond)
	begin(time.Hour, time.Microsecond)
	s.Advance(time.Microsecond)
	p.pausedFor(0)
	begin(0, 0)
	begin(longestPause, longestPause)
	s.Advance(-time.Hour)
	begin(time.Minute, longestPause)
	p.reset(true)
}

func bans(s *subject, a algorithm) {
	const d = time.Hour
	rule := a.Rule(a.Name, core.PerMinute(3))
	l := s.limiter(rule.BlockFor(d), core.FixedWindow("beside "+a.Name, core.PerHour(100)))
	s.admit(l, "k", 3)
	s.admit(l, "other", 2)
	s.Advance(time.Second)
	for rest := d; rest > 0; rest -= 10 * time.Minute {
		got := s.deny(l, "k", 1).State(0)
		if got.Ban != rest || got.RetryAfter != rest || got.Remaining != 0 || got.Rule.Name() != a.Name {
			s.fail("%v before the end of the ban: got %+v", rest, got)
		}
		s.deny(l, "k", 3)
		s.Advance(10 * time.Minute)
	}
	s.admit(l, "k", 1)
	s.admit(l, "other", 3)
	for range 2 {
		s.deny(l, "other", 3)
		if _, err := l.Reset(context.Background(), "other"); err != nil {
			s.fail("Reset: %v", err)
		}
		s.admit(l, "other", 3)
	}
	// The end counts, not the length.
	s.deny(l, "other", 1)
	s.Advance(d - time.Microsecond)
	if got := s.deny(l, "other", 1); got.RetryAfter != time.Microsecond {
		s.fail("a microsecond before the end: got RetryAfter %v", got.RetryAfter)
	}
	s.Advance(time.Microsecond)
	s.admit(l, "other", 1)
}

func concurrentBans(s *subject) {
	const d = 10 * time.Minute
	l := s.limiter(core.SlidingLog("log", core.PerHour(5)).BlockFor(d))
	var wrong atomic.Int64
	admitted := s.hammer(32, 10, func(int) (core.Decision, error) {
		got, err := l.Allow(context.Background(), "k")
		if !got.Allowed && (got.State(0).Ban != d || got.RetryAfter < d) {
			wrong.Add(1)
		}
		return got, err
	})
	if admitted != 5 || wrong.Load() > 0 {
		s.fail("admitted %d, want 5, and %d denials have another end", admitted, wrong.Load())
	}
}
