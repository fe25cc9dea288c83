package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
)

// atMost returns n, or the largest int on a 32-bit platform.
func atMost(n int64) int { return int(min(n, math.MaxInt)) }

func never(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)), a.Rule("other"+a.Name, core.PerMinute(atMost(1<<40))))
	s.admit(l, "k", 4)
	for _, cost := range []int{11, atMost(1 << 31), atMost(1 << 53), atMost(1 << 62), math.MaxInt} {
		d := s.deny(l, "k", cost)
		if d.RetryAfter != core.Never || d.State(0).RetryAfter != core.Never {
			s.fail("cost %d: got %+v, want RetryAfter Never", cost, d)
		}
		s.remain(l, "k", 6, atMost(1<<40)-4)
	}
	if _, err := l.AllowN(context.Background(), "k", -1); !errors.Is(err, core.ErrNegativeCost) {
		s.fail("cost -1: got %v, want %v", err, core.ErrNegativeCost)
	}
	s.admit(l, "k", 6)
}

// longest is the longest period of a limit: 100 years of 366 days.
const longest = 36600 * 24 * time.Hour

func longestLimits(s *subject, a algorithm) {
	for i, limit := range []core.Limit{core.Per(100, longest), core.Per(1, longest), core.Per(7, longest-time.Microsecond)} {
		l := s.limiter(a.Rule(fmt.Sprint(a.Name, i), limit))
		for _, cost := range []int{limit.Events + 1, limit.Events + 2, math.MaxInt} {
			if d := s.deny(l, "k", cost); d.RetryAfter != core.Never || d.State(0).Remaining != limit.Events {
				s.fail("%v: cost %d: got %+v, want RetryAfter Never and Remaining %d", limit, cost, d, limit.Events)
			}
		}
		s.admit(l, "k", limit.Events)
		s.deny(l, "k", 1)
		if err := l.Debit(context.Background(), "k", math.MaxInt); err != nil {
			s.fail("%v: Debit: %v", limit, err)
		}
		if d := s.deny(l, "k", limit.Events+1); d.RetryAfter != core.Never {
			s.fail("%v, in debt: got %+v, want RetryAfter Never", limit, d)
		}
	}
}

func keys(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(1)))
	long := strings.Repeat("x", 10_000)
	for _, key := range []string{
		" ", "\x00", "a", "a\x00", "A", "{", "}", "{}", "{a}", "{a}b", "a{b}c", "a:b", "a b", "a\r\nb",
		"\xff\xfe", "1.2.3.4", "user:1.2.3.4", long, long + "y", "é", "e\u0301",
	} {
		s.admit(l, key, 1)
		s.deny(l, key, 1)
	}
}

func cancelled(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(3)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if d, err := l.Allow(ctx, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnavailable) || d.Allowed {
		s.fail("got %+v and the error %v, want a denial and %v", d, err, context.Canceled)
	}
	s.admit(l, "k", 3)
}
