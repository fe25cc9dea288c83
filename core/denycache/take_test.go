package denycache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

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

// An Adjust through any plan ends the denials of every plan of its length.
func TestStore_Adjust_plans(t *testing.T) {
	for _, op := range []driver.Op{driver.Reset, driver.Credit, driver.Debit, driver.Undo} {
		for _, plan := range []string{"", "large", "small"} {
			t.Run(fmt.Sprint(op, plan), func(t *testing.T) {
				eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
					l := f.limiter(rule("r", core.PerHour(6)).Plan("large", core.PerHour(12)).Plan("small", core.PerHour(3)).
						Plan("longer", core.PerDay(2)))
					views := []*core.Limiter{l, l.Plan("large"), l.Plan("small")}
					f.miss(views[1], "k", 12)
					for _, v := range views {
						f.ask(v, "k", 1)
						f.hit(v, "k", 1)
					}
					other := l.Plan("longer")
					f.miss(other, "k", 2)
					c := charge(l.Plan(plan), 12)
					c.Op = op
					testkit.Must(f, f.cache.Adjust(f.Context(), []driver.Charge{c}))
					for _, v := range views {
						if _, hit := f.take(driver.Charge{Key: "k", Rule: charge(v, 1).Rule, Op: driver.Peek, Cost: 1}); hit {
							f.Errorf("%v: got a hit, want a call of the Store", v.Rules())
						}
					}
					f.hit(other, "k", 1)
				})
			})
		}
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
