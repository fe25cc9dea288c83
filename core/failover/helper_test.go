package failover_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

const (
	deadline = failover.DefaultDeadline
	tick     = 5 * time.Millisecond // between the decisions of pair.until
)

var (
	wide    = core.TokenBucket("wide", core.PerSecond(1_000_000))              // admits every event of a test
	year    = core.SlidingLog("year", core.Per(100, 365*24*time.Hour))         // forgets no event during a test
	errGone = errors.New("connection refused")                                 // of a store without a category
	errDown = fmt.Errorf("%w: %w", core.ErrUnavailable, errors.New("refuses")) // of a store
)

// The ways in which a store fails. Each is a hook of a storetest.Fake.
var refuse = storetest.Fail(errDown)

func hang(ctx context.Context, _ []driver.Charge, _ storetest.Call) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
}

// lose makes the decision and loses the answer.
func lose(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
	return errors.Join(storetest.Lose(errDown)(ctx, charges, next), hang(ctx, charges, next))
}

func crash(context.Context, []driver.Charge, storetest.Call) error { panic("crash") }

// ignoring returns a hook that ignores its context and returns when until is closed.
func ignoring(until <-chan struct{}) storetest.Hook {
	return func(context.Context, []driver.Charge, storetest.Call) error { <-until; return errDown }
}

// absent returns a store that cannot be reached.
func absent() *storetest.Fake {
	f := new(storetest.Fake)
	f.Set(storetest.Fail(errGone))
	return f
}

// A pair is a Store, with its two stores and two limiters.
type pair struct {
	*failover.Store
	t               *testing.T
	primary, backup *storetest.Fake
	direct          bool // the primary has a Deadline
	wide, year      *core.Limiter
}

func newPair(t *testing.T, direct bool, opts ...failover.Option) *pair {
	p := &pair{t: t, direct: direct, primary: &storetest.Fake{Store: memstore.New()}, backup: &storetest.Fake{Store: memstore.New()}}
	var primary core.Store = p.primary
	if direct {
		primary = p.primary.WithDeadline(deadline)
	}
	p.Store = failover.New(primary, p.backup, opts...)
	t.Cleanup(func() { p.Close() })
	p.set()
	p.wide, p.year = testkit.Limiter(t, p, wide), testkit.Limiter(t, p, year)
	return p
}

// bubble runs f in a bubble of testing/synctest, in which no call may be left running.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, f)
}

// eachPair runs f in a bubble for each of the two ways in which a primary is called.
func eachPair(t *testing.T, f func(t *testing.T, p *pair), opts ...failover.Option) {
	for name, direct := range map[string]bool{"timeout": false, "direct": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { f(t, newPair(t, direct, opts...)) })
		})
	}
}

// set replaces the hooks of the primary. Without hooks it is healthy.
func (p *pair) set(hooks ...storetest.Hook) {
	if p.direct {
		hooks = append([]storetest.Hook{inTime}, hooks...)
	}
	p.primary.Set(hooks...)
}

// inTime keeps the deadline.
func inTime(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return next(ctx, charges)
}

// allow admits an event of key, which p.wide does unless no store can decide, and returns how
// long that took.
func (p *pair) allow(key string) time.Duration {
	p.t.Helper()
	begun := time.Now()
	testkit.Admit(p.t, p.wide, key, 1)
	return time.Since(begun)
}

// until makes decisions until the Store is in the state want.
func (p *pair) until(want failover.State) {
	p.t.Helper()
	for begun := time.Now(); p.State() != want; time.Sleep(tick) {
		if time.Since(begun) > time.Minute {
			p.t.Fatalf("the state after a minute: got %v, expected %v", p.State(), want)
		}
		p.allow("until")
	}
}

// leave makes the primary fail until the breaker opens.
func (p *pair) leave() {
	p.t.Helper()
	p.set(refuse)
	p.until(failover.Backup)
}

// comeBack makes the primary decide until the breaker is closed again.
func (p *pair) comeBack() {
	p.t.Helper()
	p.set()
	p.until(failover.Primary)
}

// is checks the State, after all goroutines of the bubble have come to rest.
func (p *pair) is(want failover.State) {
	p.t.Helper()
	if synctest.Wait(); p.State() != want {
		p.t.Errorf("the state: got %v, expected %v; %+v", p.State(), want, p.Stats())
	}
}

// used checks the cost that the stores have charged to key under the limit of the year.
func (p *pair) used(key string, primary, backup int) {
	p.t.Helper()
	for _, c := range []struct {
		name  string
		store *storetest.Fake
		want  int
	}{{"primary", p.primary, primary}, {"backup", p.backup, backup}} {
		if got := testkit.Used(p.t, testkit.Limiter(p.t, c.store.Store, year), key)[0]; got != c.want {
			p.t.Errorf("charged to %s on the %s: got %d, expected %d", key, c.name, got, c.want)
		}
	}
}

func reserveAtMost(t *testing.T, l *core.Limiter, n, want int) *core.Reservation {
	t.Helper()
	r, err := l.ReserveAtMost(t.Context(), "k", n)
	testkit.Must(t, err)
	if r.Cost() != want {
		t.Errorf("at most %d: got the cost %d, want %d: %v", n, r.Cost(), want, r.Decision())
	}
	return r
}

// A deadliner is a store whose calls have a deadline.
type deadliner struct{ core.Store }

func (deadliner) Describe() driver.Description { return driver.Description{Deadline: 1} }

// A flight is a Store with a rule of four places at a time, two of them on the backup.
type flight struct {
	*failover.Store
	t       *testing.T
	primary *storetest.Fake
	backup  driver.Store
	rule    *driver.Compiled
}

func newFlight(t *testing.T, backup driver.Store, opts ...failover.Option) *flight {
	rule, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: 4, Hold: time.Minute}.Compile()
	testkit.Must(t, err)
	f := &flight{t: t, primary: &storetest.Fake{Store: memstore.New()}, backup: backup, rule: rule}
	f.Store = failover.New(f.primary, backup, append(opts, failover.Instances(2))...)
	t.Cleanup(func() { f.Close() })
	return f
}

// do executes an op for each receipt, all in one call.
func (f *flight) do(op driver.Op, receipts ...driver.Receipt) ([]driver.Charge, error) {
	charges := make([]driver.Charge, len(receipts))
	for i, m := range receipts {
		charges[i] = driver.Charge{Key: "k", Rule: f.rule, Op: op, Cost: 1, Receipt: m}
	}
	return charges, storetest.Do(f.t.Context(), f.Store, charges)
}

func (f *flight) take() driver.Receipt {
	f.t.Helper()
	charges, err := f.do(driver.Spend, driver.Receipt{})
	if err != nil || !charges[0].Verdict.Allowed {
		f.t.Fatalf("the verdict is %+v, %v, want an admission", charges[0].Verdict, err)
	}
	return charges[0].Receipt
}

// renew checks the outcome of a renewal.
func (f *flight) renew(m driver.Receipt, found bool) {
	f.t.Helper()
	if c, err := f.do(driver.Renew, m); err != nil || c[0].Verdict.Found != found || c[0].Receipt != m {
		f.t.Errorf("the renewal of %v is %+v, %v, want found %t", m, c[0], err, found)
	}
}

// fails checks that an op of receipts fails because the primary cannot execute it.
func (f *flight) fails(op driver.Op, receipts ...driver.Receipt) {
	f.t.Helper()
	if _, err := f.do(op, receipts...); !errors.Is(err, core.ErrUnavailable) {
		f.t.Errorf("op %d returned %v, want core.ErrUnavailable", op, err)
	}
}

// left checks how many places are free on the primary and, of all four, on the backup.
func (f *flight) left(primary, backup int) {
	f.t.Helper()
	for s, want := range map[driver.Store]int{f.primary.Store: primary, f.backup: backup} {
		charges := []driver.Charge{{Key: "k", Rule: f.rule, Op: driver.Peek, Cost: 1}}
		testkit.Must(f.t, s.Take(f.t.Context(), charges))
		if got := charges[0].Verdict.Remaining; got != want {
			f.t.Errorf("%d places are free, want %d (%T)", got, want, s)
		}
	}
}

// until makes decisions until the Store is in the state want.
func (f *flight) until(want failover.State) {
	f.t.Helper()
	l := testkit.Limiter(f.t, f, wide)
	for begun := time.Now(); f.State() != want; time.Sleep(tick) {
		if time.Since(begun) > time.Minute/2 {
			f.t.Fatalf("the state is %v, want %v", f.State(), want)
		}
		testkit.Admit(f.t, l, "until", 1)
	}
}
