package denycache_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
)

func TestDeniedKeyIsNotAskedFor(t *testing.T) {
	for _, make := range algorithms {
		b := newBench(t, denycache.MaxAge(age))
		l := limiter(t, b.cache, make("r", core.PerMinute(6)))
		b.elsewhere(l, "k", 6)
		first := b.there(l, "k", 1)
		for range 1000 {
			b.clocks.pass(time.Millisecond)
			if d := b.here(l, "k", 1); d.Len() != 1 || d.State(0).Rule.Name() != "r" || d.RetryAfter > first.RetryAfter {
				t.Fatalf("first %+v, then %+v", first, d)
			}
		}
		if d := b.here(l, "k", 1); d.RetryAfter != first.RetryAfter-time.Second {
			t.Errorf("%v and a second later %v", first.RetryAfter, d.RetryAfter)
		}
		if s := b.cache.Stats(); s.Hits != 1001 || s.Misses != 1 || s.Keys != 1 {
			t.Errorf("%+v", s)
		}
	}
}

// An event that leaves too little for another of its kind says already what that
// would be told.
func TestForeseen(t *testing.T) {
	for _, make := range algorithms {
		for _, events := range []int{6, 7} { // of a minute: a token of 10 s, and one of a fraction of a microsecond
			for _, soft := range []float64{0, 50} {
				b := newBench(t, denycache.MaxAge(age))
				rule := make("r", core.PerMinute(events)).Soft(soft)
				l := limiter(t, b.cache, rule)
				for ask(t, l, "k", 1).State(0).Remaining > 1 {
					b.clocks.pass(1234 * time.Microsecond)
				}
				ask(t, l, "k", 1)
				asked := b.behind.Calls()
				got := ask(t, l, "k", 1).State(0)
				here := b.behind.Calls() == asked
				bucket := rule.Algorithm() == driver.TokenBucket || rule.Algorithm() == driver.LeakyBucket
				if want := soft == 0 && (!bucket || events == 6); here != want {
					t.Errorf("%v: foreseen %v, want %v", rule, here, want)
				}
				want, err := limiter(t, b.behind, rule).Peek(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				if here && got != want.State(0) {
					t.Errorf("%v:\n\tgot  %+v\n\twant %+v", rule, got, want.State(0))
				}
				if !here {
					continue
				}
				b.clocks.pass(got.RetryAfter - time.Microsecond)
				if b.there(l, "k", 1).Allowed {
					t.Errorf("%v: admitted a microsecond early", rule)
				}
				b.clocks.pass(time.Microsecond)
				if !b.there(l, "k", 1).Allowed {
					t.Errorf("%v: denied at its time", rule)
				}
			}
		}
	}
}

// A smaller cost may fit where a larger did not; a larger cannot. When it would
// fit is known of buckets and fixed windows; of logs only the Store knows, so some
// costs are asked for, and those between them are told the time of a larger one.
func TestCosts(t *testing.T) {
	for _, make := range algorithms {
		b := newBench(t, denycache.MaxAge(age))
		l := limiter(t, b.cache, make("r", core.PerMinute(10)))
		ask(t, l, "k", 4)
		b.clocks.pass(time.Second)
		ask(t, l, "k", 1)
		if b.there(l, "k", 7).Allowed || b.there(l, "k", 6).Allowed || !b.there(l, "k", 4).Allowed {
			t.Fatal("of 5 that are left, 7 and 6 do not fit, and 4 do")
		}
		logs := isLog(l.Rules()[0].Compiled())
		if logs {
			b.there(l, "k", 10)
		}
		for cost := 2; cost <= 12; cost++ {
			bare := []driver.Charge{{Key: "k", Rule: l.Rules()[0].Compiled(), Cost: cost}}
			if err := b.behind.Take(t.Context(), bare); err != nil {
				t.Fatal(err)
			}
			var d core.Decision
			if logs && (cost == 3 || cost == 4) { // with those there is no room for others
				d = b.there(l, "k", cost)
			} else {
				d = b.here(l, "k", cost)
			}
			late := d.RetryAfter - bare[0].Verdict.RetryAfter
			if late != 0 && !(logs && cost >= 5 && cost < 10 && late > 0 && late <= time.Second) {
				t.Errorf("%v, cost %d: RetryAfter is %v, behind it is %v", l.Rules()[0], cost, d.RetryAfter, bare[0].Verdict.RetryAfter)
			}
		}
	}
}

// An event that waits less is denied too, with the time at which it would wait so
// little; one that waits longer may be admitted.
func TestMaxDelay(t *testing.T) {
	b := newBench(t, denycache.MaxAge(age))
	rule := core.LeakyBucket("r", core.PerSecond(10))
	ask := func(wait time.Duration) (driver.Verdict, bool) {
		asked := b.behind.Calls()
		charges := []driver.Charge{{Key: "k", Rule: rule.Compiled(), Cost: 1, MaxDelay: wait}}
		if err := b.cache.Take(t.Context(), charges); err != nil {
			t.Fatal(err)
		}
		return charges[0].Verdict, b.behind.Calls() == asked
	}
	for range 5 {
		ask(0)
	}
	if st, _ := ask(200 * time.Millisecond); st.Allowed || st.RetryAfter != 300*time.Millisecond {
		t.Fatalf("a turn in 500 ms, for who waits 200: %+v", st)
	}
	if st, here := ask(200 * time.Millisecond); st.Allowed || !here {
		t.Errorf("the same again: %+v, here %v", st, here)
	}
	if st, here := ask(50 * time.Millisecond); st.Allowed || !here || st.RetryAfter != 450*time.Millisecond {
		t.Errorf("for who waits 50: %+v, here %v", st, here)
	}
	if st, here := ask(300 * time.Millisecond); st.Allowed || here {
		t.Errorf("for who waits 300: %+v, here %v", st, here)
	}
	if st, here := ask(0); !st.Allowed || here {
		t.Errorf("for who waits: %+v, here %v", st, here)
	}
}

// A deadline is a MaxDelay to core.Wait, and means nothing to any but leaky buckets.
func TestMaxDelayOfOthers(t *testing.T) {
	b := newBench(t)
	l, key := b.spent(10)
	for _, wait := range []time.Duration{time.Millisecond, time.Microsecond, time.Hour} {
		asked := b.behind.Calls()
		d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: key, Cost: 1, MaxDelay: wait})
		if err != nil || d.Allowed || b.behind.Calls() != asked {
			t.Errorf("with %v: %+v, %v", wait, d, err)
		}
	}
}

func TestShadowDeniesNothing(t *testing.T) {
	b := newBench(t)
	l := limiter(t, b.cache, core.TokenBucket("wide", core.PerHour(5)), core.TokenBucket("trial", core.PerHour(2)).Shadow())
	for range 5 {
		if !b.there(l, "k", 1).Allowed {
			t.Fatal("a shadow denied")
		}
	}
	if d := b.here(l, "k", 1); d.State(1).Allowed || d.State(1).Remaining != 0 || d.RetryAfter != d.State(0).RetryAfter {
		t.Errorf("%+v", d)
	}
}

// A rule with another limit is another question.
func TestLimitChanges(t *testing.T) {
	b := newBench(t, denycache.MaxAge(age))
	spare := 0.0
	l := limiter(t, b.cache, core.TokenBucket("r", core.PerHour(10)).Elastic(func() float64 { return spare }, 2))
	ask(t, l, "k", 10)
	b.here(l, "k", 1)
	spare = 1
	if b.there(l, "k", 1).Allowed {
		t.Error("a bucket that is spent is spent, whatever its size")
	}
	b.here(l, "k", 1)
	small, large := core.FixedWindow("w", core.PerHour(3)), core.FixedWindow("w", core.PerHour(5))
	same := core.FixedWindow("w", core.PerHour(3))
	take := func(r core.Rule) (allowed, here bool) {
		asked := b.behind.Calls()
		charges := []driver.Charge{{Key: "k", Rule: r.Compiled(), Cost: 1}}
		if err := b.cache.Take(t.Context(), charges); err != nil {
			t.Fatal(err)
		}
		return charges[0].Verdict.Allowed, b.behind.Calls() == asked
	}
	for range 4 {
		take(small)
	}
	if allowed, here := take(same); allowed || !here {
		t.Errorf("the same definition in another place: allowed %v, here %v", allowed, here)
	}
	if allowed, _ := take(large); !allowed {
		t.Error("a raised limit did not get through")
	}
	if allowed, here := take(small); allowed || here {
		t.Errorf("the small one after that: allowed %v, here %v", allowed, here)
	}
	three := []driver.Charge{{Key: "k", Rule: large.Compiled(), Cost: 3}}
	if err := b.cache.Take(t.Context(), three); err != nil || three[0].Verdict.Allowed {
		t.Fatalf("three more than 4 of 5: %+v, %v", three, err)
	}
	if allowed, _ := take(large); !allowed {
		t.Error("what the small one denied, the large one was denied for")
	}
}
