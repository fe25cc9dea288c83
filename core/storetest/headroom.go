package storetest

import (
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// eachCounting returns a case that calls f for each algorithm and for a quota.
func eachCounting(f func(s *subject, a algorithm)) func(s *subject) {
	return func(s *subject) {
		eachAlgorithm(f)(s)
		quota := func(name string, l core.Limit) core.Rule { return core.Quota(name, core.Daily(l.Events)) }
		s.about = "quota"
		f(s, testkit.Algorithm{Name: s.about, Rule: quota})
	}
}

// headroom leaves 2 of 10 events to others, who may use all.
func headroom(s *subject, a algorithm) {
	for _, soft := range []float64{0, 30} {
		r := a.Rule(a.Name, core.PerDay(10)).Soft(soft)
		if soft > 0 {
			r = a.Rule("soft"+a.Name, core.PerDay(10)).Soft(soft)
		}
		l := s.limiter(r.Headroom("batch", 20))
		batch := l.Plan("batch")
		for _, key := range []string{"others first", "batch first"} {
			others := 3
			if key == "batch first" {
				others = 0
			}
			for range others {
				s.admit(l, key, 1)
			}
			for n := others + 1; n <= 8; n++ {
				d := s.admit(batch, key, 1)
				if st := d.State(0); st.Remaining != 8-n || st.Soft || st.Rule.Capacity() != 8 {
					s.fail("event %d: got %+v, want %d of 8 left", n, st, 8-n)
				}
			}
			for range 2 {
				if d := s.deny(batch, key, 1); d.RetryAfter <= 0 || d.RetryAfter == core.Never || d.State(0).Remaining != 0 {
					s.fail("a denial of the plan: got %+v", d.State(0))
				}
			}
			if d := s.deny(batch, key, 9); d.RetryAfter != core.Never {
				s.fail("9 events of the plan: got %+v, want RetryAfter Never", d.State(0))
			}
			most := 10 + int(soft/10)
			for n := 9; n <= most; n++ {
				if st := s.admit(l, key, 1).State(0); st.Remaining != max(0, 10-n) || st.Soft != (n > 10) {
					s.fail("event %d, of others: got %+v", n, st)
				}
			}
			s.deny(l, key, 1)
			s.deny(batch, key, 1)
		}
		r10, err := batch.ReserveAtMost(s.Context(), "at most", 10)
		if err != nil || r10.Cost() != 8 {
			s.fail("ReserveAtMost: got the cost %d, %v, want 8", r10.Cost(), err)
		}
		if got := s.peek(l, "at most").State(0).Remaining; got != 2 {
			s.fail("after 8 events of the plan: got Remaining %d, want 2", got)
		}
	}
}

// headroomRetryAfter denies a plan that may use 3 of 7 events, while others use 5 to 7 or are in debt.
func headroomRetryAfter(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.Per(7, 13*time.Second)).Headroom("batch", 50))
	batch := l.Plan("batch")
	for _, key := range []string{"k", "5", "6", "7"} {
		switch {
		case key == "k":
			s.debit(l, 9)
		case a.Name == "fixed_window" || a.Name == "quota":
			s.admit(l, key, int(key[0]-'0'))
		default:
			for range key[0] - '0' {
				s.admit(l, key, 1)
				s.Advance(time.Millisecond)
			}
		}
		for n := 1; n <= 3; n++ {
			d := s.deny(batch, key, n)
			if d.RetryAfter <= 0 || d.State(0).Window != d.RetryAfter {
				s.fail("%d events after %q: got %+v", n, key, d.State(0))
			}
			s.Advance(d.RetryAfter - time.Microsecond)
			s.deny(batch, key, n)
			s.Advance(time.Microsecond)
			if d := s.peek(batch, key); !d.Allowed || d.State(0).Remaining < n {
				s.fail("after RetryAfter of %d events: got %+v", n, d.State(0))
			}
			if !isBucket(a) {
				break // more may have left at the same time
			}
		}
	}
}

// headroomOfPlaces leaves the places of 2 of 10 events to others.
func headroomOfPlaces(s *subject) {
	s.eachPlaces("n", 10, unchanged, func(others places) {
		batch, n := others.of(func(d *driver.Definition) { d.Plan, d.Headroom = "batch", 20 }), others.cost
		var taken []driver.Receipt
		for i := range 8 {
			taken = append(taken, batch.take((7-i)*n))
			s.Advance(time.Second)
		}
		batch.deny(hold - 8*time.Second)
		others.take(n)
		last := others.take(0)
		batch.deny(hold - 8*time.Second + 2*time.Second) // three have to end
		others.deny(hold - 8*time.Second)
		batch.free(taken[0], 0)
		others.free(last, 2*n)
		batch.left(0)
		batch.free(taken[1], n)
		batch.renew(taken[2], true, n)
		others.left(3 * n)
	})
}
