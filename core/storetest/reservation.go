package storetest

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
)

// The cases of this file are about what is given back of one decision.

func reservations(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)), a.Rule("wide"+a.Name, core.PerMinute(20)))
	s.admit(l, "k", 3)
	r := s.reserve(l, "k", 4)
	for _, step := range []struct{ cost, left int }{{4, 3}, {6, 1}, {2, 5}, {2, 5}, {0, 7}, {0, 7}, {0, 7}} {
		s.settle(r, step.cost)
		s.remain(l, "k", step.left, 10+step.left)
	}
	// Up beyond the limit and down again leaves what others have.
	r = s.reserve(l, "k", 1)
	s.settle(r, 25)
	s.deny(l, "k", 1)
	for _, step := range []struct{ cost, left int }{{2, 5}, {0, 7}} {
		s.settle(r, step.cost)
		s.remain(l, "k", step.left, 10+step.left)
	}
	for range 20 {
		s.settle(r, 1)
		s.settle(r, 0)
	}
	s.remain(l, "k", 7, 17)
	if r := s.reserve(l, "k", 8); r.Decision().Allowed {
		s.fail("3 and 8 of 10 were admitted")
	} else {
		s.settle(r, 0)
		s.remain(l, "k", 7, 17)
	}
}

// What has been forgotten or refilled is not given back again: the events of others
// would be.
func staleReservations(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)))
	r := s.reserve(l, "k", 5)
	s.Advance(time.Minute + grain)
	s.admit(l, "k", 10)
	s.settle(r, 0)
	s.deny(l, "k", 1)
}

// Reservations that are given back in any order leave the events of the others. In a queue
// only the last can be. With many of them, a Store that numbers its events has gaps.
func manyReservations(s *subject, a algorithm) {
	for _, n := range []int{30, 300} {
		l := s.limiter(a.Rule(fmt.Sprint(a.Name, n), core.PerDay(2*n)))
		begun := time.Now()
		var all []*core.Reservation
		for range n {
			all = append(all, s.reserve(l, "k", 1))
			s.Advance(time.Microsecond)
		}
		for i := n - 1; i >= 0; i -= 2 {
			// A Reservation measures its age by the clock of the process. If the clock of the
			// store stood still meanwhile, it would seem to have stepped back.
			now := time.Now()
			s.Advance(now.Sub(begun))
			begun = now
			s.settle(all[i], 0)
		}
		left := 2*n - n/2
		if a.Name == "leaky_bucket" {
			left = n + 1
		}
		s.remain(l, "k", left)
		s.admit(l, "k", left)
		s.deny(l, "k", 1)
	}
}

// refundedSuccesses is the promise of counting failures only: whatever succeeds and
// is given back in between, no more failures than the limit get through at once.
func refundedSuccesses(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(5)))
	var slow []*core.Reservation
	for range 5 {
		slow = append(slow, s.reserve(l, "k", 1))
	}
	s.Advance(time.Minute + grain)
	for range 5 {
		s.admit(l, "k", 1)
	}
	for _, r := range slow {
		s.settle(r, 0)
	}
	s.deny(l, "k", 1)
	s.Advance(time.Minute + grain)
	for range 20 {
		s.settle(s.reserve(l, "k", 1), 0)
	}
	for range 5 {
		s.admit(l, "k", 1)
	}
	s.deny(l, "k", 1)
}
