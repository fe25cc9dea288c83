package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A Store logs a warning if it knows no number of processes: once, and not before it has a rule.
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
		{"a function", []resilient.Option{resilient.Processes(func() int { return 2 })}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := captureLog(t)
				rdb := absent(t)
				s := resilient.New(rdb, "test", c.opts...)
				time.Sleep(time.Minute)
				if log.Len() > 0 {
					t.Errorf("the log without a rule:\n%s", log)
				}
				testkit.Limiter(t, s, wide)
				time.Sleep(time.Minute)
				testkit.Must(t, s.Close())
				testkit.Must(t, rdb.Close())
				time.Sleep(2 * time.Second) // the client ends its attempts to connect
				if got := strings.Count(log.String(), "the number of processes is not known"); got != c.want {
					t.Errorf("got %d warnings, want %d; the log:\n%s", got, c.want, log)
				}
			})
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

// A counter counts the commands of a client.
type counter struct{ atomic.Int64 }

func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.Add(1)
		return next(ctx, cmd)
	}
}

func (*counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A new Store logs once that Redis will not work, and nothing about a Redis that works, or whose outage failover
// reports.
func TestNew_Check(t *testing.T) {
	server := redistest.NewServer(t)
	user := func(name string, without ...string) *redis.Client {
		args := []any{"acl", "setuser", name, "reset", "on", ">password", "~*", "&*", "+@all"}
		for _, command := range without {
			args = append(args, "-"+command)
		}
		testkit.Must(t, server.Client().Do(t.Context(), args...).Err())
		return server.Client(func(o *redis.Options) { o.Username, o.Password = name, "password" })
	}
	paused, readable := redistest.NewServer(t), redistest.NewServer(t)
	testkit.Must(t, paused.Pause())
	testkit.Must(t, readable.Client().Do(t.Context(), "client", "pause", 3_600_000, "write").Err())
	sentinel := redistest.NewSentinel(t)
	for _, c := range []struct {
		name string
		rdb  *redis.Client
		want string // parts of the record, separated by |; no record if it is empty
	}{
		{"works", user("all"), ""},
		{"unknown", user("info", "info"), ""},
		{"no scripts", user("scripts", "evalsha"), `level=WARN msg="weir: this Redis will not work; weir doctor prints all checks"|check=commands detail="EVALSHA: NOPERM|change="allow the user|+evalsha"`},
		{"wrong password", server.Client(func(o *redis.Options) { o.Username, o.Password = "all", "guess" }), `level=WARN|check=user detail="WRONGPASS`},
		{"absent", absent(t), ""},
		{"paused", paused.Client(), ""},
		{"paused for writes", readable.Client(func(o *redis.Options) { o.ReadTimeout = 100 * time.Millisecond }), ""},
		{"other master of a Sentinel", sentinel.Client(func(o *redis.FailoverOptions) { o.MasterName, o.DialerRetries = "other", 1 }), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			logger := slog.New(slog.NewTextHandler(&log, nil))
			commands := new(counter)
			c.rdb.AddHook(commands)
			// A busy machine may not let the check of a Store begin in its second.
			for begun := time.Now(); log.Len() == 0 && time.Since(begun) < time.Minute; {
				s := newStore(t, c.rdb, resilient.Timeout(unhurried), resilient.Observe(observe.Logger(logger)))
				s.AwaitCheck()
				testkit.Must(t, s.Close())
				if c.want == "" && commands.Load() > 0 {
					break
				}
			}
			if commands.Load() == 0 {
				t.Error("the check sent no command")
			}
			got := log.String()
			if c.want == "" && got != "" || strings.Count(got, "\n") > 1 {
				t.Errorf("got %s, want at most one record, and none if Redis works", got)
			}
			for part := range strings.SplitSeq(c.want, "|") {
				if !strings.Contains(got, part) {
					t.Errorf("got %s, want %s", got, part)
				}
			}
		})
	}
}

// The check of a client of another package does not end the program.
func TestNew_StrangeClients(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Shared(t).Addr}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, rdb := range map[string]redis.UniversalClient{
		"wrapped Ring": struct{ *redis.Ring }{ring}, "panics": servertest.StrangeClient{},
		"does nothing": servertest.StrangeClient{UniversalClient: ring, OnProcess: func(context.Context, redis.Cmder) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, rdb, resilient.Observe(observe.Logger(slog.New(slog.DiscardHandler))))
			s.AwaitCheck()
			testkit.Must(t, s.Close())
		})
	}
}

// Close ends the check of a Redis that does not reply.
func TestStore_Close_Check(t *testing.T) {
	server := redistest.NewServer(t)
	rdb := server.Client()
	testkit.Must(t, server.Pause())
	for range 20 {
		s := newStore(t, rdb, resilient.Timeout(unhurried))
		testkit.Must(t, s.Close())
		if running("resilient.(*Store).check") {
			t.Fatal("got a check after Close, want none")
		}
	}
}

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
	if want := "map[attempts:true denycache:true failover:true memstore:true off:true peeks:true processes:true redis:true store:true]"; fmt.Sprint(kinds) != want {
		t.Errorf("got %v, want %v", kinds, want)
	}
}

// A name that no rule has is reported.
func TestStore_Check(t *testing.T) {
	for _, c := range []struct {
		name   string
		option resilient.Option
		want   error
	}{
		{"known", resilient.FailClosedFor("wide"), nil},
		{"misspelt, closed", resilient.FailClosedFor("wdie"), core.ErrInvalidRule},
		{"misspelt, open", resilient.FailOpenFor("wdie"), core.ErrInvalidRule},
	} {
		s := newStore(t, absent(t), c.option)
		testkit.Limiter(t, s, wide)
		if err := s.Check(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

var (
	_ driver.Declarer = (*resilient.Store)(nil)
	_ driver.Prober   = (*resilient.Store)(nil)
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		clock := new(storetest.Clock)
		s := resilient.Over(&storetest.Fake{Clock: clock.Micros}, absent(t))
		t.Cleanup(func() { s.Close() })
		return clock.Harness(s)
	})
}
