package resilient_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// The figures of a Store show its decisions, Redis that is killed, and its return.
func TestStore_Observer(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	secret := []byte("0123456789abcdef")
	s := newStore(t, server.Client(dialOnce), resilient.Timeout(time.Second), resilient.Instances(1),
		resilient.KeySecret(secret), resilient.Observe(observe.TopKeys(3), observe.Logger(slog.New(slog.DiscardHandler))))
	figure := func(role, name string) float64 {
		for _, m := range s.Observer().Snapshot().Measures {
			if m.Role == role && m.Name == name {
				return m.Value
			}
		}
		t.Fatalf("there is no %s of the role %q", name, role)
		return 0
	}
	traffic, api := testkit.Limiter(t, s, wide), testkit.Limiter(t, s, core.SlidingLog("api", core.PerHour(2)))
	for range 3 {
		testkit.Allow(t, api, "ann")
	}
	n := s.Observer().Snapshot()
	if total := n.Total(); total[driver.Allowed] != 2 || total[driver.Denied] != 1 || n.Calls.Count != 3 || n.Calls.Sum <= 0 {
		t.Errorf("got %v and %+v, want three decisions and calls", total, n.Calls)
	}
	if want := observe.New(driverless{s}, observe.KeySecret(secret)).Tag("ann"); fmt.Sprint(n.Denied) != fmt.Sprintf("[{%s api 1 0}]", want) {
		t.Errorf("got %v, want the tag %s with the secret of the Store", n.Denied, want)
	}
	if trips, state := figure("primary", "weir.redis.round_trips"), figure("", "weir.failover.state"); trips == 0 || state != 0 {
		t.Errorf("got %v round trips in the state %v, want some in the state 0", trips, state)
	}

	testkit.Must(t, server.Stop())
	until(t, s, traffic, failover.Backup)
	testkit.Allow(t, api, "bob")
	if state, outages, states := figure("", "weir.failover.state"), figure("", "weir.failover.outages"), figure("backup", "weir.memstore.states"); state != 1 || outages != 1 || states < 1 {
		t.Errorf("in the outage: got the state %v, %v outages and %v states in memory, want 1, 1 and some", state, outages, states)
	}
	testkit.Must(t, server.Start())
	until(t, s, traffic, failover.Primary)
	if state := figure("", "weir.failover.state"); state != 0 {
		t.Errorf("after the outage: got the state %v, want 0", state)
	}
}

// The sum of the results of each rule is that of a store in memory, although cached denials evaluate no other rules.
func TestStore_ObserverShadow(t *testing.T) {
	t.Parallel()
	s := newStore(t, redistest.NewServer(t).Client(), resilient.Timeout(unhurried))
	memory := observe.New(memstore.New())
	for _, store := range []core.Store{s, memory} {
		l := testkit.Limiter(t, store, core.SlidingWindow("api", core.PerHour(5)), core.SlidingWindow("trial", core.PerHour(3)).Shadow())
		for range 100 {
			testkit.Allow(t, l, "ann")
		}
	}
	const api, trial = 0, 1
	got, want := s.Observer().Snapshot().Series, memory.Snapshot().Series
	if got[api] != want[api] {
		t.Errorf("got %+v, want %+v as in memory", got[api], want[api])
	}
	n, exact := got[trial].Decisions, want[trial].Decisions
	if n.Unknown() == 0 || n[driver.ShadowDenied] < 2 || n[driver.ShadowDenied]+n.Unknown() != 97 || exact != (observe.Counts{driver.Allowed: 3, driver.ShadowDenied: 97}) || n.Total() != exact.Total() {
		t.Errorf("got the shadow results %v, want 97 shadow denials and unknown results, as the shadow denials of %v in memory", n, exact)
	}
}

// driverless hides all methods but those of a Store.
type driverless struct{ core.Store }

// A store over the Store has the figures of all parts.
func TestStore_Behind(t *testing.T) {
	s := newStore(t, absent(t), resilient.Instances(1))
	kinds := map[string]bool{}
	for _, m := range observe.New(s).Snapshot().Measures {
		kinds[strings.Split(m.Name, ".")[1]] = true
	}
	if want := "map[attempts:true denycache:true failover:true memstore:true peeks:true redis:true store:true]"; fmt.Sprint(kinds) != want {
		t.Errorf("got %v, want %v", kinds, want)
	}
}
