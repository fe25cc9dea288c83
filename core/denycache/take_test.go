package denycache_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

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
