package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

func clockStepsBack(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(6)))
	s.admit(l, "spent", 6)
	s.admit(l, "half", 3)
	s.admit(l, "idle", 1)
	s.Advance(-time.Hour)
	s.deny(l, "spent", 1)
	if d := s.allow(l, "half", 4); d.Allowed {
		s.fail("3 and then, after a step back, 4 events were admitted, want at most 6")
	}
	d := s.allow(l, "spent", 1)
	if d.RetryAfter > time.Minute+subWindow {
		s.fail("got RetryAfter %v, want at most %v", d.RetryAfter, time.Minute+subWindow)
	}
	s.Advance(d.RetryAfter)
	s.admit(l, "spent", 1)
	s.allow(l, "idle", 1)
	s.Advance(time.Minute + subWindow)
	s.admit(l, "half", 6)
	s.admit(l, "idle", 6)
}

// A state that lies ahead of the clock reads as an exhausted limit. A denied Peek must write the
// state as of now. Otherwise later calls would be denied until the clock has caught up.
func peekAfterClockStep(s *subject, a algorithm) {
	shadow := a.Rule("shadow"+a.Name, core.PerMinute(6)).Shadow()
	l := s.limiter(a.Rule(a.Name, core.PerMinute(6)), a.Rule("wide"+a.Name, core.PerMinute(8)), shadow)
	for _, call := range []struct {
		name string
		peek func(key string) core.Decision
	}{
		{"Peek", func(key string) core.Decision { return s.peek(l, key) }},
		{"AllowN(0)", func(key string) core.Decision { return s.allow(l, key, 0) }},
		{"ReserveAtMost", func(key string) core.Decision {
			r, err := l.ReserveAtMost(context.Background(), key, 6)
			if err != nil {
				s.fail("ReserveAtMost: %v", err)
			}
			s.settle(r, 0)
			return r.Decision()
		}},
	} {
		s.admit(l, call.name, 6)
		s.Advance(-time.Hour)
		d := call.peek(call.name)
		for waited := time.Duration(0); !d.Allowed; d = call.peek(call.name) {
			if waited += d.RetryAfter; d.RetryAfter <= 0 || waited > time.Minute+subWindow {
				s.fail("%s is denied after waiting for RetryAfter, %v in total: %+v", call.name, waited, d)
			}
			s.Advance(d.RetryAfter)
		}
		s.Advance(time.Minute + subWindow)
		if d := s.peek(l, call.name); d.State(0).Remaining != 6 || d.State(1).Remaining != 8 {
			s.fail("%s a period later: got %+v, want Remaining 6 and 8", call.name, d)
		}
	}
	alone := s.limiter(shadow)
	s.admit(alone, "shadow", 6)
	s.Advance(-time.Hour)
	s.peek(alone, "shadow")
	s.Advance(time.Minute + subWindow)
	if st := s.peek(alone, "shadow").State(0); !st.Allowed || st.Remaining != 6 {
		s.fail("a period after a Peek of a shadow rule: got %+v, want Remaining 6", st)
	}
}

func undoAtTheSameTimeAgain(s *subject, a algorithm) {
	rule := a.Rule(a.Name, core.PerMinute(3))
	receipt := s.charged(testkit.Compiled(rule), driver.Charge{Cost: 2}).Receipt
	s.Advance(-time.Minute - subWindow)
	s.do(rule, driver.Charge{Cost: 2})
	s.Advance(time.Minute + subWindow)
	if !s.do(rule, driver.Charge{Cost: 3}).Allowed {
		s.fail("a period after the step, 3 events of a limit of 3 were denied")
	}
	receipt.Age = (time.Minute + subWindow).Microseconds()
	s.do(rule, driver.Charge{Op: driver.Undo, Cost: 2, Receipt: receipt})
	if s.do(rule, driver.Charge{Cost: 1}).Allowed {
		s.fail("the undo of 2 events freed events of other charges")
	}
}

func undoOfNothing(s *subject, a algorithm) {
	for i, limit := range []core.Limit{core.PerMinute(3), core.Per(100, longest)} {
		rule := a.Rule(fmt.Sprint(a.Name, i), limit)
		l := s.limiter(rule)
		s.admit(l, "k", limit.Events)
		for _, cost := range []int{1, limit.Events, atMost(1 << 60)} {
			s.do(rule, driver.Charge{Op: driver.Undo, Cost: cost, Receipt: driver.Receipt{}})
			if d := s.peek(l, "k"); d.Allowed {
				s.fail("%s: after an undo of %d with a zero Receipt: got %+v, want a denial", rule, cost, d)
			}
		}
	}
}

func peekAfterShorterPeriod(s *subject, a algorithm) {
	long, short := a.Rule(a.Name, core.PerDay(1000)), a.Rule(a.Name, core.PerSecond(1000))
	s.do(long, driver.Charge{Cost: 1000})
	for waited := time.Duration(0); ; {
		st := s.do(short, driver.Charge{Op: driver.Peek, Cost: 1})
		if st.Allowed {
			return
		}
		// A sliding window may keep a sub-window of the longer period.
		if waited += st.RetryAfter; st.RetryAfter <= 0 || waited > 3*time.Second {
			s.fail("a Peek of %v is denied after waiting for RetryAfter, %v in total: %+v", &short, waited, st)
		}
		s.Advance(st.RetryAfter)
	}
}

func clockLeaps(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(6)))
	s.admit(l, "k", 6)
	s.Advance(10 * 365 * 24 * time.Hour)
	s.admit(l, "k", 6)
	s.deny(l, "k", 1)
}

// limitChanges is the case of a deployment, in which processes have different rules of one name.
func limitChanges(s *subject, a algorithm) {
	large, small := a.Rule(a.Name, core.PerMinute(100)), a.Rule(a.Name, core.PerMinute(10))
	other := a.Rule(a.Name, core.Per(7, 11*time.Second))
	take := func(r core.Rule, cost int) driver.Verdict { return s.do(r, driver.Charge{Cost: cost}) }
	take(large, 95)
	for _, r := range []core.Rule{small, large, small} {
		if st := take(r, r.Capacity()); st.Allowed || st.RetryAfter > time.Minute+subWindow {
			s.fail("%v after 95 events of 100 a minute: got %+v, want a denial for at most %v", &r, st, time.Minute+subWindow)
		}
	}
	if st := take(other, 7); !st.Allowed {
		s.fail("%v has another length and a state of its own: got %+v", &other, st)
	}
	s.Advance(time.Minute + subWindow)
	if st := take(small, 10); !st.Allowed {
		s.fail("a minute later, the capacity of %v was denied: %+v", &small, st)
	}
	if st := take(large, 100); st.Allowed {
		s.fail("the capacity of %v was used, and that of %v was admitted", &small, &large)
	}
}

func alternatingLengths(s *subject, a algorithm) {
	hour, second := a.Rule(a.Name, core.PerHour(100)), a.Rule(a.Name, core.PerSecond(10))
	var admitted int
	for range 300 {
		if s.do(hour, driver.Charge{Cost: 1}).Allowed {
			admitted++
		}
		s.do(second, driver.Charge{Cost: 1})
		s.Advance(100 * time.Millisecond)
	}
	if admitted < 100 || admitted > 101 { // a bucket refills by 0.8 events in half a minute
		s.fail("%d events were admitted under %v in half a minute, want 100 or 101", admitted, &hour)
	}
}

// alternatingPlans chooses a random plan for each event of a key. The plans of each length together
// must keep the bound of that length, whatever events the plans of other lengths admit.
func alternatingPlans(s *subject, a algorithm) {
	const calls = 250
	for i, limits := range [][]core.Limit{
		{core.PerSecond(10), core.PerSecond(20), core.PerSecond(50)},
		{core.PerSecond(7), core.PerSecond(30), core.PerSecond(11)},
		{core.PerSecond(10), core.Per(40, 2*time.Second), core.PerSecond(50), core.Per(16, 2*time.Second)},
	} {
		rng := rand.New(rand.NewPCG(uint64(i), 14))
		rule := a.Rule(fmt.Sprint(a.Name, i), limits[0])
		for plan, limit := range limits {
			rule = rule.Plan(fmt.Sprint(plan), limit)
		}
		l := s.limiter(rule)
		bounds := make(map[time.Duration]*planBound) // by length
		for range calls {
			if rng.IntN(3) == 0 {
				s.Advance(time.Duration(rng.Int64N(200_000)) * time.Microsecond)
			}
			plan, cost := rng.IntN(len(limits)), 1+rng.IntN(4)
			limit := limits[plan]
			b := bounds[limit.Per]
			if b == nil {
				b = &planBound{per: limit.Per}
				bounds[limit.Per] = b
			}
			b.largest = max(b.largest, limit.Events)
			if !s.allow(l.Plan(fmt.Sprint(plan)), "k", cost).Allowed {
				b.denied++
				continue
			}
			b.events = append(b.events, planEvent{s.Now(), limit, cost})
			if err := b.check(a); err != nil {
				s.fail("limits %v: %v", limits, err)
			}
		}
		for per, b := range bounds {
			if len(b.events) < calls/10 || b.denied < calls/10 {
				s.fail("limits %v: only %d calls of the limits per %v were admitted, %d denied", limits, len(b.events), per, b.denied)
			}
		}
	}
}

// replacedLength is the case of an operator who changes one number of a bucket while two limiters, as of two
// processes, use it.
func replacedLength(s *subject) {
	for i, rule := range []func(string, core.Limit) core.Rule{core.TokenBucket, core.LeakyBucket} {
		for j, c := range []struct {
			limit          core.Limit // before, it is 10 a minute with a burst of 20
			half, fraction int        // the rest of a key that has used 10 or 13 of the 20
		}{
			{core.PerMinute(1).WithBurst(20), 10, 7},
			{core.PerMinute(10).WithBurst(10), 5, 3},
			{core.PerMinute(10).WithBurst(40), 20, 14},
			{core.PerMinute(40).WithBurst(20), 10, 7},
			{core.PerHour(7).WithBurst(1), 0, 0},
			{core.Per(1, 10*time.Second), 0, 0},
		} {
			old, changed := rule(fmt.Sprint("r", i, j), core.PerMinute(10).WithBurst(20)), rule(fmt.Sprint("r", i, j), c.limit)
			s.about = fmt.Sprint(old, " and then ", c.limit)
			limiters := [2]*core.Limiter{s.limiter(old), s.limiter(old)}
			uses := []struct {
				key        string
				used, left int
			}{{"unused", 0, changed.Capacity()}, {"half", 10, c.half}, {"fraction", 13, c.fraction}, {"spent", 20, 0}, {"debt", 30, 0}, {"many", 20, 0}}
			for _, u := range uses {
				if err := limiters[0].Debit(context.Background(), u.key, u.used); err != nil {
					s.fail("Debit: %v", err)
				}
			}
			if err := core.ReplaceAll(map[*core.Limiter][]core.Rule{limiters[0]: {changed}, limiters[1]: {changed}}); err != nil {
				s.fail("ReplaceAll: %v", err)
			}
			if n := s.hammer(64, 3, func(g int) (core.Decision, error) {
				return limiters[g%2].Allow(context.Background(), "many")
			}); n > 0 {
				s.fail("64 goroutines got %d events of a key that was used up", n)
			}
			for _, u := range uses {
				for _, l := range limiters {
					if d := s.peek(l, u.key); d.State(0).Remaining != u.left {
						s.fail("of %q: got Remaining %d, want %d", u.key, d.State(0).Remaining, u.left)
					}
				}
				if u.left > 0 {
					s.admit(limiters[1], u.key, u.left)
				}
				s.deny(limiters[0], u.key, 1)
			}
			for _, l := range limiters {
				if _, err := l.Reset(context.Background(), "half"); err != nil {
					s.fail("Reset: %v", err)
				}
			}
			s.admit(limiters[0], "half", changed.Capacity())
			s.Advance(300 * time.Hour)
			s.admit(limiters[1], "half", changed.Capacity())
			s.admit(limiters[0], "spent", changed.Capacity())
		}
	}
}
