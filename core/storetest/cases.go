package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
)

func cases() []testCase {
	return []testCase{
		{
			"Capacity",
			"While the clock stands still, exactly the capacity is admitted, and Remaining counts it down by one.",
			eachAlgorithm(capacity),
		},
		{
			"RetryAfter",
			"Waiting exactly RetryAfter admits the same cost; a microsecond less does not.",
			eachAlgorithm(retryAfter),
		},
		{
			"Periods",
			"Any period works, from a millisecond to a year, and any rate, without drift.",
			eachAlgorithm(periods),
		},
		{
			"NoDrift",
			"A bucket that is kept busy admits its burst and its rate, exactly.",
			noDrift,
		},
		{
			"DenialTakesNothing",
			"A denial leaves every rule of every key as it was.",
			eachAlgorithm(denialTakesNothing),
		},
		{
			"AllOrNone",
			"Several rules and several keys are charged together or not at all.",
			eachAlgorithm(allOrNone),
		},
		{
			"SameRuleTwice",
			"Asks that meet in one rule of one key are charged their sum.",
			eachAlgorithm(sameRuleTwice),
		},
		{
			"Never",
			"A cost above the capacity is denied with Never and changes nothing, however large it is.",
			eachAlgorithm(never),
		},
		{
			"Peek",
			"Peek, and a cost of zero, say what Allow would say and take nothing.",
			eachAlgorithm(peek),
		},
		{
			"Reset",
			"Reset forgets what a key has used.",
			eachAlgorithm(reset),
		},
		{
			"Refund",
			"Refund gives back what was taken, never above the capacity.",
			eachAlgorithm(refund),
		},
		{
			"Keys",
			"Different keys never share state, whatever bytes they are made of.",
			eachAlgorithm(keys),
		},
		{
			"ClockStepsBack",
			"A clock that steps back admits nothing extra, and locks nobody out for longer than a period.",
			eachAlgorithm(clockStepsBack),
		},
		{
			"ClockLeaps",
			"A clock that leaps forward grants at most one burst.",
			eachAlgorithm(clockLeaps),
		},
		{
			"LimitChanges",
			"State that was written under another limit gives no burst above the new one and locks nobody out.",
			eachAlgorithm(limitChanges),
		},
		{
			"InvalidCharges",
			"Charges that break the contract are an error, and nothing is taken.",
			eachAlgorithm(invalidCharges),
		},
		{
			"Cancelled",
			"A context that has ended is an error of that context, and nothing is taken.",
			eachAlgorithm(cancelled),
		},
		{
			"Concurrency",
			"64 goroutines with 100 calls each are admitted exactly up to the limit.",
			eachAlgorithm(concurrency),
		},
		{
			"ConcurrentAllOrNone",
			"Concurrent decisions over two keys take from both or from neither.",
			concurrentAllOrNone,
		},
		{
			"Histories",
			"Every answer equals that of the reference model, over random costs, gaps, rules, keys and clock steps.",
			histories,
		},
	}
}

// grain is a sub-window of a minute: for so long a sliding window counter may
// hold on to what an exact one would have let go.
const grain = time.Minute / core.DefaultSubWindows

func capacity(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(10)))
	for left := 9; left >= 0; left-- {
		st := s.admit(l, "k", 1).State(0)
		if st.Remaining != left {
			s.fail("%s: Remaining is %d, want %d", a.name, st.Remaining, left)
		}
		if st.ResetAfter <= 0 || st.ResetAfter > time.Minute+grain {
			s.fail("%s: ResetAfter is %v", a.name, st.ResetAfter)
		}
	}
	d := s.deny(l, "k", 1)
	if d.RetryAfter <= 0 || d.RetryAfter > time.Minute+grain || d.State(0).RetryAfter != d.RetryAfter {
		s.fail("%s: RetryAfter is %v, and %v in the State", a.name, d.RetryAfter, d.State(0).RetryAfter)
	}
	s.admit(l, "another", 10)
}

func retryAfter(s *subject, a algorithm) {
	for i, limit := range []core.Limit{core.PerSecond(3), core.PerSecond(7), core.Per(5, 13*time.Millisecond), core.PerHour(11)} {
		l := s.limiter(a.rule(fmt.Sprint(a.name, i), limit))
		for cost := 1; cost <= limit.Events; cost++ {
			key := fmt.Sprint("k", cost)
			s.admit(l, key, limit.Events-1)
			s.Advance(time.Microsecond)
			s.admit(l, key, 1)
			d := s.deny(l, key, cost)
			s.Advance(d.RetryAfter - time.Microsecond)
			if again := s.deny(l, key, cost); again.RetryAfter != time.Microsecond {
				s.fail("%s %v: a microsecond before its time, cost %d has RetryAfter %v", a.name, limit, cost, again.RetryAfter)
			}
			s.Advance(time.Microsecond)
			s.admit(l, key, cost)
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
		l := s.limiter(a.rule(fmt.Sprint(a.name, i), limit))
		s.admit(l, "k", limit.Events)
		d := s.deny(l, "k", limit.Events)
		switch most := limit.Per + limit.Per/core.DefaultSubWindows; {
		case a.name == "fixed_window" && d.RetryAfter > 0 && d.RetryAfter <= limit.Per:
		case a.name == "sliding_window" && d.RetryAfter >= limit.Per && d.RetryAfter <= most:
		case d.RetryAfter != limit.Per:
			s.fail("%s %v: all of it is back after %v", a.name, limit, d.RetryAfter)
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
	const steps, step = 3000, 7 * time.Millisecond // 21 s, and 7/s do not divide it
	for range steps {
		if s.ask(l, "k", 1).Allowed {
			admitted++
		}
		s.Advance(step)
	}
	// The last step ends after the last call.
	if want := limit.Burst + int((steps-1)*step*time.Duration(limit.Events)/limit.Per); admitted != want {
		s.fail("%d were admitted in %v, want %d", admitted, steps*step, want)
	}
}

func denialTakesNothing(s *subject, a algorithm) {
	l := s.limiter(a.rule("small"+a.name, core.PerMinute(2)), a.rule("large"+a.name, core.PerMinute(100)))
	s.admit(l, "k", 2)
	before := s.peek(l, "k")
	for range 50 {
		s.deny(l, "k", 1)
	}
	after := s.peek(l, "k")
	for i := range before.Len() {
		if after.State(i) != before.State(i) && !sameState(before.State(i), after.State(i)) {
			s.fail("%s: 50 denials turned %+v into %+v", a.name, before.State(i), after.State(i))
		}
	}
	if got := after.State(1).Remaining; got != 98 {
		s.fail("%s: the rule that did not deny has %d left, want 98", a.name, got)
	}
}

// sameState compares all but the Rule pointers.
func sameState(a, b core.State) bool {
	a.Rule, b.Rule = nil, nil
	return a == b
}

func allOrNone(s *subject, a algorithm) {
	user := s.limiter(a.rule("user"+a.name, core.PerHour(5)))
	ip := s.limiter(a.rule("ip"+a.name, core.PerHour(1000)))
	for _, order := range []string{"user first", "ip first"} {
		asks := []core.Ask{
			{Limiter: user, Key: "user " + order, Cost: 1},
			{Limiter: ip, Key: "ip " + order, Cost: 1},
		}
		if order == "ip first" {
			asks[0], asks[1] = asks[1], asks[0]
		}
		admitted := 0
		for range 50 {
			d, err := core.AllowAll(context.Background(), asks...)
			if err != nil {
				s.fail("AllowAll: %v", err)
			}
			if d.Len() != 2 {
				s.fail("%d states, want 2", d.Len())
			}
			if d.Allowed {
				admitted++
			}
		}
		if admitted != 5 {
			s.fail("%s, %s: %d of 50 were admitted, want 5", a.name, order, admitted)
		}
		if left := s.peek(ip, "ip "+order).State(0).Remaining; left != 995 {
			s.fail("%s, %s: the IP has %d left, want 995", a.name, order, left)
		}
	}
}

func sameRuleTwice(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerHour(5)))
	ask := core.Ask{Limiter: l, Key: "k", Cost: 3}
	d, err := core.AllowAll(context.Background(), ask, ask)
	if err != nil || d.Allowed || d.RetryAfter != core.Never || d.Len() != 2 {
		s.fail("%s: 3 and 3 of 5: %+v, %v", a.name, d, err)
	}
	ask.Cost = 2
	d, err = core.AllowAll(context.Background(), ask, ask)
	if err != nil || !d.Allowed || d.State(1).Remaining != 1 {
		s.fail("%s: 2 and 2 of 5: %+v, %v", a.name, d, err)
	}
}

func never(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(10)), a.rule("other"+a.name, core.PerMinute(1<<40)))
	s.admit(l, "k", 4)
	for _, cost := range []int{11, 1 << 31, 1 << 53, 1 << 62, 1<<63 - 1} {
		d := s.deny(l, "k", cost)
		if d.RetryAfter != core.Never || d.State(0).RetryAfter != core.Never {
			s.fail("%s: cost %d has RetryAfter %v", a.name, cost, d.RetryAfter)
		}
		if d.State(0).Remaining != 6 {
			s.fail("%s: cost %d left %d, want 6", a.name, cost, d.State(0).Remaining)
		}
	}
	if d := s.peek(l, "k"); d.State(1).Remaining != 1<<40-4 {
		s.fail("%s: the other rule has %d left", a.name, d.State(1).Remaining)
	}
	if _, err := l.AllowN(context.Background(), "k", -1); !errors.Is(err, core.ErrNegativeCost) {
		s.fail("%s: cost -1: %v", a.name, err)
	}
	s.admit(l, "k", 6)
}

func peek(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(3)))
	for range 10 {
		if d := s.peek(l, "k"); !d.Allowed || d.State(0).Remaining != 3 {
			s.fail("%s: a fresh key looks like %+v", a.name, d)
		}
		s.admit(l, "k", 0)
	}
	s.admit(l, "k", 3)
	if d := s.peek(l, "k"); d.Allowed || d.RetryAfter != s.deny(l, "k", 1).RetryAfter {
		s.fail("%s: a spent key looks like %+v", a.name, d)
	}
}

func reset(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(3)), a.rule("second"+a.name, core.PerMinute(4)))
	s.admit(l, "k", 3)
	s.deny(l, "k", 1)
	if err := l.Reset(context.Background(), "k"); err != nil {
		s.fail("Reset: %v", err)
	}
	if d := s.admit(l, "k", 3); d.State(0).Remaining != 0 || d.State(1).Remaining != 1 {
		s.fail("%s: after a Reset and 3 events: %+v", a.name, d)
	}
}

func refund(s *subject, a algorithm) {
	ctx := context.Background()
	l := s.limiter(a.rule(a.name, core.PerMinute(10)), a.rule("wide"+a.name, core.PerMinute(20)))
	give := func(n int) {
		if err := l.Refund(ctx, "k", n); err != nil {
			s.fail("%s: Refund(%d): %v", a.name, n, err)
		}
	}
	give(3) // of nothing
	s.admit(l, "k", 10)
	s.deny(l, "k", 1)
	give(4)
	if d := s.peek(l, "k"); d.State(0).Remaining != 4 || d.State(1).Remaining != 14 {
		s.fail("%s: 10 less 4: %+v", a.name, d)
	}
	s.admit(l, "k", 4)
	give(0)
	s.deny(l, "k", 1)
	give(1 << 60)
	if d := s.peek(l, "k"); d.State(0).Remaining != 10 || d.State(1).Remaining != 20 {
		s.fail("%s: all refunded: %+v", a.name, d)
	}
	s.admit(l, "k", 10)
	s.deny(l, "k", 1)
	if err := l.Refund(ctx, "k", -1); !errors.Is(err, core.ErrNegativeCost) {
		s.fail("%s: Refund(-1): %v", a.name, err)
	}
}

func keys(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(1)))
	long := strings.Repeat("x", 10_000)
	for _, key := range []string{
		"", " ", "\x00", "a", "a\x00", "A", "{", "}", "{}", "{a}", "{a}b", "a{b}c", "a:b", "a b", "a\r\nb",
		"\xff\xfe", "1.2.3.4", "user:1.2.3.4", long, long + "y", "é", "e\u0301",
	} {
		s.admit(l, key, 1)
		s.deny(l, key, 1)
	}
}

func clockStepsBack(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(6)))
	s.admit(l, "spent", 6)
	s.admit(l, "half", 3)
	s.admit(l, "idle", 1)
	s.Advance(-time.Hour)
	s.deny(l, "spent", 1)
	if d := s.ask(l, "half", 4); d.Allowed {
		s.fail("%s: 3 and 4 of 6 were admitted across a step back", a.name)
	}
	d := s.ask(l, "spent", 1)
	if d.RetryAfter > time.Minute+grain {
		s.fail("%s: locked out for %v", a.name, d.RetryAfter)
	}
	s.Advance(d.RetryAfter)
	s.admit(l, "spent", 1)
	s.ask(l, "idle", 1)
	s.Advance(time.Minute + grain)
	s.admit(l, "half", 6)
	s.admit(l, "idle", 6)
}

func clockLeaps(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(6)))
	s.admit(l, "k", 6)
	s.Advance(10 * 365 * 24 * time.Hour)
	s.admit(l, "k", 6)
	s.deny(l, "k", 1)
}

// limitChanges goes past New, which would refuse the second definition: two
// processes may hold different ones while a new version is rolled out.
func limitChanges(s *subject, a algorithm) {
	large, small := a.rule(a.name, core.PerMinute(100)), a.rule(a.name, core.PerMinute(10))
	odd := a.rule(a.name, core.Per(7, 11*time.Second))
	take := func(r *core.Rule, cost int) core.State {
		charges := []core.Charge{{Key: "k", Rule: r, Cost: cost}}
		if err := s.Store.Take(context.Background(), charges); err != nil {
			s.fail("Take: %v", err)
		}
		return charges[0].State
	}
	take(&large, 95)
	for _, r := range []*core.Rule{&small, &odd, &small, &large, &odd} {
		if st := take(r, r.Capacity()); st.Allowed || st.RetryAfter > time.Minute+grain {
			s.fail("%s: with 95 of 100 used, all of %v: %+v", a.name, r, st)
		}
	}
	s.Advance(time.Minute + grain)
	if st := take(&small, 10); !st.Allowed {
		s.fail("%s: a minute later, all of %v: %+v", a.name, &small, st)
	}
	if st := take(&large, 100); st.Allowed {
		s.fail("%s: spent under %v, all of %v was admitted", a.name, &small, &large)
	}
}

func invalidCharges(s *subject, a algorithm) {
	rule, broken, zero := a.rule(a.name, core.PerMinute(3)), a.rule("", core.PerMinute(3)), core.Rule{}
	good := core.Charge{Key: "k", Rule: &rule, Cost: 1}
	for name, bad := range map[string]core.Charge{
		"no rule":       {Key: "k", Cost: 1},
		"a broken rule": {Key: "k", Rule: &broken, Cost: 1},
		"a zero rule":   {Key: "k", Rule: &zero, Cost: 1},
		"no cost":       {Key: "other", Rule: &rule},
		"a debt":        {Key: "other", Rule: &rule, Cost: -1},
		"a duplicate":   good,
		"no such op":    {Key: "other", Rule: &rule, Cost: 1, Op: 200},
		"a refund":      {Key: "other", Rule: &rule, Cost: 1, Op: core.Refund},
	} {
		if err := s.Store.Take(context.Background(), []core.Charge{good, bad}); !errors.Is(err, core.ErrInvalidCharge) {
			s.fail("%s: %s: %v", a.name, name, err)
		}
	}
	s.admit(s.limiter(rule), "k", 3)
}

func cancelled(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerMinute(3)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if d, err := l.Allow(ctx, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnavailable) || d.Allowed {
		s.fail("%s: %+v, %v", a.name, d, err)
	}
	s.admit(l, "k", 3)
}

func concurrency(s *subject, a algorithm) {
	l := s.limiter(a.rule(a.name, core.PerHour(1000)), a.rule("wide"+a.name, core.PerHour(5000)))
	admitted := s.hammer(64, 100, func(int) (core.Decision, error) { return l.Allow(context.Background(), "k") })
	if admitted != 1000 {
		s.fail("%s: %d were admitted, want 1000", a.name, admitted)
	}
	if left := s.peek(l, "k").State(1).Remaining; left != 4000 {
		s.fail("%s: the wider rule has %d left, want 4000", a.name, left)
	}
}

func concurrentAllOrNone(s *subject) {
	user := s.limiter(core.TokenBucket("user", core.PerHour(100)))
	ip := s.limiter(core.SlidingLog("ip", core.PerHour(5000)))
	admitted := s.hammer(16, 50, func(i int) (core.Decision, error) {
		asks := []core.Ask{{Limiter: user, Key: "u", Cost: 1}, {Limiter: ip, Key: "i", Cost: 1}}
		if i%2 == 0 {
			asks[0], asks[1] = asks[1], asks[0]
		}
		return core.AllowAll(context.Background(), asks...)
	})
	if admitted != 100 {
		s.fail("%d were admitted, want 100", admitted)
	}
	if left := s.peek(ip, "i").State(0).Remaining; left != 4900 {
		s.fail("the IP has %d left, want 4900", left)
	}
}

// hammer makes calls from many goroutines and counts what was admitted.
func (s *subject) hammer(goroutines, calls int, call func(i int) (core.Decision, error)) int64 {
	s.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for g := range goroutines {
		wg.Go(func() {
			for range calls {
				d, err := call(g)
				if err != nil {
					failed.Store(&err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		s.fail("a call failed: %v", *err)
	}
	return admitted.Load()
}
