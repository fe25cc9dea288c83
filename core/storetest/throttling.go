package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

func soft(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(20)).Soft(10))
	for n := 1; n <= 22; n++ {
		d := s.admit(l, "k", 1)
		if st := d.State(0); st.Soft != (n > 20) || d.Soft() != st.Soft || st.Remaining != max(0, 20-n) {
			s.fail("event %d of 20 plus 10 percent: got %+v", n, st)
		}
	}
	d := s.deny(l, "k", 1)
	if d.Soft() || d.State(0).Remaining != 0 {
		s.fail("denial above the soft limit: got %+v, want Remaining 0 and not Soft", d.State(0))
	}
	s.Advance(d.RetryAfter - time.Microsecond)
	s.deny(l, "k", 1)
	s.Advance(time.Microsecond)
	// In windows and logs, all earlier events have expired by now.
	if d := s.admit(l, "k", 1); isBucket(a) != d.Soft() {
		s.fail("the first event after RetryAfter: got %+v, want Soft for buckets only", d.State(0))
	}
	if d := s.peek(l, "another"); d.Soft() || d.State(0).Remaining != 20 {
		s.fail("an unused key: got %+v, want Remaining 20 and not Soft", d.State(0))
	}
	if d := s.deny(l, "another", 23); d.RetryAfter != core.Never {
		s.fail("23 events, with a capacity of 22: got %+v, want RetryAfter Never", d)
	}
	if d := s.admit(l, "another", 21); !d.Soft() {
		s.fail("21 events at once, with a limit of 20: got %+v, want Soft", d.State(0))
	}
}

func shadow(s *subject, a algorithm) {
	l := s.limiter(a.Rule("shadow"+a.Name, core.PerMinute(3)).Shadow(), a.Rule(a.Name, core.PerMinute(5)))
	for n := 1; n <= 5; n++ {
		d := s.admit(l, "k", 1)
		if st := d.State(0); st.Allowed != (n <= 3) || st.Remaining != max(0, 3-n) || d.Delay != d.State(1).Delay {
			s.fail("event %d under a shadow limit of 3: got %+v", n, d)
		}
	}
	d := s.deny(l, "k", 1)
	if d.RetryAfter != d.State(1).RetryAfter {
		s.fail("got %+v, want the RetryAfter of the enforced rule", d)
	}
	// A denied event is not charged to the shadow rule.
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
		s.fail("a cost above the capacity of a shadow rule: got %+v, want RetryAfter Never in the State only", d)
	}
}

func elastic(s *subject, a algorithm) {
	var spare float64
	l := s.limiter(a.Rule(a.Name, core.PerMinute(10)).Elastic(func() float64 { return spare }, 2))
	s.admit(l, "k", 5)
	spare = 1
	d, want := s.peek(l, "k"), 15
	if isBucket(a) {
		want = 10 // half of the larger limit: the bucket stays half full
	}
	if st := d.State(0); st.Rule.Limit().Events != 20 || st.Remaining != want {
		s.fail("all resources are idle: got %d events left of %v, want %d of 20", st.Remaining, &st.Rule, want)
	}
	s.admit(l, "k", want)
	s.deny(l, "k", 1)
	spare = 0
	if d := s.deny(l, "k", 1); d.RetryAfter > time.Minute+subWindow {
		s.fail("no resources are idle: got RetryAfter %v, want at most %v", d.RetryAfter, time.Minute+subWindow)
	}
	s.Advance(time.Minute + subWindow)
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
	// A bucket refills 20 tokens of debt and 1 for the event. A window or log forgets within a period.
	least, most := time.Duration(1), time.Minute+subWindow
	if isBucket(a) {
		least, most = 21*6*time.Second, 21*6*time.Second
	}
	if d.RetryAfter < least || d.RetryAfter > most {
		s.fail("30 events of a limit of 10 are used: got RetryAfter %v, want %v to %v", d.RetryAfter, least, most)
	}
	s.Advance(d.RetryAfter - time.Microsecond)
	s.deny(l, "k", 1)
	s.Advance(time.Microsecond)
	s.admit(l, "k", 1)
	s.debit(l, math.MaxInt)
	if d := s.deny(l, "k", 1); d.RetryAfter == core.Never || d.RetryAfter <= 0 {
		s.fail("after the largest debit: got RetryAfter %v, want a finite wait", d.RetryAfter)
	}
	if _, err := l.Reset(context.Background(), "k"); err != nil {
		s.fail("Reset: %v", err)
	}
	s.admit(l, "k", 10)
}

// Many large debits would make a counter overflow.
func debitMost(s *subject, a algorithm) {
	for _, limit := range []int{3, atMost(1 << 40), atMost(1 << 47)} {
		rule := a.Rule(fmt.Sprint(a.Name, limit), core.PerMinute(limit))
		l, err := core.New(s.Store, rule)
		if err != nil {
			continue // the capacity of a bucket is bounded
		}
		for n := range 70 {
			s.debit(l, math.MaxInt)
			if d := s.deny(l, "k", 1); d.State(0).Remaining != 0 || d.RetryAfter == core.Never {
				s.fail("limit %d, after %d debits: got %+v, want Remaining 0 and a finite RetryAfter", limit, n+1, d)
			}
		}
	}
}

// A client that can make a limit grow and shrink must not gain events by it.
func elasticFlaps(s *subject) {
	for i, limit := range []core.Limit{
		core.PerSecond(1).WithBurst(100), core.PerSecond(1), core.PerMinute(7).WithBurst(7), core.PerSecond(3).WithBurst(10),
	} {
		const upTo = 1.9
		var spare float64
		l := s.limiter(core.TokenBucket(fmt.Sprint("elastic", i), limit).Elastic(func() float64 { return spare }, upTo))
		spare = 1
		s.peek(l, "k")
		admitted, begin := 0, s.Now()
		for step := range 200 {
			spare = float64(1 - step%2)
			for s.allow(l, "k", 1).Allowed {
				admitted++
			}
			s.Advance(250 * time.Millisecond)
		}
		most := upTo * (float64(cmp.Or(limit.Burst, limit.Events)) + float64(limit.Events)*s.Now().Sub(begin).Seconds()/limit.Per.Seconds())
		if float64(admitted) > most {
			s.fail("%v: %d events were admitted, want at most %.0f, those of the largest limit", limit, admitted, most)
		}
	}
}

func isBucket(a algorithm) bool { return a.Kind().Refills }

func debtAndClock(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerMinute(60)))
	s.debit(l, 180)
	before := s.deny(l, "k", 1).RetryAfter
	s.Advance(-time.Hour)
	if after := s.deny(l, "k", 1).RetryAfter; after > before+time.Minute {
		s.fail("after a step back of an hour: got RetryAfter %v, want at most %v", after, before+time.Minute)
	}
	s.Advance(time.Hour)
	s.admit(l, "k", 1)
}

func maxDelay(s *subject) {
	const ms = time.Millisecond
	l := s.limiter(core.LeakyBucket("queue", core.PerSecond(10)))
	for i, step := range []struct {
		pass, maxDelay time.Duration
		delay          time.Duration // of an admitted event
		retryAfter     time.Duration // of a denied event
	}{
		{0, 200 * ms, 0, 0}, {0, 200 * ms, 100 * ms, 0}, {0, 200 * ms, 200 * ms, 0},
		{0, 200 * ms, 0, 100 * ms}, // would depart in 300 ms
		{0, 1, 0, 300 * ms},        // accepts no delay
		{100*ms - time.Microsecond, 200 * ms, 0, time.Microsecond},
		{time.Microsecond, 200 * ms, 200 * ms, 0},
		{0, 0, 300 * ms, 0}, // accepts any delay
	} {
		s.Advance(step.pass)
		d := s.together(core.Ask{Limiter: l, Key: "k", MaxDelay: step.maxDelay})
		if d.Allowed != (step.retryAfter == 0) || d.Delay != step.delay || d.RetryAfter != step.retryAfter {
			s.fail("event %d: got %+v, want a delay of %v or a RetryAfter of %v", i, d, step.delay, step.retryAfter)
		}
	}
}

// anyWindow sends bursts at the edges of windows and sub-windows, and afterwards checks every span
// of a period.
func anyWindow(s *subject) {
	for _, a := range []algorithm{{Name: "sliding_log", Rule: core.SlidingLog}, {Name: "sliding_window", Rule: core.SlidingWindow}} {
		s.about = a.Name
		const limit = 30
		l := s.limiter(a.Rule(a.Name, core.PerMinute(limit)))
		var admitted []time.Time
		for step := range 300 {
			if step%3 == 0 { // to just before the edge of a minute or sub-window
				edge := []time.Duration{time.Minute, subWindow}[step%2]
				s.Advance(edge - time.Microsecond - s.Now().Sub(s.Now().Truncate(edge)))
			} else {
				s.Advance(time.Duration(step%7) * time.Microsecond)
			}
			for s.allow(l, "k", 1).Allowed {
				admitted = append(admitted, s.Now())
			}
			if d := s.peek(l, "k"); step%5 == 0 {
				s.Advance(d.RetryAfter)
			}
		}
		if len(admitted) < 5*limit {
			s.fail("only %d events were admitted, want at least %d", len(admitted), 5*limit)
		}
		for i := limit; i < len(admitted); i++ {
			if span := admitted[i].Sub(admitted[i-limit]); span < time.Minute {
				s.fail("%d events were admitted within %v, want at most %d in a minute", limit+1, span, limit)
			}
		}
	}
}

func smallest(s *subject) {
	var rules []core.Rule
	for i, a := range testkit.Algorithms {
		rules = append(rules, a.Rule(fmt.Sprint("rule ", i), core.PerDay(700+100*((i+2)%len(testkit.Algorithms)))))
	}
	l := s.limiter(rules...)
	admitted := s.hammer(64, 25, func(int) (core.Decision, error) { return l.Allow(context.Background(), "k") })
	if admitted != 700 {
		s.fail("%d events were admitted, want 700, the smallest limit", admitted)
	}
	for _, st := range s.states(l, "k") {
		if st.Used() != 700 {
			s.fail("%s: got %d events in use, want 700", &st.Rule, st.Used())
		}
	}
}
