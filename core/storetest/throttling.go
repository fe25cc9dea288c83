package storetest

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
)

// The cases of this file are about limits that bend, and rules that only watch.

func soft(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(20)).Soft(10))
	for n := 1; n <= 22; n++ {
		d := s.admit(l, "k", 1)
		if st := d.State(0); st.Soft != (n > 20) || d.Soft() != st.Soft || st.Remaining != max(0, 20-n) {
			s.fail("event %d of 20 and 10 percent: %+v", n, st)
		}
	}
	d := s.deny(l, "k", 1)
	if d.Soft() || d.State(0).Remaining != 0 {
		s.fail("denied beyond what is soft: %+v", d.State(0))
	}
	s.Advance(d.RetryAfter - time.Microsecond)
	s.deny(l, "k", 1)
	s.Advance(time.Microsecond)
	if d := s.admit(l, "k", 1); isBucket(a) != d.Soft() { // of windows all has left
		s.fail("back at what is soft: %+v", d.State(0))
	}
	if d := s.peek(l, "another"); d.Soft() || d.State(0).Remaining != 20 {
		s.fail("a fresh key: %+v", d.State(0))
	}
	if d := s.deny(l, "another", 23); d.RetryAfter != core.Never {
		s.fail("23 of 22: %+v", d)
	}
	if d := s.admit(l, "another", 21); !d.Soft() {
		s.fail("21 of 20 at once: %+v", d.State(0))
	}
}

func shadow(s *subject, a algorithm) {
	l := s.limiter(a.Rule("watch"+a.Name, core.PerMinute(3)).Shadow(), a.Rule(a.Name, core.PerMinute(5)))
	for n := 1; n <= 5; n++ {
		d := s.admit(l, "k", 1)
		if st := d.State(0); st.Allowed != (n <= 3) || st.Remaining != max(0, 3-n) || d.Delay != d.State(1).Delay {
			s.fail("event %d in the shadow of 3: %+v", n, d)
		}
	}
	d := s.deny(l, "k", 1)
	if d.RetryAfter != d.State(1).RetryAfter {
		s.fail("RetryAfter %v is not that of the rule that counts: %+v", d.RetryAfter, d)
	}
	// What is denied is not charged to the one that watches.
	other := s.limiter(a.Rule("wide"+a.Name, core.PerMinute(10)).Shadow(), a.Rule("small"+a.Name, core.PerMinute(1)))
	s.admit(other, "k", 1)
	for range 5 {
		s.deny(other, "k", 1)
	}
	s.remain(other, "k", 9, 0)
	alone := s.limiter(a.Rule("alone"+a.Name, core.PerMinute(1)).Shadow())
	for range 3 {
		s.admit(alone, "k", 1)
	}
	if d := s.admit(alone, "k", 5); d.State(0).RetryAfter != core.Never || d.RetryAfter != 0 {
		s.fail("what a shadow could never admit: %+v", d)
	}
}

func elastic(s *subject, a algorithm) {
	var spare float64
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)).Elastic(func() float64 { return spare }, 2))
	s.admit(l, "k", 5)
	spare = 1
	d, want := s.peek(l, "k"), 15
	if isBucket(a) {
		want = 10 // used by half is used by half
	}
	if st := d.State(0); st.Rule.Limit().Events != 20 || st.Remaining != want {
		s.fail("all is free, and of %v there are %d left, want %d", st.Rule, st.Remaining, want)
	}
	s.admit(l, "k", want)
	s.deny(l, "k", 1)
	spare = 0
	if d := s.deny(l, "k", 1); d.RetryAfter > time.Minute+grain {
		s.fail("nothing is free any more, and the key is locked out for %v", d.RetryAfter)
	}
	s.Advance(time.Minute + grain)
	s.admit(l, "k", 10)
	s.deny(l, "k", 1)
	s.admit(l, "another", 10)
	s.deny(l, "another", 1)
}

func debit(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)))
	s.debit(l, 0)
	s.admit(l, "k", 1)
	s.debit(l, 4)
	s.remain(l, "k", 5)
	s.debit(l, 25)
	s.remain(l, "k", 0)
	d := s.deny(l, "k", 1)
	// A bucket pays back 20 and refills 1; what forgets has forgotten after a period.
	least, most := time.Duration(1), time.Minute+grain
	if isBucket(a) {
		least, most = 21*6*time.Second, 21*6*time.Second
	}
	if d.RetryAfter < least || d.RetryAfter > most {
		s.fail("30 of 10 are used, and RetryAfter is %v", d.RetryAfter)
	}
	s.Advance(d.RetryAfter - time.Microsecond)
	s.deny(l, "k", 1)
	s.Advance(time.Microsecond)
	s.admit(l, "k", 1)
	s.debit(l, math.MaxInt)
	if d := s.deny(l, "k", 1); d.RetryAfter == core.Never || d.RetryAfter <= 0 {
		s.fail("no debt lasts for ever: %v", d.RetryAfter)
	}
	if _, err := l.Reset(context.Background(), "k"); err != nil {
		s.fail("Reset: %v", err)
	}
	s.admit(l, "k", 10)
}

// Bills of any size, and any number of them, deny: no counter goes round.
func debitMost(s *subject, a algorithm) {
	for _, limit := range []int{3, atMost(1 << 40), atMost(1 << 47)} {
		rule := a.Rule(fmt.Sprint(a.Name, limit), core.PerMinute(limit))
		l, err := core.New(s.Store, rule)
		if err != nil {
			continue // a bucket that no clock can fill
		}
		for n := range 70 {
			s.debit(l, math.MaxInt)
			if d := s.deny(l, "k", 1); d.State(0).Remaining != 0 || d.RetryAfter == core.Never {
				s.fail("%d: after %d bills: %+v", limit, n+1, d)
			}
		}
	}
}

// Who makes a limit stretch and shrink gains nothing by it: never more than the
// largest limit would admit all the time.
func elasticFlaps(s *subject) {
	for i, limit := range []core.Limit{
		core.PerSecond(1).WithBurst(100), core.PerSecond(1), core.PerMinute(7).WithBurst(7), core.PerSecond(3).WithBurst(10),
	} {
		const upTo = 1.9
		var spare float64
		l := s.limiter(core.TokenBucket(fmt.Sprint("flap", i), limit).Elastic(func() float64 { return spare }, upTo))
		spare = 1
		s.peek(l, "k")
		admitted, begin := 0, s.Now()
		for step := range 200 {
			spare = float64(1 - step%2)
			for s.ask(l, "k", 1).Allowed {
				admitted++
			}
			s.Advance(250 * time.Millisecond)
		}
		burst := limit.Burst
		if burst == 0 {
			burst = limit.Events
		}
		most := upTo * (float64(burst) + float64(limit.Events)*s.Now().Sub(begin).Seconds()/limit.Per.Seconds())
		if float64(admitted) > most {
			s.fail("%v: %d were admitted, and the largest limit would have admitted %.0f", limit, admitted, most)
		}
	}
}

func isBucket(a algorithm) bool { return a.Name == "token_bucket" || a.Name == "leaky_bucket" }

// A debt is one thing, a clock that stepped back is another.
func debtAndClock(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(60)))
	s.debit(l, 180)
	before := s.deny(l, "k", 1).RetryAfter
	s.Advance(-time.Hour)
	if after := s.deny(l, "k", 1).RetryAfter; after > before+time.Minute {
		s.fail("a step back of an hour turned %v into %v", before, after)
	}
	s.Advance(time.Hour)
	s.admit(l, "k", 1)
}

func maxDelay(s *subject) {
	const ms = time.Millisecond
	l := s.limiter(core.LeakyBucket("turn", core.PerSecond(10)))
	for i, step := range []struct {
		pass, maxDelay time.Duration
		delay          time.Duration // of an event that is admitted
		retryAfter     time.Duration // of one that is not
	}{
		{0, 200 * ms, 0, 0}, {0, 200 * ms, 100 * ms, 0}, {0, 200 * ms, 200 * ms, 0},
		{0, 200 * ms, 0, 100 * ms}, // its turn is in 300 ms
		{0, 1, 0, 300 * ms},        // does not wait
		{100*ms - time.Microsecond, 200 * ms, 0, time.Microsecond},
		{time.Microsecond, 200 * ms, 200 * ms, 0},
		{0, 0, 300 * ms, 0}, // waits for as long as it must
	} {
		s.Advance(step.pass)
		d := s.together(core.Ask{Limiter: l, Key: "k", MaxDelay: step.maxDelay})
		if d.Allowed != (step.retryAfter == 0) || d.Delay != step.delay || d.RetryAfter != step.retryAfter {
			s.fail("event %d: got %+v, want a delay of %v or a RetryAfter of %v", i, d, step.delay, step.retryAfter)
		}
	}
}

// anyWindow lets a client burst at every edge that it can find, and looks at all
// spans of a period afterwards.
func anyWindow(s *subject) {
	for _, a := range []algorithm{{Name: "sliding_log", Rule: core.SlidingLog}, {Name: "sliding_window", Rule: core.SlidingWindow}} {
		s.about = a.Name
		const limit = 30
		l := s.limiter(a.Rule(a.Name, core.PerMinute(limit)))
		var admitted []time.Time
		for step := range 300 {
			if step%3 == 0 { // to the edge of a minute, or of a sub-window
				edge := []time.Duration{time.Minute, grain}[step%2]
				s.Advance(edge - time.Microsecond - s.Now().Sub(s.Now().Truncate(edge)))
			} else {
				s.Advance(time.Duration(step%7) * time.Microsecond)
			}
			for s.ask(l, "k", 1).Allowed {
				admitted = append(admitted, s.Now())
			}
			if d := s.peek(l, "k"); step%5 == 0 {
				s.Advance(d.RetryAfter)
			}
		}
		if len(admitted) < 5*limit {
			s.fail("only %d were admitted: the case checks nothing", len(admitted))
		}
		for i := limit; i < len(admitted); i++ {
			if span := admitted[i].Sub(admitted[i-limit]); span < time.Minute {
				s.fail("%d events within %v", limit+1, span)
			}
		}
	}
}

// smallest lets many ask for one key under rules of every algorithm.
func smallest(s *subject) {
	var rules []core.Rule
	for i, a := range testkit.Algorithms {
		rules = append(rules, a.Rule(fmt.Sprint("rule ", i), core.PerDay(700+100*((i+2)%len(testkit.Algorithms)))))
	}
	l := s.limiter(rules...)
	admitted := s.hammer(64, 25, func(int) (core.Decision, error) { return l.Allow(context.Background(), "k") })
	if admitted != 700 {
		s.fail("%d were admitted, want 700, the smallest limit", admitted)
	}
	for _, st := range s.states(l, "k") {
		if st.Used() != 700 {
			s.fail("%s has used %d, want 700", st.Rule, st.Used())
		}
	}
}
