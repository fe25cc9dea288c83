package denycache_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// An answer with an error is not cached.
func TestStore_Take_errors(t *testing.T) {
	broken := errors.New("broken")
	f := newFixture(t)
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	f.elsewhere(l, "k", 1)
	for name, hook := range map[string]storetest.Hook{"fails": storetest.Fail(broken), "answer is lost": storetest.Lose(broken)} {
		f.behind.Set(hook)
		for range 3 {
			if d, err := l.Allow(t.Context(), "k"); !errors.Is(err, broken) || d.Allowed {
				t.Errorf("%s: got %v and the error %v, want %v", name, d, err, broken)
			}
		}
	}
	f.behind.Set()
	f.miss(l, "k", 1)
	f.behind.Set(storetest.Fail(broken))
	f.hit(l, "k", 1)
}

// A hit after the end of the context returns its error, as the Store would.
func TestStore_Take_canceledContext(t *testing.T) {
	f := newFixture(t)
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	f.miss(l, "k", 1)
	f.hit(l, "k", 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := l.Allow(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v and the error %v, want %v", d, err, context.Canceled)
	}
}

// After a denial of a small limit, a larger limit admits all events that the Store admits: of another
// plan of the same or another length, of a variant, and after Replace.
func TestStore_Take_otherLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit core.Limit
		view  func(f *fixture, l *core.Limiter, larger core.Rule) *core.Limiter
	}{
		{"plan", core.PerMinute(60), func(_ *fixture, l *core.Limiter, _ core.Rule) *core.Limiter { return l.Plan("same") }},
		{"plan of another length", core.PerHour(60), func(_ *fixture, l *core.Limiter, _ core.Rule) *core.Limiter { return l.Plan("longer") }},
		{"variant", core.PerMinute(30), func(f *fixture, l *core.Limiter, larger core.Rule) *core.Limiter {
			v, err := l.Variant(larger)
			testkit.Must(f, err)
			return v
		}},
		{"replace", core.PerMinute(30), func(f *fixture, l *core.Limiter, larger core.Rule) *core.Limiter {
			testkit.Must(f, l.Replace(larger))
			return l
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
				small := rule("r", core.PerMinute(6))
				l := f.limiter(small.Plan("same", core.PerMinute(60)).Plan("longer", core.PerHour(60)))
				f.miss(l, "k", 6)
				f.hit(l, "k", 1)
				limits := []driver.Charge{charge(l, 1)}
				larger := c.view(f, l, rule("r", c.limit))
				limits = append(limits, charge(larger, 1))
				admitted := [2]int{}
				for range 200 {
					for i, c := range limits {
						want := f.bare(c)
						got, _ := f.take(c)
						if got.Allowed != want.Allowed {
							f.Fatalf("%v: got %+v, want %+v", c.Rule, got, want)
						}
						if got.Allowed {
							admitted[i]++
						}
					}
					f.advance(333 * time.Millisecond)
				}
				if admitted[1] == 0 || f.cache.Stats().Hits < 100 {
					f.Errorf("got %d events of both limits and %+v, want some, and hits", admitted, f.cache.Stats())
				}
			})
		})
	}
}

// Plans in turn are denied without a call. A key has eight denials, those of all plans: in a log
// or sliding window, every eighth new cost of one plan removes the denial of the other plan.
func TestStore_Take_alternatingPlans(t *testing.T) {
	eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
		l := f.limiter(rule("r", core.PerHour(100)).Plan("large", core.PerHour(200)))
		large := l.Plan("large")
		f.elsewhere(large, "k", 200)
		f.miss(l, "k", 1)
		f.miss(large, "k", 1)
		misses := 0
		for cost := 2; cost <= 50; cost++ {
			f.ask(large, "k", cost)
			if _, hit := f.ask(l, "k", 1); !hit {
				misses++
			}
		}
		want := 0
		if isSliding(charge(l, 1).Rule) {
			want = 6
		}
		if misses != want {
			f.Errorf("got %d calls for the plan with one cost, want %d", misses, want)
		}
	})
}

// Two processes over one Store, each with a cache, admit random costs of random plans within the
// bound, which holds for each length by itself: for a bucket, the sum over the plans of
// events/capacity is at most 1 + T/length in any span T. A log or window never counts more events
// than its largest limit has.
func TestStore_Take_boundOfPlans(t *testing.T) {
	testkit.WithoutRace(t)
	eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
		l := f.limiter(rule("r", core.PerMinute(6)).Plan("same", core.PerMinute(60)).Plan("longer", core.PerHour(60)))
		processes := []*denycache.Store{f.cache, denycache.New(f.behind)}
		processes[1].SetClock(f.localNanos)
		rng := rand.New(rand.NewPCG(1, 5))
		lengths, denied := make(map[uint64]*length), 0
		for range 20_000 {
			f.use(processes[rng.IntN(2)])
			c := charge(l.Plan([]string{"", "same", "longer"}[rng.IntN(3)]), 1+rng.IntN(3)*rng.IntN(3))
			v, hit := f.take(c)
			if lengths[c.Rule.ID] == nil {
				lengths[c.Rule.ID] = new(length)
			}
			if b := lengths[c.Rule.ID]; v.Allowed {
				b.admit(f, c.Rule, f.storeMicros(), int64(c.Cost))
			} else if hit {
				denied++
			}
			if rng.IntN(3) == 0 {
				f.advance(time.Duration(rng.Int64N(int64(4 * time.Second))).Truncate(time.Microsecond))
			}
		}
		if len(lengths) != 2 || denied < 1000 {
			f.Errorf("got %d lengths and %d hits, want 2 and 1000", len(lengths), denied)
		}
	})
}

// A length holds the events that the plans of one length have admitted.
type length struct {
	used, last int64 // a bucket: the time until it is full, at the time of the last event
	events     []admission
}

type admission struct{ at, cost, capacity int64 }

// admit adds an event, and reports an error if the bound does not hold.
func (l *length) admit(t testing.TB, rule *driver.Compiled, now, cost int64) {
	k := rule.Constants
	if rule.Kind.Refills {
		l.used = max(0, l.used-(now-l.last)) + cost*k.Unit.Micros
		if l.last = now; l.used > k.Full.Micros {
			t.Fatalf("got %v in use of %v", time.Duration(l.used)*1000, time.Duration(k.Full.Micros)*1000)
		}
		return
	}
	l.events = append(l.events, admission{now, cost, rule.Constants.Capacity})
	var sum, largest int64
	for _, e := range l.events {
		if e.at > now-k.Period && (k.Algorithm != driver.FixedWindow || rule.FromFirst || e.at/k.Period == now/k.Period) {
			sum, largest = sum+e.cost, max(largest, e.capacity)
		}
	}
	if rule.FromFirst { // a window may have ended meanwhile
		largest *= 2
	}
	if sum > largest {
		t.Fatalf("got %d events within a period, want %d", sum, largest)
	}
}

// A pause is denied from memory until its end, whatever an event costs and whatever the denied event has cost.
func TestStore_Take_Pause(t *testing.T) {
	for _, first := range []driver.Charge{{Cost: 1}, {Cost: 1000}, {Op: driver.Peek, Cost: math.MaxInt}, {Cost: 50, AtMost: true}, {Cost: 3, MaxDelay: time.Second}} {
		f := newFixture(t, denycache.MaxAge(age))
		l := f.limiter(core.Pause("p"))
		ask := func(c driver.Charge, allowed, hit bool) {
			t.Helper()
			c.Key, c.Rule = "k", testkit.Compiled(l.Rules()[0])
			alone := c
			alone.AtMost = false // which only a Spend can have
			want := f.bare(alone)
			if got, wasHit := f.take(c); got != want || got.Allowed != allowed || wasHit != hit {
				t.Fatalf("first %+v, then op %d of %d: got %+v, hit %t\n\twant %+v, hit %t", first, c.Op, c.Cost, got, wasHit, want, hit)
			}
		}
		for range 2 { // an admission is not kept
			ask(first, true, false)
		}
		f.pauseElsewhere(l, time.Hour)
		ask(first, false, false)
		for _, c := range []driver.Charge{{Cost: 1}, {Cost: 2}, {Cost: math.MaxInt}, {Op: driver.Peek, Cost: 7}, {Cost: 9, MaxDelay: time.Minute}, {Cost: 100, AtMost: true}, first} {
			ask(c, false, true)
			f.advance(time.Minute)
		}
		f.advance(time.Hour - 7*time.Minute - 2*time.Microsecond)
		ask(driver.Charge{Cost: 5}, false, true)
		f.advance(time.Microsecond)
		ask(driver.Charge{Cost: 5}, false, false)
		f.advance(time.Microsecond)
		ask(driver.Charge{Cost: 5}, true, false)
	}
}

// A shadow pause denies nothing from memory.
func TestStore_Take_shadowPause(t *testing.T) {
	f := newFixture(t)
	l := f.limiter(core.Pause("p").Shadow())
	f.pauseElsewhere(l, time.Hour)
	for range 3 {
		if d := f.miss(l, "k", 1); !d.Allowed || d.State(0).Allowed {
			t.Errorf("got %+v, want an admission by the Store, and a pause that is reported", d)
		}
	}
	if n := f.cache.Stats().Keys; n != 0 {
		t.Errorf("%d keys are cached, want none", n)
	}
}

// After a denial of a plan with headroom, the plan is denied without a call, and all others have the
// headroom. After a denial of the others, the plan has a denial of its own.
func TestStore_Take_Headroom(t *testing.T) {
	eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
		l := f.limiter(rule("r", core.PerHour(10)).Headroom("sheddable", 40))
		sheddable := l.Plan("sheddable")
		f.miss(sheddable, "k", 6)
		f.hit(sheddable, "k", 1)
		for range 4 {
			if d, hit := f.ask(l, "k", 1); !d.Allowed || hit {
				t.Fatalf("got allowed %v and hit %v, want an admission by the Store", d.Allowed, hit)
			}
			f.ask(sheddable, "k", 1) // caches another denial
			f.hit(sheddable, "k", 1)
		}
		f.hit(l, "k", 1)
		f.hit(sheddable, "k", 1)
		freed := 0
		for range 400 {
			for _, c := range []driver.Charge{charge(sheddable, 1), charge(l, 1)} {
				want := f.bare(c)
				if got, _ := f.take(c); got.Allowed != want.Allowed {
					f.Fatalf("%v: got %+v, want %+v", c.Rule, got, want)
				} else if got.Allowed {
					freed++
				}
			}
			f.advance(10 * time.Second)
		}
		if freed == 0 || f.cache.Stats().Hits < 100 {
			f.Errorf("got %d events and %+v, want some, and hits", freed, f.cache.Stats())
		}
	})
}

// A denial of a quota covers larger costs until the period ends. A decision about the same periods finds it,
// and one about others, such as those of another anchor, is a call.
func TestStore_Take_Quota(t *testing.T) {
	f := newFixture(t, denycache.MaxAge(age))
	base := testkit.Compiled(core.Quota("q", core.Monthly(5)))
	now := time.UnixMicro(f.storeMicros())
	ends := now.Add(20 * 24 * time.Hour)
	periods := driver.Periods{Start: now.Add(-11 * 24 * time.Hour).UnixMicro(), Boundary: ends.UnixMicro(), End: ends.Add(28 * 24 * time.Hour).UnixMicro()}
	ask := func(p driver.Periods, cost int, allowed, hit bool) {
		t.Helper()
		c := driver.Charge{Key: "k", Rule: base.During(p), Cost: cost}
		want := f.bare(c)
		got, wasHit := f.take(c)
		if got.Allowed != allowed || wasHit != hit {
			t.Fatalf("cost %d: got allowed %v and hit %v, want %v and %v", cost, got.Allowed, wasHit, allowed, hit)
		}
		if !allowed && got != want {
			t.Errorf("cost %d: got\n\t%+v, want\n\t%+v", cost, got, want)
		}
	}
	ask(periods, 3, true, false)
	ask(periods, 3, false, false)
	for _, cost := range []int{3, 4, 5, 6, 1000} {
		f.advance(time.Hour)
		ask(periods, cost, false, true)
	}
	ask(periods, 2, true, false)
	ask(periods, 1, false, true)
	other := periods
	other.Boundary += 3_600_000_000
	ask(other, 1, false, false)
	ask(other, 1, false, true)
	f.advance(ends.Sub(time.UnixMicro(f.storeMicros())) - 2*time.Microsecond)
	ask(periods, 1, false, true)
	f.advance(2 * time.Microsecond)
	ask(periods, 5, true, false)
}

// A cached denial of one unit denies, and one of a larger cost does not. The denial of a larger cost is
// not cached, because there is none.
func TestStore_Take_AtMost(t *testing.T) {
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			f := newFixture(t)
			l := f.limiter(a.Rule("r", core.PerMinute(10)), a.Rule("wide", core.PerMinute(20)))
			reserve := func(n, want int, hit bool) *core.Reservation {
				t.Helper()
				calls := f.behind.Calls()
				r, err := l.ReserveAtMost(t.Context(), "k", n)
				testkit.Must(t, err)
				if got := f.behind.Calls() == calls; r.Cost() != want || got != hit {
					t.Errorf("at most %d: got the cost %d and hit %t, want %d and %t", n, r.Cost(), got, want, hit)
				}
				return r
			}
			reserve(4, 4, false)
			if f.miss(l, "k", 7).Allowed {
				t.Fatal("7 of 6 were admitted")
			}
			f.hit(l, "k", 7)
			r := reserve(7, 6, false)
			reserve(7, 0, true) // nothing remains, which the cache knows from the decision before
			f.hit(l, "k", 1)
			testkit.Must(t, r.Settle(t.Context(), 5))
			reserve(9, 1, false)
			f.elsewhere(l, "other", 10)
			f.advance(time.Millisecond)
			if d := reserve(100, 0, true).Decision(); d.RetryAfter <= 0 || d.State(0).Remaining != 0 || !d.State(1).Unknown {
				t.Errorf("got the hit %+v", d)
			}
			if f.miss(l, "other", 1).Allowed {
				t.Fatal("an 11th event was admitted")
			}
		})
	}
}

// A denial by an in-flight rule is not cached, nor is the last place, because another process may free a
// place at any time.
func TestStore_Take_inFlight(t *testing.T) {
	f := newFixture(t)
	rule, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: 1, Hold: time.Hour}.Compile()
	testkit.Must(t, err)
	c := driver.Charge{Key: "k", Rule: rule, Cost: 1}
	if v, hit := f.take(c); !v.Allowed || hit {
		t.Errorf("the first verdict is %+v, hit %t, want an admission by the Store", v, hit)
	}
	for range 3 {
		if v, hit := f.take(c); v.Allowed || v.RetryAfter != time.Hour || hit {
			t.Errorf("the verdict is %+v, hit %t, want a denial by the Store for an hour", v, hit)
		}
	}
	elsewhere := []driver.Charge{{Key: "k", Rule: rule, Op: driver.Undo, Cost: 1, Receipt: driver.Receipt{At: f.storeMicros()&(1<<43-1)<<20 | 1}}}
	testkit.Must(t, f.behind.Adjust(f.Context(), elsewhere))
	if v, hit := f.take(c); !v.Allowed || hit {
		t.Errorf("after an undo elsewhere, the verdict is %+v, hit %t, want an admission by the Store", v, hit)
	}
	if n := f.cache.Stats().Keys; n != 0 {
		t.Errorf("%d keys are cached, want none", n)
	}
}
