package denycache_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

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
