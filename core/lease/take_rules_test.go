package lease_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A recorder keeps the definitions that are declared on it.
type recorder struct {
	storetest.Fake
	declared []driver.Definition
}

func (r *recorder) Declare(changes ...driver.Change) error {
	r.declared = changes[0].New
	return nil
}

// A denial of one plan denies no other plan. Each plan of a window admits events until as many are
// counted as its limit has; an empty bucket is empty for every plan.
func TestStore_Take_DeniedPlan(t *testing.T) {
	bubbleEach(t, withPlans(core.PerDay(1000)), func(x *fixture, rule core.Rule) {
		base := x.limiter(x.lease(), rule)
		pro, small := base.Plan("pro"), base.Plan("small")
		x.expect(1000, 1000, x.drain(base), "events without a plan")
		want := 0
		if rule.Algorithm() == driver.FixedWindow {
			want = 3000
		}
		x.expect(0, 0, x.drain(small), "events of the small plan after them")
		x.expect(want, want, x.drain(pro), "events of the large plan after them")
		x.expect(0, 0, x.drain(base)+x.drain(pro), "events after them")
	})
}

// Another limit of a plan drops the tokens of that plan alone.
func TestStore_Take_ChangedPlan(t *testing.T) {
	bubbleEach(t, withPlans(core.PerHour(50_000)), func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		pro := l.Plan("pro")
		x.admit(pro, 300)
		synctest.Wait()
		kept := s.Stats().Held
		x.admit(l, 300)
		smaller := core.TokenBucket("bucket", core.PerHour(40_000))
		if rule.Algorithm() == driver.FixedWindow {
			smaller = core.FixedWindow("window", core.PerHour(40_000))
		}
		variant, err := l.Variant(smaller)
		testkit.Must(x, err)
		before := s.Stats().Held
		x.admit(variant, 1)
		synctest.Wait()
		if stats := s.Stats(); before <= kept || stats.Held != kept || stats.Keys != 2 {
			x.Errorf("expected %d tokens of 2 accounts, got %+v; before %d", kept, stats, before)
		}
		x.expect(0, 0, x.calls(func() { x.admit(pro, 1) }), "calls")
	})
}

// A plan with headroom is passed through. It takes events that are not leased from the Store behind, and leaves
// the headroom, which leases of the other callers use up with the rest.
func TestStore_Take_Headroom(t *testing.T) {
	rules := bucketAndWindow(core.Per(10_000, 365*24*time.Hour))
	for i, r := range rules {
		rules[i] = r.Headroom("sheddable", 20)
	}
	bubbleEach(t, rules, func(x *fixture, rule core.Rule) {
		s := x.lease()
		base := x.limiter(s, rule)
		sheddable := base.Plan("sheddable")
		admitted := 0
		for range 500 {
			x.admit(base, 1)
			x.expect(1, 2, x.calls(func() { x.admit(sheddable, 1) }), "calls of the plan, and for the next bundle")
			admitted += 2
		}
		synctest.Wait()
		held := int(s.Stats().Held)
		x.expect(1, 500, held, "tokens that are held")
		x.expect(1, 1, s.Stats().Keys, "accounts")
		admitted += x.drain(sheddable)
		x.expect(8000-held, 8000-held, admitted, "events of both, until the plan is denied")
		x.expect(8000, 8000, 10_000-x.left(rule), "tokens that are charged")
		admitted += x.drain(base)
		x.expect(10_000, 10_000, admitted, "events of both")
		x.expect(0, 0, x.drain(sheddable)+x.drain(base), "events after them")
	})
}

// A limiter with a pause asks the Store behind each time, although it holds tokens of its rate. A pause elsewhere
// therefore holds at the next decision. Its denials take no tokens, and the events of a day are those of the limit.
func TestStore_Take_pause(t *testing.T) {
	bubbleEach(t, bucketAndWindow(core.PerDay(3000)), func(x *fixture, rule core.Rule) {
		s := x.lease()
		held := x.hold(s, rule)
		admitted := 3000 - x.left(rule) - held
		pause := core.Pause("partner")
		l, elsewhere := x.limiter(s, rule, pause), x.limiter(x.memory, pause)
		events := func(n int, allowed bool) {
			x.Helper()
			for range n {
				if d := x.ask(l, 1); d.Allowed != allowed {
					x.Fatalf("got %+v, want allowed %t", d, allowed)
				}
			}
		}
		x.expect(10, 1000, x.calls(func() { events(10, true) }), "calls for 10 events")
		admitted += 10
		for range 3 {
			testkit.Must(x, elsewhere.Pause(x.Context(), "k", time.Minute))
			synctest.Wait()
			held, left := int(s.Stats().Held), x.left(rule)
			x.expect(10, 1000, x.calls(func() { events(10, false) }), "calls for 10 events of a pause")
			synctest.Wait()
			x.expect(held+left, held+left, int(s.Stats().Held)+x.left(rule), "tokens after the denials")
			testkit.Must(x, elsewhere.Pause(x.Context(), "k", 0))
			events(5, true)
			admitted += 5
		}
		// Through this Store, it holds at once, too.
		testkit.Must(x, l.Pause(x.Context(), "k", time.Minute))
		events(1, false)
		testkit.Must(x, l.Pause(x.Context(), "k", 0))
		x.expect(3000-admitted, 3000-admitted, x.drain(l), "events after the pauses")
	})
}

// Two rules of one key that are both leased need few calls, and both are charged.
func TestStore_Take_TwoLeasedRules(t *testing.T) {
	bubble(t, func(x *fixture) {
		s := x.lease()
		l := x.limiter(s, hourly...)
		x.expect(0, 100, x.calls(func() { x.admit(l, 3000) }), "calls for 3000 decisions")
		for _, rule := range hourly {
			x.expect(47_000-8, 47_000+8, testkit.Left(x, x.limiter(s, rule), "k"), "events left of "+rule.Name())
		}
	})
}

// A limit that all users share is leased beside a small limit for each user, which is not; a
// denial takes nothing from either.
func TestStore_Take_LeasedRuleBesideAnother(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, hot core.Rule) {
		x.behind.Set(storetest.Delay(time.Microsecond, time.Microsecond)) // or the bucket refills meanwhile
		s := x.lease()
		global, each := x.limiter(s, hot), x.limiter(s, core.SlidingLog("user", core.PerHour(5)))
		calls := x.calls(func() {
			for i := range 3000 { // 300 users, each denied after 5 events
				d, err := core.AllowTogether(x.Context(), core.Ask{Limiter: global, Key: "k"}, core.Ask{Limiter: each, Key: fmt.Sprint(i % 300)})
				testkit.Must(x, err)
				if want := i < 1500; !d.State(0).Allowed || d.State(1).Allowed != want {
					x.Fatalf("decision %d: expected true, %v, got %+v", i, want, d.States())
				}
			}
		})
		x.expect(3000, 3060, calls, "calls for 3000 decisions about a user")
		x.expect(1500-8, 1500+8, 50_000-x.left(hot)-int(s.Stats().Held), "tokens used for 1500 events")
	})
}

// If a leased rule denies, the other rules are peeked at and not charged.
func TestStore_Take_LeasedRuleDenies(t *testing.T) {
	bubble(t, func(x *fixture) {
		s := x.lease()
		hot, log := core.TokenBucket("hot", core.PerDay(500)), core.SlidingLog("log", core.PerHour(10_000))
		x.drain(x.limiter(s, hot))
		both := x.limiter(s, log, hot)
		for range 20 {
			d := x.ask(both, 1)
			if d.Allowed || !d.State(0).Allowed || d.State(1).Allowed || d.State(0).Remaining != 10_000 {
				x.Fatalf("expected a denial by the second rule, 10000 left of the first, got %+v", d.States())
			}
		}
		if n := x.left(log); n != 10_000 {
			x.Errorf("expected 10000 left of the log, got %d", n)
		}
	})
}

// During an outage, failover enforces a part of the limit. RetryAfter is that of the part.
func TestStore_Take_dividedRule(t *testing.T) {
	bubble(t, func(x *fixture) {
		x.behind.Set(storetest.Fail(core.ErrUnavailable))
		over := failover.New(x.behind, memstore.New(), failover.Instances(4))
		s := lease.New(over)
		defer func() { _, _ = s.Close(), over.Close() }()
		l := x.limiter(s, core.TokenBucket("bucket", core.PerHour(800)))
		for range 3 {
			x.drain(l)
			d := x.ask(l, 1)
			time.Sleep(d.RetryAfter - time.Microsecond)
			if x.ask(l, 1).Allowed {
				x.Errorf("admitted a microsecond before RetryAfter, %v", d.RetryAfter)
			}
			time.Sleep(time.Microsecond)
			if !x.ask(l, 1).Allowed {
				x.Errorf("denied after RetryAfter, %v", d.RetryAfter)
			}
		}
	})
}

// A load returns the part of all decisions a second that one process makes at a time.
type load func(process, processes int, sinceStart time.Duration) float64

// evenLoad is the same at all processes and times.
func evenLoad(_, processes int, _ time.Duration) float64 { return 1 / float64(processes) }

// wanderingLoad sends 90 % to one process, and to the next one after each 700 ms.
func wanderingLoad(process, processes int, sinceStart time.Duration) float64 {
	if process == int(sinceStart/(700*time.Millisecond))%processes {
		return 0.9
	}
	return 0.1 / float64(processes-1)
}

// burstyLoad sends bursts of 200 ms to each process, each at times of its own, once in 2 s.
func burstyLoad(process, processes int, sinceStart time.Duration) float64 {
	const every, long = 2 * time.Second, 200 * time.Millisecond
	period := sinceStart / every
	begin := time.Duration(rand.New(rand.NewPCG(uint64(process), uint64(period))).Int64N(int64(every - long)))
	if at := sinceStart % every; at >= begin && at < begin+long {
		return float64(every/long) / float64(processes)
	}
	return 0
}

// A usage is the outcome of a load.
type usage struct{ asked, admitted, calls int }

// run sends rate decisions a second for span, spread by load, to processes with a store each.
func (l load) run(t *testing.T, rule core.Rule, processes int, rate float64, span time.Duration, newStore func() driver.Store) (u usage) {
	const workers = 8
	step := max(10*time.Millisecond, span/600)
	var asked, admitted atomic.Int64
	var wg sync.WaitGroup
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))) // windows begin
	start := time.Now()
	for p := range processes {
		limiter := core.Must(core.New(newStore(), rule))
		for g := range workers {
			rng := rand.New(rand.NewPCG(uint64(p), uint64(g)))
			wg.Go(func() {
				for at := time.Duration(0); at < span; {
					each := rate * l(p, processes, at) / workers
					if each == 0 {
						at += step
						continue
					}
					next := at + time.Duration(rng.ExpFloat64()*float64(time.Second)/each)
					if edge := at - at%step + step; next > edge { // the load may have changed
						at = edge
						continue
					}
					at = next
					if at >= span {
						return
					}
					if late := time.Since(start) - at; late > step {
						continue // the process was waiting
					}
					time.Sleep(time.Until(start.Add(at)))
					d, err := limiter.Allow(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					asked.Add(1)
					if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return usage{asked: int(asked.Load()), admitted: int(admitted.Load())}
}

// Leasing processes admit nearly as much of a load as a Store that decides every event, with
// fewer calls. The difference is the tokens that others hold while one process is denied.
func TestStore_Take_UnusedTokens(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const processes = 8
	for _, tt := range []struct {
		limit  core.Limit
		span   time.Duration
		unused float64 // at most, in 100 admitted by the Store alone
		calls  float64 // at most, in 100 decisions of the even load at 0.8 times the limit
	}{
		{core.PerSecond(2000), time.Second, 10, 25},
		{core.PerMinute(2000), time.Minute, 3, 100},
		{core.PerHour(5000), 2 * time.Second, 6, 10},
	} {
		for _, rule := range bucketAndWindow(tt.limit) {
			t.Run(fmt.Sprint(rule.Name(), " ", tt.limit), func(t *testing.T) {
				t.Parallel()
				limit := float64(tt.limit.Events) * max(1, tt.span.Seconds()/tt.limit.Per.Seconds())
				if rule.Algorithm() == driver.TokenBucket {
					limit = float64(tt.limit.Events) * (1 + tt.span.Seconds()/tt.limit.Per.Seconds())
				}
				for _, l := range []struct {
					name  string
					load  load
					times float64 // the limit
				}{{"even", evenLoad, 0.8}, {"even", evenLoad, 1.5}, {"wandering", wanderingLoad, 1}, {"bursty", burstyLoad, 1}} {
					rate := l.times * limit / tt.span.Seconds()
					var alone, leased usage
					bubble(t, func(x *fixture) {
						alone = l.load.run(x.T, rule, processes, rate, tt.span, func() driver.Store { return x.memory })
					})
					bubble(t, func(x *fixture) {
						x.behind.Set(storetest.Delay(trip/2, trip/2))
						leased = l.load.run(x.T, rule, processes, rate, tt.span, func() driver.Store { return x.lease() })
						leased.calls = x.behind.Calls()
					})
					unused := 100 * float64(alone.admitted-leased.admitted) / float64(alone.admitted)
					calls := 100 * float64(leased.calls) / float64(leased.asked)
					t.Logf("%-9s %.1f times the limit: unused %6.2f %%, calls %6.2f in 100", l.name, l.times, unused, calls)
					if unused > tt.unused {
						t.Errorf("%s, %v times the limit: expected %v %% unused at most, got %.2f %%", l.name, l.times, tt.unused, unused)
					}
					if l.times < 1 && (leased.admitted < leased.asked || calls > tt.calls) {
						t.Errorf("expected all of %d decisions to be admitted with %v calls in 100, got %d and %.2f", leased.asked, tt.calls, leased.admitted, calls)
					}
				}
			})
		}
	}
}
