package denycache_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/internal/testkit"
)

const banTime = 10 * time.Minute

// A cached denial begins no ban by itself, because it may have ended: the Store decides about the event that begins the ban.
// Further denials are hits.
func TestStore_Take_ban(t *testing.T) {
	base, second := core.SlidingLog("r", core.PerHour(2)).BlockFor(banTime), core.SlidingLog("r", core.PerHour(50)).BlockFor(banTime)
	plain := func(name string) core.Rule { return core.SlidingLog(name, core.PerHour(2)) }
	admitted := func(f *fixture, l *core.Limiter) { testkit.Admit(f, l, "k", 2) } // the last one says that nothing is left
	peeked := func(f *fixture, l *core.Limiter) {
		f.elsewhere(l, "k", 2)
		if d := testkit.Peek(f, l, "k"); d.Allowed || d.State(0).Ban > 0 {
			f.Fatalf("the Peek: got %+v, want a denial without a ban", d)
		}
	}
	reset := func(f *fixture, l *core.Limiter) {
		found, err := testkit.Limiter(f, f.behind, l.Rules()...).Reset(f.Context(), "k")
		if testkit.Must(f, err); !found {
			f.Fatal("the Reset has found no events")
		}
	}
	for name, c := range map[string]struct {
		rules  []core.Rule
		learn  func(*fixture, *core.Limiter) // uses up the first rule, and caches the denial
		then   func(*fixture, *core.Limiter) // in another process, or nil
		missed bool                          // the next event asks the Store
		begins bool                          // it begins a ban
	}{
		"learned from an admission":                  {[]core.Rule{base}, admitted, nil, true, true},
		"learned from a Peek":                        {[]core.Rule{base}, peeked, nil, true, true},
		"ended elsewhere, learned from an admission": {[]core.Rule{base}, admitted, reset, true, false},
		"ended elsewhere, learned from a Peek":       {[]core.Rule{base}, peeked, reset, true, false},
		"the first of two rules":                     {[]core.Rule{base, core.SlidingLog("other", core.PerHour(50))}, admitted, nil, true, true},
		"only another rule has a ban":                {[]core.Rule{plain("first"), second}, admitted, nil, false, false},
		"another rule of a similar name":             {[]core.Rule{plain("r.ba"), second}, admitted, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, denycache.MaxAge(age))
			l := f.limiter(c.rules...)
			c.learn(f, l)
			if c.then != nil {
				c.then(f, l)
			}
			d, hit := f.ask(l, "k", 1)
			if s := d.State(0); hit == c.missed || d.Allowed != (c.then != nil) || c.begins != (s.Ban > 0) || c.begins && s.Ban != banTime {
				t.Fatalf("got %+v, a hit: %t, want a ban: %t, a hit: %t", d, hit, c.begins, !c.missed)
			}
			if d.Allowed {
				return
			}
			before := f.cache.Stats()
			for range 5 {
				f.advance(time.Minute)
				if d := f.hit(l, "k", 1); (d.State(0).Ban > 0) != c.begins {
					t.Errorf("later: got %+v, want a ban: %t", d, c.begins)
				}
			}
			if after := f.cache.Stats(); after.Hits != before.Hits+5 || after.Misses != before.Misses {
				t.Errorf("got %+v, want 5 hits more than %+v", after, before)
			}
		})
	}
}

// Denials that begin no ban are hits, as without BlockFor.
func TestStore_Take_noBan(t *testing.T) {
	for name, ask := range map[string]core.Ask{
		"the delay is too long": {Cost: 1, MaxDelay: time.Second},
		"the cost is too large": {Cost: 4},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, denycache.MaxAge(age))
			ask.Limiter, ask.Key = f.limiter(core.LeakyBucket("r", core.PerMinute(3)).BlockFor(banTime)), "k"
			testkit.Admit(f, ask.Limiter, "k", 1)
			before := f.cache.Stats()
			for range 10 {
				if d, err := core.AllowTogether(t.Context(), ask); err != nil || d.Allowed || d.State(0).Ban > 0 {
					t.Fatalf("got %+v, %v, want a denial without a ban", d, err)
				}
			}
			if after := f.cache.Stats(); after.Hits != before.Hits+9 {
				t.Errorf("got %d hits, want 9", after.Hits-before.Hits)
			}
		})
	}
}
