package failover_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

// A fleet is processes that share a primary, under more load than they may admit.
type fleet struct {
	t        *testing.T
	primary  *flaky
	stores   []*failover.Store
	limiters []*core.Limiter
}

func newFleet(t *testing.T, rule core.Rule, n int, opts ...failover.Option) *fleet {
	f := &fleet{t: t, primary: newFlaky(well)}
	for range n {
		s := failover.New(&punctual{f.primary, deadline}, memstore.New(), opts...)
		f.stores = append(f.stores, s)
		f.limiters = append(f.limiters, limiter(t, s, rule))
	}
	return f
}

func (f *fleet) close() {
	for _, s := range f.stores {
		s.Close()
	}
}

// run asks for d, from every process, and returns how many events were admitted.
func (f *fleet) run(d time.Duration) (admitted int) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, l := range f.limiters {
			if allow(f.t, l, "k").Allowed {
				admitted++
			}
		}
	}
	return admitted
}

// back is how long it takes at most until a primary that has returned decides again.
const back = 1500 * time.Millisecond

// allowance is what one store admits of rule in d at the most.
func allowance(rule core.Rule, d time.Duration) int {
	l := rule.Limit()
	n := rule.Capacity() + int(d*time.Duration(l.Events)/l.Per)
	if rule.Algorithm() == driver.FixedWindow {
		n += l.Events // of the window in which d begins
	}
	return n
}

// What is admitted during an outage, and until all is as before, is what the
// package comment says, at the most; and with Instances it is not much less than the
// limit.
func TestBounds(t *testing.T) {
	const k, outage = 4, 20 * time.Second
	for _, rule := range []core.Rule{
		core.TokenBucket("token_bucket", core.PerSecond(20).WithBurst(40)),
		core.LeakyBucket("leaky_bucket", core.PerSecond(20).WithBurst(40)),
		core.SlidingLog("sliding_log", core.Per(40, 2*time.Second)),
		core.SlidingWindow("sliding_window", core.Per(40, 2*time.Second)),
		core.FixedWindow("fixed_window", core.Per(40, 2*time.Second)),
	} {
		for _, share := range []int{1, k} {
			t.Run(fmt.Sprintf("%s share %d", rule.Name(), share), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, rule, k, failover.Instances(share))
					defer f.close()
					f.run(5 * time.Second)
					f.primary.set(hang)
					begun := time.Now()
					during := f.run(outage)
					away := time.Since(begun) // a little longer, for calls that hung
					most := k * allowance(rule.Divide(share), away)
					if during > most || during < most*8/10 {
						t.Errorf("%d were admitted in %v, want at most %d and not much less", during, away, most)
					}
					f.primary.set(well)
					begun = time.Now()
					after := f.run(5 * time.Second)
					most = k*allowance(rule.Divide(share), away+back) + allowance(rule, time.Since(begun))
					if during+after > most {
						t.Errorf("%d were admitted until all was well again, want at most %d", during+after, most)
					}
					for _, s := range f.stores {
						if s.State() != failover.Primary {
							t.Errorf("the state is %v", s.State())
						}
					}
				})
			})
		}
	}
}

// A decision that the primary may or may not have made is charged twice rather than
// never: over the outage the primary has counted all that was asked of it, and the
// backup all that was admitted.
func TestUnknownFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, backup := newFlaky(lose), newFlaky(well)
		s := failover.New(primary, backup)
		defer s.Close()
		l := limiter(t, s, perYear)
		for range 30 {
			allow(t, l, "k")
		}
		failed := int(s.Stats().Failures)
		primary.set(well)
		if n := 100 - left(t, primary.Store, perYear, "k"); n != failed || n == 0 {
			t.Errorf("the primary has counted %d of the %d calls it lost", n, failed)
		}
		if n := 100 - left(t, backup.Store, perYear, "k"); n != 30 {
			t.Errorf("the backup has counted %d of the 30 events that it admitted", n)
		}
	})
}

// The answer shows the divided limit, and the caller's own rules stay as they are.
func TestShareShows(t *testing.T) {
	s := failover.New(absent{}, memstore.New(), failover.Instances(4))
	defer s.Close()
	rule := core.SlidingLog("log", core.PerHour(20)).Soft(25)
	l := limiter(t, s, rule, core.TokenBucket("bucket", core.PerHour(20)))
	d := allow(t, l, "k")
	first, second := d.State(0), d.State(1)
	if first.Rule.String() != `sliding_log "log" 5/h soft 25%` || first.Remaining != 4 || first.Rule.Compiled().ID() != rule.Compiled().ID() {
		t.Errorf("%v, %+v", first.Rule, first)
	}
	if second.Rule.String() != `token_bucket "bucket" 5/h` || second.Remaining != 4 {
		t.Errorf("%v, %+v", second.Rule, second)
	}
	if again := allow(t, l, "k"); again.State(0).Rule != first.Rule || again.State(1).Rule != second.Rule {
		t.Error("another decision has other Rules")
	}
	charges := []driver.Charge{{Key: "k", Rule: rule.Compiled(), Cost: 1}}
	for range 2 {
		if err := s.Take(t.Context(), charges); err != nil || charges[0].Rule != rule.Compiled() || charges[0].Verdict.Rule == rule.Compiled() {
			t.Errorf("%+v, %v", charges[0], err)
		}
		if got := charges[0].Verdict.Rule; got != first.Rule.Compiled() {
			t.Error("the divided rule was worked out anew")
		}
	}
}

// Elastic rules are divided as they are at the moment.
func TestShareOfElastic(t *testing.T) {
	s := failover.New(absent{}, memstore.New(), failover.Instances(2))
	defer s.Close()
	spare := 0.0
	l := limiter(t, s, core.SlidingLog("log", core.PerHour(20)).Elastic(func() float64 { return spare }, 3))
	for _, want := range []int{10, 30, 10} {
		if got := allow(t, l, "k").State(0).Rule.Capacity(); got != want {
			t.Errorf("with %v to spare the share is %d, want %d", spare, got, want)
		}
		spare = 1 - spare
	}
}

// A part of what a share has taken can be given back: never more than that part.
func TestRefundOfAShare(t *testing.T) {
	for _, kind := range kinds {
		for _, n := range []int{2, 3, 7} {
			s := failover.New(absent{}, memstore.New(), failover.Instances(n))
			defer s.Close()
			// 7 and 11 make a microsecond's fractions that the parts do not share.
			l := limiter(t, s, kind.rule("r", core.Per(7*11*n, 13*time.Hour)))
			r, err := l.Reserve(t.Context(), "k", 40)
			if err != nil || !r.Decision().Allowed {
				t.Fatal(r, err)
			}
			if err := r.Settle(t.Context(), 15); err != nil {
				t.Fatal(err)
			}
			d, err := l.Peek(t.Context(), "k")
			if err != nil || d.State(0).Remaining > 77-15 || d.State(0).Remaining < 77-40 {
				t.Errorf("%s, a share of %d: %+v, %v", kind.name, n, d.State(0), err)
			}
			if err := r.Refund(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := allow(t, l, "k"); d.State(0).Remaining > 76 {
				t.Errorf("%s, a share of %d: %+v", kind.name, n, d.State(0))
			}
		}
	}
}
