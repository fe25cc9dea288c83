package resilient_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

func TestNew_InvalidArguments(t *testing.T) {
	var (
		noCluster *redis.ClusterClient
		noOption  resilient.Option
	)
	for want, f := range map[string]func(){
		"resilient: New: the client is nil":           func() { resilient.New(noCluster, "test") },
		"resilient: New: option 1 is nil":             func() { resilient.New(absent(t), "test", resilient.Instances(1), noOption) },
		"resilient: Prefix: contains a brace":         func() { resilient.Prefix("{weir}") },
		"resilient: KeySecret: shorter than 16 bytes": func() { resilient.KeySecret(make([]byte, 15)) },
		"resilient: Timeout: not positive":            func() { resilient.Timeout(0) },
		"resilient: Instances: n is less than 1":      func() { resilient.Instances(0) },
		"resilient: MaxMemory: n is less than 1":      func() { resilient.MaxMemory(0) },
		"resilient: Prefix: longer than 32 bytes":     func() { resilient.Prefix(strings.Repeat("a", 33)) },
	} {
		testkit.Panics(t, want, f)
	}
}

// New warns once if Instances is not given, and not again in an outage.
func TestNew_Warning(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []resilient.Option
		want int
	}{
		{"none", nil, 1},
		{"other options", []resilient.Option{resilient.Timeout(time.Second), resilient.FailClosedFor("login")}, 1},
		{"one instance", []resilient.Option{resilient.Instances(1)}, 0},
		{"four instances", []resilient.Option{resilient.Instances(4)}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := captureLog(t)
			s := resilient.New(absent(t), "test", c.opts...)
			until(t, s, testkit.Limiter(t, s, wide), failover.Backup)
			testkit.Must(t, s.Close())
			got := 0
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, "resilient.New without Instances") {
					got++
				}
			}
			if got != c.want {
				t.Errorf("got %d warnings, want %d; the log:\n%s", got, c.want, log)
			}
		})
	}
}

// Two processes share a limit in Redis. A key that has nothing left is denied without Redis, until
// its events are refunded or reset.
func TestStore_Decisions(t *testing.T) {
	prefix := redistest.Prefix(t)
	hour := core.SlidingLog("hour", core.PerHour(3))
	var stores []*resilient.Store
	var limiters []*core.Limiter
	for range 2 {
		s := newStore(t, redistest.Shared(t).Client(), resilient.Prefix(prefix), resilient.Timeout(unhurried))
		stores, limiters = append(stores, s), append(limiters, testkit.Limiter(t, s, hour))
	}
	testkit.Admit(t, limiters[0], "k", 1)
	r := testkit.Reserve(t, limiters[1], "k", 2)
	for i, l := range limiters { // the second process knows the denial already
		if d := testkit.Allow(t, l, "k"); d.Allowed || d.RetryAfter <= 0 {
			t.Errorf("process %d: got %v, want a denial", i, d)
		}
	}
	for begun, hit := time.Now(), false; !hit; { // a busy machine may pause for longer than a denial is cached
		before := stores[0].Stats()
		if d := testkit.Allow(t, limiters[0], "k"); d.Allowed || time.Since(begun) > time.Minute {
			t.Fatalf("again: got %v and %+v, want a denial from the cache", d, before)
		}
		got := stores[0].Stats()
		hit = got.Denycache.Hits > before.Denycache.Hits && got.Redisstore.Requests == before.Redisstore.Requests
	}
	testkit.Must(t, r.Refund(t.Context()))
	testkit.Admit(t, limiters[1], "k", 1) // the cost that was denied
	if found, err := limiters[0].Reset(t.Context(), "k"); err != nil || !found {
		t.Errorf("Reset: got %v and %v, want true", found, err)
	}
	testkit.Admit(t, limiters[0], "k", 1)
	for i, s := range stores {
		if got := s.Stats(); s.State() != failover.Primary || got.Failover.Failures+got.Failover.Backup > 0 {
			t.Errorf("process %d: got the state %v and %+v, want no failure of Redis", i, s.State(), got)
		}
	}
	if _, err := core.New(stores[0], core.SlidingLog("hour", core.PerHour(4))); !errors.Is(err, core.ErrRuleConflict) {
		t.Errorf("another rule of the name: got %v, want core.ErrRuleConflict", err)
	}
}

// changes records the calls of the function of OnChange.
type changes struct {
	mu    sync.Mutex
	calls []string
}

func (c *changes) add(from, to failover.State, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprint(from, " ", to, " ", cause != nil))
}

// has reports whether a change was recorded, with or without a cause.
func (c *changes) has(from, to failover.State, cause bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, got := range c.calls {
		if got == fmt.Sprint(from, " ", to, " ", cause) {
			return true
		}
	}
	return false
}

// While Redis is killed, the backup decides: with a part of each limit, and without the rules that
// fail open or closed. Redis decides again after its return.
func TestStore_Outage(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	recorded := new(changes)
	s := newStore(t, server.Client(dialOnce), resilient.Timeout(time.Second), resilient.Instances(2),
		resilient.FailClosedFor("login"), resilient.FailOpenFor("search"), resilient.OnChange(recorded.add))
	traffic := testkit.Limiter(t, s, wide)
	limiter := func(name string) *core.Limiter { return testkit.Limiter(t, s, core.SlidingLog(name, core.PerHour(10))) }
	api, login, search := limiter("api"), limiter("login"), limiter("search")
	testkit.Must(t, s.Check())
	testkit.Admit(t, traffic, "k", 1)

	testkit.Must(t, server.Stop())
	until(t, s, traffic, failover.Backup)
	testkit.Admit(t, api, "k", 5)
	for i := 0; i < 1000 && s.Stats().Denycache.Hits == 0; i++ { // until a denial is a cached one
		if d := testkit.Allow(t, api, "k"); d.Allowed || d.State(0).Rule.Limit() != core.PerHour(5) {
			t.Errorf("event %d over half of the limit: got %+v, want a denial by the half", i, d)
		}
	}
	if d, err := login.Allow(t.Context(), "k"); d.Allowed || !errors.Is(err, core.ErrFailClosed) {
		t.Errorf("login: got %v and %v, want core.ErrFailClosed", d, err)
	}
	peek := []driver.Charge{{Key: "k", Rule: testkit.Compiled(login.Rules()[0]), Op: driver.Peek, Cost: 1}}
	if err := driver.Probe(t.Context(), s, peek); !errors.Is(err, core.ErrFailClosed) {
		t.Errorf("Probe: got %v, want core.ErrFailClosed", err)
	}
	for range 20 {
		testkit.Admit(t, search, "k", 1)
	}
	got := s.Stats()
	if s.State() != failover.Backup || got.Failover.Outages != 1 || got.Failover.Cause == nil || got.Denycache.Hits == 0 {
		t.Errorf("in the outage: got the state %v and %+v, want one outage with a cause, and a hit", s.State(), got)
	}

	testkit.Must(t, server.Start())
	until(t, s, traffic, failover.Primary)
	before := s.Stats()
	testkit.Admit(t, api, "other", 10) // the whole limit
	testkit.Admit(t, login, "k", 1)
	testkit.Must(t, driver.Probe(t.Context(), s, peek))
	if got := s.Stats(); got.Redisstore.Requests < before.Redisstore.Requests+2 || got.Failover.Backup != before.Failover.Backup {
		t.Errorf("after the outage: got %+v, want two requests more than %+v and no decision of the backup", got, before)
	}
	testkit.Must(t, s.Close()) // waits for the last call of the function
	if !recorded.has(failover.Primary, failover.Backup, true) {
		t.Errorf("OnChange: got %q, want the outage with its cause", recorded.calls)
	}
}

// Close ends the probes of an outage, and leaves nothing that runs. The Store still decides.
func TestStore_Close(t *testing.T) {
	server := redistest.NewServer(t)
	rdb := server.Client(dialOnce)
	s := newStore(t, rdb, resilient.Timeout(time.Second))
	traffic := testkit.Limiter(t, s, wide)
	testkit.Admit(t, traffic, "k", 1)
	testkit.Must(t, server.Stop())
	until(t, s, traffic, failover.Backup)
	const prober = "failover.(*prober).run"
	if !running(prober) {
		t.Fatalf("got no goroutine in %s during the outage, want one", prober)
	}
	testkit.Must(t, s.Close())
	if running(prober) {
		t.Errorf("got a goroutine in %s after Close, want none", prober)
	}
	testkit.Must(t, s.Close())
	testkit.Must(t, rdb.Close())
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); running("core/failover.") || running("core/redisstore.") || running("core/denycache."); <-tick.C {
		if time.Since(begun) > time.Minute {
			t.Fatalf("got goroutines a minute after Close, want none:\n%s", stacks())
		}
	}
	probes := s.Stats().Failover.Probes
	testkit.Admit(t, traffic, "k", 1)
	if got := s.Stats().Failover.Probes; s.State() != failover.Backup || got != probes {
		t.Errorf("after Close: got the state %v and %d probes, want the backup and %d", s.State(), got, probes)
	}
}

// running reports whether a goroutine has a function whose name contains name on its stack.
func running(name string) bool { return strings.Contains(stacks(), name) }

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}
