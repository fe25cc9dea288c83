package denycache_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// age is a MaxAge longer than any test lasts.
const age = 400 * 24 * time.Hour

// clocks are the clock of the Store, which counts whole microseconds and can step back, and the
// clock of this process (both in nanoseconds).
type clocks struct{ store, local int64 }

func newClocks() *clocks {
	return &clocks{store: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), local: 1000}
}

func (c *clocks) storeMicros() int64 { return c.store / 1000 }
func (c *clocks) localNanos() int64  { return c.local }

// advance moves both clocks by d. If d is negative, the Store's clock steps back, and in this
// process the longest time passes after which that is noticed.
func (c *clocks) advance(d time.Duration) {
	c.store += int64(d)
	if d < 0 {
		d = age
	}
	c.local += int64(d)
}

// A fixture is a denycache over a Fake, with clocks that stand still until they are moved.
type fixture struct {
	*testing.T
	*clocks
	behind *storetest.Fake
	cache  *denycache.Store
}

func newFixture(t *testing.T, opts ...denycache.Option) *fixture {
	c := newClocks()
	f := &fixture{T: t, clocks: c, behind: &storetest.Fake{Clock: c.storeMicros}}
	f.use(denycache.New(f.behind, opts...))
	return f
}

// use makes s the Store under test.
func (f *fixture) use(s *denycache.Store) {
	s.SetClock(f.localNanos)
	f.cache = s
}

func (f *fixture) limiter(rules ...core.Rule) *core.Limiter {
	f.Helper()
	return testkit.Limiter(f, f.cache, rules...)
}

// elsewhere makes another process take n events.
func (f *fixture) elsewhere(l *core.Limiter, key string, n int) {
	f.Helper()
	testkit.Admit(f, testkit.Limiter(f, f.behind, l.Rules()...), key, n)
}

// pauseElsewhere makes another process pause "k" for d, or end its pause.
func (f *fixture) pauseElsewhere(l *core.Limiter, d time.Duration) {
	f.Helper()
	testkit.Must(f, testkit.Limiter(f, f.behind, l.Rules()...).Pause(f.Context(), "k", d))
}

// ask returns the decision about n events of key, and whether it is a hit.
func (f *fixture) ask(l *core.Limiter, key string, n int) (d core.Decision, hit bool) {
	f.Helper()
	calls := f.behind.Calls()
	d = testkit.Ask(f, l, key, n)
	return d, f.behind.Calls() == calls
}

// hit returns the decision about n events of key, which has to be denied without a call.
func (f *fixture) hit(l *core.Limiter, key string, n int) core.Decision {
	f.Helper()
	d, hit := f.ask(l, key, n)
	if d.Allowed || !hit {
		f.Fatalf("%d events of %.20q: got allowed %v and hit %v, want a denial and a hit", n, key, d.Allowed, hit)
	}
	return d
}

// miss returns the decision about n events of key, which the Store has to be called for.
func (f *fixture) miss(l *core.Limiter, key string, n int) core.Decision {
	f.Helper()
	d, hit := f.ask(l, key, n)
	if hit {
		f.Fatalf("%d events of %.20q: got the hit %v, want a call of the Store", n, key, d)
	}
	return d
}

// take returns the Verdict of one charge, and whether it is a hit.
func (f *fixture) take(c driver.Charge) (v driver.Verdict, hit bool) {
	f.Helper()
	calls := f.behind.Calls()
	charges := []driver.Charge{c}
	testkit.Must(f, f.cache.Take(f.Context(), charges))
	return charges[0].Verdict, f.behind.Calls() == calls
}

// bare returns the Verdict that the Store behind gives to a Peek of c.
func (f *fixture) bare(c driver.Charge) driver.Verdict {
	f.Helper()
	c.Op = driver.Peek
	charges := []driver.Charge{c}
	testkit.Must(f, f.behind.Take(f.Context(), charges))
	return charges[0].Verdict
}

// charge is one event of cost for the only rule of l.
func charge(l *core.Limiter, cost int) driver.Charge {
	return driver.Charge{Key: "k", Rule: testkit.Compiled(l.Rules()[0]), Cost: cost}
}

// isSliding reports whether r keeps the times of its events. It does not ask for the fact that denials ask for.
func isSliding(r *driver.Compiled) bool {
	return !r.Kind.Refills && !r.Kind.Windows && !r.Kind.Holds && !r.Kind.Closes
}

// eachAlgorithm runs test with a limiter for each algorithm.
func eachAlgorithm(t *testing.T, test func(f *fixture, rule func(string, core.Limit) core.Rule)) {
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) { test(newFixture(t, denycache.MaxAge(age)), a.Rule) })
	}
}

// yes admits every event, and always has another one left.
type yes struct{ driver.Store }

func (*yes) Take(_ context.Context, charges []driver.Charge) error {
	for i := range charges {
		charges[i].Verdict = driver.Verdict{Rule: charges[i].Rule, Allowed: true, Remaining: 1}
	}
	return nil
}

// no denies every event for an hour at no cost.
type no struct{ driver.Store }

func (*no) Take(_ context.Context, charges []driver.Charge) error {
	for i := range charges {
		charges[i].Verdict = driver.Verdict{Rule: charges[i].Rule, RetryAfter: 3600e9, ResetAfter: 3600e9}
	}
	return nil
}
