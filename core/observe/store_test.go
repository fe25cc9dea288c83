package observe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		var clock storetest.Clock
		return clock.Harness(observe.New(&storetest.Fake{Clock: clock.Micros}, observe.TopKeys(3)))
	})
}

func TestStore_Over(t *testing.T) {
	storetest.RunOver(t, func(_ *testing.T, primary, _ *storetest.Fake) (driver.Store, bool) {
		return observe.New(primary, observe.TopKeys(3)), false
	})
}

func hour(name string, n int) core.Rule { return core.SlidingLog(name, core.PerHour(n)) }

func TestStore_Snapshot(t *testing.T) {
	s := observe.New(memstore.New())
	l := testkit.Limiter(t, s, hour("api", 2).Plan("pro", core.PerHour(3)), hour("trial", 1).Shadow())
	for range 4 {
		testkit.Allow(t, l, "k")
	}
	testkit.Allow(t, l.Plan("pro"), "other")
	testkit.Peek(t, l, "k")
	n := s.Snapshot()
	want := []observe.Series{
		{Rule: "api", Decisions: observe.Counts{driver.Allowed: 2, driver.Denied: 2}, Requests: observe.Counts{driver.Allowed: 2, driver.Denied: 2}},
		{Rule: "api", Plan: "pro", Decisions: observe.Counts{driver.Allowed: 1}, Requests: observe.Counts{driver.Allowed: 1}},
		{Rule: "trial", Decisions: observe.Counts{driver.Allowed: 2, driver.ShadowDenied: 3}},
	}
	if fmt.Sprint(n.Series) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", n.Series, want)
	}
	peeks, attempts, failures := value(t, s, "", "weir.peeks"), value(t, s, "", "weir.attempts"), value(t, s, "", "weir.store.failures")
	if total := n.Total(); total.Total() != 5 || total.Denied() != 2 || peeks != 1 || attempts != 0 {
		t.Errorf("got %v in total, %v peeks and %v attempts, want 5 with 2 denials, 1 and 0", total, peeks, attempts)
	}
	if n.Calls.Count != 0 || failures != 0 || n.Denied != nil || n.Active != nil {
		t.Errorf("got %+v, %v failures, %v and %v, want none", n.Calls, failures, n.Denied, n.Active)
	}
}

// A denial that begins a ban, and those of a banned key, are counted as banned, and the pause of the ban is no series.
func TestStore_Banned(t *testing.T) {
	var log strings.Builder
	s := observe.New(memstore.New(), observe.TopKeys(3), observe.ClearKeys(), observe.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	l := testkit.Limiter(t, s, hour("api", 1).BlockFor(time.Minute))
	for range 3 {
		testkit.Allow(t, l, "k")
	}
	n, counts := s.Snapshot(), observe.Counts{driver.Allowed: 1, driver.Banned: 2}
	if want := []observe.Series{{Rule: "api", Decisions: counts, Requests: counts}}; fmt.Sprint(n.Series) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", n.Series, want)
	}
	if total := n.Total(); total.Denied() != 2 || len(n.Denied) != 1 || n.Denied[0].Key != "k" || n.Denied[0].Rule != "api" || n.Denied[0].Count != 2 {
		t.Errorf("got %v and the denied keys %v", total, n.Denied)
	}
	if !strings.Contains(log.String(), "rule=api plan=\"\" result=banned") {
		t.Errorf("got the log %s", &log)
	}
}

// The number of series does not depend on the number of keys, and is bounded for plans.
func TestStore_Series(t *testing.T) {
	s := observe.New(memstore.New(), observe.TopKeys(10))
	l := testkit.Limiter(t, s, hour("api", 1))
	for i := range 20_000 {
		testkit.Allow(t, l, fmt.Sprint(i))
	}
	if n := s.Snapshot(); len(n.Series) != 1 || len(n.Active) != 10 || len(n.Denied) != 0 {
		t.Errorf("got %d series, %d active and %d denied keys, want 1, 10 and 0", len(n.Series), len(n.Active), len(n.Denied))
	}
	const plans = observe.MaxSeries + 200
	rule := hour("many", 1)
	for i := range plans {
		rule = rule.Plan(fmt.Sprint(i), core.PerHour(5))
	}
	l = testkit.Limiter(t, s, rule)
	for i := range plans {
		testkit.Allow(t, l.Plan(fmt.Sprint(i)), fmt.Sprint(i))
	}
	n := s.Snapshot()
	if last := n.Series[len(n.Series)-1]; len(n.Series) != observe.MaxSeries+1 || last.Rule != "other" || last.Requests.Total() != 201 {
		t.Errorf("got %d series, the last %+v, want %d and 201 decisions of others", len(n.Series), last, observe.MaxSeries+1)
	}
}

// deadlined is a store with a deadline whose calls take a millisecond, and fail for the key "bad".
type deadlined struct{ core.Store }

func (deadlined) Describe() driver.Description { return driver.Description{Deadline: time.Second} }

func (d deadlined) Take(ctx context.Context, charges []driver.Charge) error {
	if time.Sleep(time.Millisecond); charges[0].Key == "bad" {
		return core.ErrUnavailable
	}
	return d.Store.Take(ctx, charges)
}

// Events after which more than a share of the limit is used are counted by rule and plan, whatever the algorithm.
func TestNear(t *testing.T) {
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := observe.New(memstore.New(), observe.Near(0.8))
				soft := core.SlidingLog("soft", core.PerDay(10)).Soft(50).Plan("pro", core.Unlimited)
				l := testkit.Limiter(t, s, a.Rule("api", core.PerDay(10)).Plan("pro", core.PerDay(20)).Plan("staff", core.Unlimited).Plan("bad", core.Blocked), soft)
				for range 12 {
					testkit.Allow(t, l, "k")
				}
				for range 17 {
					testkit.Allow(t, l.Plan("pro"), "pro")
				}
				testkit.Allow(t, l.Plan("staff"), "staff")
				testkit.Allow(t, l.Plan("bad"), "bad")
				testkit.Peek(t, l, "k") // is no event
				got := map[string]uint64{}
				for _, of := range s.Snapshot().Series {
					if of.Near > 0 {
						got[of.Rule+" "+of.Plan] = of.Near
					}
				}
				// The 9th and later events, and the 17th of the plan; a denied event leaves as much as before.
				want := map[string]uint64{"api ": 4, "api pro": 1, "soft ": 4}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
	testkit.Panics(t, "observe: Near: share is not above 0 and below 1", func() { observe.Near(1) })
	testkit.Panics(t, "observe: Near: share is not above 0 and below 1", func() { observe.Near(0) })
	testkit.Panics(t, "observe: Near: share is not above 0 and below 1", func() { observe.Near(math.NaN()) })
}

func TestStore_Calls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		s := observe.New(deadlined{memstore.New()})
		s.OnCall(func(_ context.Context, d time.Duration) { took = append(took, d) })
		l := testkit.Limiter(t, s, hour("api", 5))
		testkit.Allow(t, l, "k")
		if _, err := l.Allow(t.Context(), "bad"); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("got %v, want core.ErrUnavailable", err)
		}
		n := s.Snapshot()
		failures := value(t, s, "", "weir.store.failures")
		if c := n.Calls; c.Count != 2 || failures != 1 || c.Sum != 2*time.Millisecond || c.Buckets[3] != 2 || len(took) != 2 {
			t.Errorf("got %+v, %v and %v failures, want two calls of a millisecond, of which one failed", c, took, failures)
		}
		if total := n.Total(); total[driver.Failed] != 1 || total[driver.Allowed] != 1 {
			t.Errorf("got %v, want an error and a decision", total)
		}
	})
}

// Places are renewed by calls of the Store behind, which are no decisions.
func TestStore_InFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := observe.New(deadlined{memstore.New()})
		l := testkit.Limiter(t, s, core.InFlight("exports", 1).Plan("pro", core.Limit{Events: 2}), hour("api", 5))
		reserve := func(l *core.Limiter) *core.Reservation {
			r := testkit.Reserve(t, l, "k", 1)
			return r
		}
		first, denied, second := reserve(l), reserve(l), reserve(l.Plan("pro"))
		if !first.Decision().Allowed || denied.Decision().Allowed || !second.Decision().Allowed {
			t.Fatalf("got %v, %v and %v", first.Decision(), denied.Decision(), second.Decision())
		}
		time.Sleep(time.Hour)
		testkit.Must(t, first.Release(t.Context()))
		testkit.Must(t, second.Release(t.Context()))
		n := s.Snapshot()
		want := []observe.Series{
			{Rule: "api", Decisions: observe.Counts{driver.Allowed: 3}}, // by this rule
			{Rule: "exports", Decisions: observe.Counts{driver.Allowed: 1, driver.Denied: 1}, Requests: observe.Counts{driver.Allowed: 1, driver.Denied: 1}},
			{Rule: "exports", Plan: "pro", Decisions: observe.Counts{driver.Allowed: 1}, Requests: observe.Counts{driver.Allowed: 1}},
		}
		if fmt.Sprint(n.Series) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", n.Series, want)
		}
		// 3 decisions, 2 ends, and a renewal of both places each 7.5 to 10 s
		if n.Calls.Count < 5+360 || n.Calls.Count > 5+2*480 {
			t.Errorf("got %d calls in an hour", n.Calls.Count)
		}
	})
}

// The series of a quota have the labels of other rules, whatever period an event belongs to.
func TestStore_Quota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := observe.New(memstore.New())
		birthday := func(context.Context, string) time.Time { return time.Now().AddDate(0, 0, -40) } // a period of its own for each decision
		l := testkit.Limiter(t, s, core.Quota("calls", core.Daily(1)).Headroom("batch", 50).Soft(100), core.Quota("month", core.Monthly(9)).Anchor(birthday))
		for range 3 {
			for _, plan := range []string{"batch", "batch", "", "", ""} {
				testkit.Allow(t, l.Plan(plan), "k")
			}
			time.Sleep(24 * time.Hour)
		}
		want := []observe.Series{
			{Rule: "calls", Decisions: observe.Counts{driver.Soft: 3, driver.Denied: 6}, Requests: observe.Counts{driver.Soft: 3, driver.Denied: 6}},
			{Rule: "calls", Plan: "batch", Decisions: observe.Counts{driver.Allowed: 3, driver.Denied: 3}, Requests: observe.Counts{driver.Allowed: 3, driver.Denied: 3}},
			{Rule: "month", Decisions: observe.Counts{driver.Allowed: 15}},
		}
		if n := s.Snapshot(); fmt.Sprint(n.Series) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", n.Series, want)
		}
	})
}

// A part reports two measures, and logs.
type part struct {
	core.Store
	log *slog.Logger
}

func (p *part) LogTo(l *slog.Logger) { p.log = l }
func (p *part) Measures() []driver.Measure {
	return []driver.Measure{{Name: "a", Value: 1}, {Name: "b", Value: 2}}
}

type pair struct {
	core.Store
	parts map[string]driver.Store
}

func (p pair) Describe() driver.Description { return driver.Description{Behind: p.parts} }

func TestStore_Measures(t *testing.T) {
	first, second, added := &part{Store: memstore.New()}, &part{Store: memstore.New()}, &part{}
	over := &pair{first, map[string]driver.Store{"primary": first, "backup": &pair{second, map[string]driver.Store{"": second}}}}
	s := observe.New(over, observe.Logger(slog.New(slog.DiscardHandler)))
	s.Add(added)
	s.Add(&part{})
	got := ""
	for _, m := range s.Snapshot().Measures {
		got += fmt.Sprint(m.Role, " ", m.Name, " ", m.Value, "; ")
	}
	if want := " weir.peeks 0;  weir.attempts 0;  weir.store.failures 0; primary a 1; primary b 2; backup a 1; backup b 2;  a 2;  b 4; "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if first.log == nil || second.log == nil || added.log == nil {
		t.Error("a part has no log")
	}
}

func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b testkit.Buffer
		s := observe.New(memstore.New(), observe.Logger(slog.New(slog.NewTextHandler(&b, nil))), observe.KeySecret([]byte("0123456789abcdef")))
		l := testkit.Limiter(t, s, hour("api", 1).Plan("pro", core.PerHour(2)), hour("trial", 1).Shadow())
		for range 5 {
			testkit.Allow(t, l, "ann")
		}
		time.Sleep(time.Second)
		testkit.Allow(t, l, "ann")
		testkit.Ask(t, l, "bob", 3)
		testkit.Allow(t, l.Plan("free"), "eve")
		tag := s.Tag("ann")
		denied := `level=INFO msg="weir: denied" rule=api plan="" result=denied key=` + tag
		shadow := `level=INFO msg="weir: a shadow rule would have denied" rule=trial plan="" result=shadow_denied key=` + tag
		for _, want := range []string{
			denied + " retry_after=1h0m0s suppressed=0\n", denied + " retry_after=59m59s suppressed=3\n",
			shadow + " retry_after=1h0m0s suppressed=0\n", shadow + " retry_after=59m59s suppressed=3\n",
			`level=WARN msg="weir: unknown plan; its callers have the limits without a plan" plan=free`,
		} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the log has no %q", want)
			}
		}
		if n := strings.Count(b.String(), "\n"); n != 5 || strings.Contains(b.String(), "ann") || len(tag) != 22 {
			t.Errorf("got %d records, want 5 without a key in clear text:\n%s", n, b.String())
		}
	})
}

func TestLogger_default(t *testing.T) {
	if got := observe.New(memstore.New()).Logger(); got != slog.Default() {
		t.Errorf("got %v, want slog.Default", got)
	}
}

// Tag returns the texts in the names of the keys of Redis that have the same secret.
func TestStore_Tag(t *testing.T) {
	secret := []byte("0123456789abcdef")
	if got := observe.New(memstore.New(), observe.KeySecret(secret)).Tag("user:ann"); len(got) != 22 {
		t.Errorf("got %q, want 22 characters", got)
	}
	a, b := observe.New(memstore.New()), observe.New(memstore.New())
	if a.Tag("k") == b.Tag("k") || len(a.Tag("k")) != 22 {
		t.Errorf("got %q and %q, want the HMACs of two secrets", a.Tag("k"), b.Tag("k"))
	}
	if got := observe.New(memstore.New(), observe.ClearKeys()).Tag("k"); got != "k" {
		t.Errorf("got %q, want k", got)
	}
}

// A Store has the facts of the Store behind.
func TestStore_Describe(t *testing.T) {
	for _, c := range []struct {
		behind driver.Store
		want   bool
	}{
		{memstore.New(), true},
		{observe.New(memstore.New()), true},
		{new(storetest.Fake), false},
	} {
		d := driver.Describe(observe.New(c.behind))
		if d.Local != c.want || d.Steady != c.want || len(d.Behind) != 1 || d.Behind[""] != c.behind {
			t.Errorf("over a %T: got %+v, want local and steady: %t", c.behind, d, c.want)
		}
	}
}

// eventually fails the test if ok does not become true within a minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); !ok(); <-tick.C {
		if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute: %s", what)
		}
	}
}

func value(t *testing.T, s *observe.Store, role, name string) float64 {
	t.Helper()
	for _, m := range s.Snapshot().Measures {
		if m.Role == role && m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("no measure %s of the role %q", name, role)
	return 0
}

func TestStore_MeasuresOfMemory(t *testing.T) {
	s := observe.New(memstore.New())
	l := testkit.Limiter(t, s, core.TokenBucket("api", core.PerHour(9)))
	for i := range 100 {
		testkit.Allow(t, l, fmt.Sprint(i))
	}
	if states, memory := value(t, s, "", "weir.memstore.states"), value(t, s, "", "weir.memstore.memory"); states != 100 || memory < 2400 || memory > 7200 {
		t.Errorf("got %v states in %v bytes, want 100 in 2400 to 7200", states, memory)
	}
}

// Each rule has a result for each of its decisions, with every store. In one that evaluates every rule of every decision,
// the shadow rule would have denied a number of events that is between the bounds of the other stores.
func TestStore_ShadowBehindACache(t *testing.T) {
	const unblocked, blocked = 600, 60
	closed := func(t *testing.T, s interface {
		core.Store
		Close() error
	}) core.Store {
		t.Cleanup(func() { testkit.Must(t, s.Close()) })
		return s
	}
	for _, c := range []struct {
		name   string
		cached bool
		over   func(t *testing.T, s core.Store) core.Store
	}{
		{"memstore", false, func(_ *testing.T, s core.Store) core.Store { return s }},
		{"lease", false, func(t *testing.T, s core.Store) core.Store { return closed(t, lease.New(s)) }},
		{"failover", false, func(t *testing.T, s core.Store) core.Store { return closed(t, failover.New(s, failover.FailClosed)) }},
		{"denycache", true, func(_ *testing.T, s core.Store) core.Store { return denycache.New(s) }},
		{"denycache over failover", true, func(t *testing.T, s core.Store) core.Store {
			return denycache.New(closed(t, failover.New(s, failover.FailClosed)))
		}},
		{"lease over denycache", true, func(t *testing.T, s core.Store) core.Store { return closed(t, lease.New(denycache.New(s))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				window := func(name string, n int) core.Rule { return core.SlidingWindow(name, core.Per(n, 6*time.Second)) }
				rules := []core.Rule{window("api", 100).Plan("bad", core.Blocked), core.TokenBucket("burst", core.PerSecond(1000)), window("trial", 50).Shadow()}
				s, all := observe.New(c.over(t, memstore.New())), observe.New(memstore.New())
				limiters := []*core.Limiter{testkit.Limiter(t, s, rules...), testkit.Limiter(t, all, rules...)}
				for i := range unblocked {
					for _, l := range limiters {
						testkit.Allow(t, l, "k")
						if i%(unblocked/blocked) == 0 {
							testkit.Allow(t, l.Plan("bad"), "k")
						}
					}
					time.Sleep(20 * time.Millisecond)
				}
				got, want := s.Snapshot(), all.Snapshot()
				for i, total := range []uint64{unblocked, blocked, unblocked + blocked, unblocked + blocked} { // api, api of bad, burst, trial
					if n, least := got.Series[i].Decisions, want.Series[i].Requests; n.Total() != total || got.Series[i].Requests != least {
						t.Errorf("%s %s: got %v of %v requests, want %d decisions and the requests %v", got.Series[i].Rule, got.Series[i].Plan, n, got.Series[i].Requests, total, least)
					}
				}
				const trial = 3
				n, exact := got.Series[trial].Decisions, want.Series[trial].Decisions
				if least, more := n[driver.ShadowDenied], n.Unknown()-blocked; exact.Unknown() != blocked || exact[driver.ShadowDenied] < least || exact[driver.ShadowDenied] > least+more || c.cached != (more > 0) {
					t.Errorf("trial: got %d shadow denials and %d unknown results of unblocked events, want bounds of %d", least, more, exact[driver.ShadowDenied])
				}
			})
		})
	}
}

// An outage and its end are logged.
func TestLogger_Outage(t *testing.T) {
	var b testkit.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	fake, changes := new(storetest.Fake), make(chan failover.State, 9)
	over := failover.New(fake, memstore.New(), failover.OnChange(func(_, to failover.State, _ error) { changes <- to }))
	s := observe.New(over, observe.Logger(log))
	l := testkit.Limiter(t, s, hour("api", 1_000_000))
	fake.Set(storetest.Fail(fmt.Errorf("%w: killed", core.ErrUnavailable)))
	eventually(t, "no outage", func() bool { testkit.Allow(t, l, "k"); return over.State() == failover.Backup })
	if got := value(t, s, "", "weir.failover.state"); got != 1 {
		t.Errorf("got the state %v, want 1", got)
	}
	fake.Set()
	eventually(t, "no return", func() bool { testkit.Allow(t, l, "k"); return over.State() == failover.Primary })
	testkit.Must(t, over.Close())

	const want = `level=WARN msg="weir: the store has changed" from=primary to=backup error="weir: store unavailable: killed"`
	if !strings.Contains(b.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, b.String())
	}
	if len(changes) == 0 {
		t.Error("the function of OnChange was not called")
	}
}
