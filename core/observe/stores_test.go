package observe_test

import (
	"fmt"
	"log/slog"
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
	var b lockedBuffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	text := func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.String()
	}
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
	if !strings.Contains(text(), want) {
		t.Errorf("the log has no %q:\n%s", want, text())
	}
	if len(changes) == 0 {
		t.Error("the function of OnChange was not called")
	}
}
