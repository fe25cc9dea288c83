package storetest

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

func reservations(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)), a.Rule("wide"+a.Name, core.PerMinute(20)))
	s.admit(l, "k", 3)
	r := s.reserve(l, "k", 4)
	for _, step := range []struct{ cost, left int }{{4, 3}, {6, 1}, {2, 5}, {2, 5}, {0, 7}, {0, 7}, {0, 7}} {
		s.settle(r, step.cost)
		s.remain(l, "k", step.left, 10+step.left)
	}
	// A cost above the limit, reduced again, leaves the other events in use.
	r = s.reserve(l, "k", 1)
	s.settle(r, 25)
	s.deny(l, "k", 1)
	for _, step := range []struct{ cost, left int }{{2, 5}, {0, 7}} {
		s.settle(r, step.cost)
		s.remain(l, "k", step.left, 10+step.left)
	}
	// A debt of more than 100 years is not counted, so it is not freed.
	s.settle(r, math.MaxInt>>18)
	s.settle(r, 0)
	s.remain(l, "k", 7, 17)
	for range 20 {
		s.settle(r, 1)
		s.settle(r, 0)
	}
	s.remain(l, "k", 7, 17)
	if r := s.reserve(l, "k", 8); r.Decision().Allowed {
		s.fail("3 and 8 events were admitted, want at most 10")
	} else {
		s.settle(r, 0)
		s.remain(l, "k", 7, 17)
	}
}

// Freeing an event that has expired or refilled would free other events.
func staleReservations(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)))
	r := s.reserve(l, "k", 5)
	s.Advance(time.Minute + subWindow)
	s.admit(l, "k", 10)
	s.settle(r, 0)
	s.deny(l, "k", 1)
}

func dividedRules(s *subject, a algorithm) {
	whole := testkit.Compiled(a.Rule(a.Name, core.PerHour(300)))
	left := func(n, want int) {
		if got := s.charged(whole.Divide(n), driver.Charge{Op: driver.Peek, Cost: 1}).Verdict.Remaining; got != want {
			s.fail("a part of %d has %d left, want %d", n, got, want)
		}
	}
	first := s.charged(whole.Divide(3), driver.Charge{Cost: 20})
	second := s.charged(whole.Divide(5), driver.Charge{Cost: 10}) // leaves a leaky bucket first
	s.charged(whole.Divide(5), driver.Charge{Op: driver.Undo, Cost: 10, Receipt: second.Receipt})
	left(3, 80)
	s.charged(whole.Divide(3), driver.Charge{Op: driver.Undo, Cost: 20, Receipt: first.Receipt})
	for _, n := range []int{1, 2, 3, 5} {
		left(n, 300/n)
	}
}

// Reservations are refunded in any order, except in a leaky bucket, where only the last Reservation
// can be refunded. A Store that numbers its events then has gaps in the numbers.
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
			// A Reservation measures its age by the clock of the process. A clock of the store that
			// stood still meanwhile would appear to have stepped back.
			now := time.Now()
			s.Advance(now.Sub(begun))
			begun = now
			s.settle(all[i], 0)
		}
		left := 2*n - n/2
		if a.Kind().Delays {
			left = n + 1
		}
		s.remain(l, "k", left)
		s.admit(l, "k", left)
		s.deny(l, "k", 1)
	}
}

// oldReservations refunds and credits events before and at the oldest time whose events can be freed.
func oldReservations(s *subject) {
	l := s.limiter(core.SlidingLog("log", core.PerDay(3000)))
	begun := time.Now()
	var all []*core.Reservation
	for range 1001 {
		all = append(all, s.reserve(l, "k", 2))
		s.Advance(time.Microsecond)
	}
	s.Advance(time.Since(begun)) // a Reservation measures its age by the clock of the process
	s.settle(all[0], 1)
	s.remain(l, "k", 3000-2002)
	s.settle(all[1], 1)
	s.remain(l, "k", 3000-2001)
	if err := l.Credit(context.Background(), "k", 2001); err != nil {
		s.fail("Credit(2001): %v", err)
	}
	s.remain(l, "k", 3000-2)
}

// refundedSuccesses is the case of a limit on failures, whose successes are refunded: no more
// failures than the limit are admitted at once.
func refundedSuccesses(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(5)))
	var slow []*core.Reservation
	for range 5 {
		slow = append(slow, s.reserve(l, "k", 1))
	}
	s.Advance(time.Minute + subWindow)
	for range 5 {
		s.admit(l, "k", 1)
	}
	for _, r := range slow {
		s.settle(r, 0)
	}
	s.deny(l, "k", 1)
	s.Advance(time.Minute + subWindow)
	for range 20 {
		s.settle(s.reserve(l, "k", 1), 0)
	}
	for range 5 {
		s.admit(l, "k", 1)
	}
	s.deny(l, "k", 1)
}
