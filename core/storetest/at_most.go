package storetest

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// reserveAtMost takes at most n units, and fails unless want are taken.
func (s *subject) reserveAtMost(l *core.Limiter, key string, n, want int) *core.Reservation {
	s.Helper()
	r, err := l.ReserveAtMost(context.Background(), key, n)
	if err != nil {
		s.fail("ReserveAtMost(%q, %d): %v", key, n, err)
	}
	if d := r.Decision(); r.Cost() != want || d.Allowed != (want > 0) {
		s.fail("ReserveAtMost(%q, %d): got the cost %d, want %d: %v", key, n, r.Cost(), want, d)
	}
	return r
}

func takesAtMost(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)), a.Rule("wide"+a.Name, core.PerMinute(20)))
	s.admit(l, "k", 3)
	s.reserveAtMost(l, "k", 4, 4)
	s.remain(l, "k", 3, 13)
	r := s.reserveAtMost(l, "k", 100, 3)
	s.remain(l, "k", 0, 10)
	one := s.deny(l, "k", 1)
	if d := s.reserveAtMost(l, "k", 100, 0).Decision(); d.RetryAfter != one.RetryAfter {
		s.fail("got RetryAfter %v, want that of one unit, %v", d.RetryAfter, one.RetryAfter)
	}
	s.remain(l, "k", 0, 10)
	s.settle(r, 1)
	s.remain(l, "k", 2, 12)
	if r.Cost() != 1 {
		s.fail("got Cost %d after Settle(1)", r.Cost())
	}
	s.reserveAtMost(l, "k", math.MaxInt, 2)
	s.reserveAtMost(l, "other", math.MaxInt, 10)
	s.Advance(one.RetryAfter)
	s.reserveAtMost(l, "k", 1, 1)
}

func atMostModified(s *subject, a algorithm) {
	soft := s.limiter(a.Rule("soft"+a.Name, core.PerMinute(10)).Soft(50))
	if d := s.reserveAtMost(soft, "k", 20, 15).Decision(); !d.Soft() {
		s.fail("got %+v, want a decision beyond the limit", d)
	}
	shadow := s.limiter(a.Rule(a.Name, core.PerMinute(10)), a.Rule("shadow"+a.Name, core.PerMinute(5)).Shadow())
	r := s.reserveAtMost(shadow, "k", 8, 8)
	if st := r.Decision().State(1); st.Allowed || st.RetryAfter != core.Never {
		s.fail("got %+v of a shadow rule of 5 for 8 units", st)
	}
	s.remain(shadow, "k", 2, 5)
	s.reserveAtMost(shadow, "k", 8, 2)
	s.remain(shadow, "k", 0, 3)
	s.settle(r, 1)
	if !a.Kind().Delays { // whose last units belong to another Reservation
		s.remain(shadow, "k", 7, 3)
	}
}

// Some callers free the rest of their blocks. In a leaky bucket others may be behind it.
func concurrentAtMost(s *subject, a algorithm) {
	for _, block := range []int{1, 7, 400} {
		l := s.limiter(a.Rule(fmt.Sprint(a.Name, block), core.PerDay(500)), a.Rule(fmt.Sprint("wide", a.Name, block), core.PerDay(700)))
		var taken atomic.Int64
		var failed atomic.Pointer[error]
		testkit.Concurrently(16, func(i int) {
			for cost := 1; cost > 0; {
				r, err := l.ReserveAtMost(context.Background(), "k", block)
				if err == nil && i%2 > 0 && !a.Kind().Delays {
					err = r.Settle(context.Background(), (r.Cost()+1)/2)
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				cost = r.Cost()
				taken.Add(int64(cost))
			}
		})
		if err := failed.Load(); err != nil {
			s.fail("ReserveAtMost: %v", *err)
		}
		n := int(taken.Load())
		if n > 500 || n < 500-8*block/2 {
			s.fail("in blocks of %d, %d units were taken, want 500, or fewer by the rest of the last blocks", block, n)
		}
		s.remain(l, "k", 500-n, 700-n)
	}
}
