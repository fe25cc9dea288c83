package denycache_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// pauseElsewhere makes another process pause "k" for d, or end its pause.
func (f *fixture) pauseElsewhere(l *core.Limiter, d time.Duration) {
	f.Helper()
	testkit.Must(f, testkit.Limiter(f, f.behind, l.Rules()...).Pause(f.Context(), "k", d))
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

// A pause that begins, becomes longer or ends through this Store holds at once. A change by another process is
// noticed when the cached denial has ended.
func TestStore_Adjust_Pause(t *testing.T) {
	const most = time.Minute
	f := newFixture(t, denycache.MaxAge(most))
	l := f.limiter(core.FixedWindow("r", core.PerDay(1000)), core.Pause("p"))
	denied := func(d core.Decision, rest time.Duration) {
		t.Helper()
		if s := d.State(1); d.Allowed || d.RetryAfter != rest || s.Allowed || s.Limit() != core.Blocked {
			t.Fatalf("got %+v, want a denial for %v by the pause", d, rest)
		}
	}
	f.ask(l, "k", 1)
	testkit.Must(t, l.Pause(t.Context(), "k", 10*time.Minute))
	denied(f.hit(l, "k", 1), 10*time.Minute)
	denied(f.hit(l, "k", 5), 10*time.Minute)
	testkit.Must(t, l.Pause(t.Context(), "k", time.Minute))
	denied(f.hit(l, "k", 1), 10*time.Minute)
	testkit.Must(t, l.Pause(t.Context(), "k", time.Hour))
	denied(f.hit(l, "k", 1), time.Hour)
	f.pauseElsewhere(l, 2*time.Hour)
	denied(f.hit(l, "k", 1), time.Hour)
	f.advance(most)
	denied(f.miss(l, "k", 1), 2*time.Hour-most)
	f.pauseElsewhere(l, 0)
	denied(f.hit(l, "k", 1), 2*time.Hour-most)
	f.advance(most - time.Microsecond)
	f.hit(l, "k", 1)
	f.advance(time.Microsecond)
	if d := f.miss(l, "k", 1); !d.Allowed {
		t.Fatalf("got %+v after the end of the pause", d)
	}
	testkit.Must(t, l.Pause(t.Context(), "k", time.Hour))
	denied(f.hit(l, "k", 1), time.Hour)
	testkit.Must(t, l.Pause(t.Context(), "k", 0))
	if d := f.miss(l, "k", 1); !d.Allowed || d.State(0).Remaining != 1000-3 {
		t.Errorf("got %+v after the end of the pause, want the third event", d)
	}
	testkit.Must(t, l.Pause(t.Context(), "k", time.Hour))
	denied(f.hit(l, "k", 1), time.Hour)
	if found, err := l.Reset(t.Context(), "k"); !found || err != nil {
		t.Errorf("got %t, %v of a Reset, want true", found, err)
	}
	testkit.Admit(t, l, "k", 1)
}

// A cached denial by another rule does not hide a pause of this Store.
func TestStore_Adjust_PauseOfDenied(t *testing.T) {
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			f := newFixture(t, denycache.MaxAge(time.Minute))
			l := f.limiter(core.Pause("p"), a.Rule("r", core.PerHour(1)))
			f.ask(l, "k", 1)
			f.ask(l, "k", 1) // its denial is cached
			testkit.Must(t, l.Pause(t.Context(), "k", 24*time.Hour))
			if d := f.hit(l, "k", 1); d.RetryAfter != 24*time.Hour {
				t.Errorf("got %v, want the end of the pause", d)
			}
			f.advance(time.Minute)
			if d := f.miss(l, "k", 1); d.RetryAfter != 24*time.Hour-time.Minute {
				t.Errorf("got %v a minute later, want the end of the pause", d)
			}
		})
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
