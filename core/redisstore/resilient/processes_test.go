package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// A member is a process of an application.
type member struct {
	*resilient.Store
	limiters map[string]*core.Limiter
	log      *testkit.Buffer
}

// newMember returns a process with rules of these names.
func newMember(t *testing.T, rdb redis.UniversalClient, app, rules string, opts ...resilient.Option) *member {
	m := &member{limiters: make(map[string]*core.Limiter), log: new(testkit.Buffer)}
	log := resilient.Observe(observe.Logger(slog.New(slog.NewTextHandler(m.log, nil))))
	m.Store = resilient.New(rdb, app, append(opts, log)...)
	t.Cleanup(func() { m.Close() })
	for name := range strings.FieldsSeq(rules) {
		m.limiters[name] = testkit.Limiter(t, m, core.SlidingLog(name, core.PerHour(300)))
	}
	return m
}

// awaitProcesses waits until m has read n.
func (m *member) awaitProcesses(t *testing.T, n int) {
	t.Helper()
	servertest.Eventually(t, func() error {
		if got := m.Stats().Processes; got != n {
			return fmt.Errorf("got %d processes, want %d", got, n)
		}
		return nil
	})
}

// admits checks how many events m admits in an outage.
func (m *member) admits(t *testing.T, rule string, want int) {
	t.Helper()
	until(t, m.Store, m.limiters[rule], failover.Backup)
	got := 0
	for testkit.Allow(t, m.limiters[rule], "k").Allowed {
		got++
	}
	if got != want {
		t.Errorf("%s: got %d events in the outage, want %d; the log:\n%s", rule, got, want, m.log)
	}
}

// In an outage, a rule is divided by the number of processes that have it.
func TestProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	rdb := server.Client(dialOnce)
	secret := resilient.KeySecret([]byte("a secret of 16 bytes or more"))
	web, other := newMember(t, rdb, "shop", "api login"), newMember(t, rdb, "shop", "api login", secret) // counted, too
	worker := newMember(t, rdb, "shop", "api", resilient.Instances(2))
	fixed := newMember(t, rdb, "shop", "api", resilient.Processes(func() int { return 30 }))
	alone := newMember(t, rdb, "blog", "api")
	ended := newMember(t, rdb, "shop", "api")
	for _, m := range []*member{web, other, worker, ended} {
		m.awaitProcesses(t, 5)
	}
	alone.awaitProcesses(t, 1)
	testkit.Must(t, ended.Close())
	if keys := rdb.Keys(t.Context(), "*").Val(); strings.Contains(fmt.Sprint(keys), "k1") {
		t.Errorf("got the keys %q", keys)
	}
	testkit.Must(t, server.Stop())
	web.admits(t, "api", 60)
	web.admits(t, "login", 150)
	other.admits(t, "login", 150)
	worker.admits(t, "api", 60)
	fixed.admits(t, "api", 10)
	alone.admits(t, "api", 300)
	newMember(t, rdb, "shop", "api", resilient.Instances(3)).admits(t, "api", 100)
	late := newMember(t, rdb, "shop", "api")
	late.admits(t, "api", 300)
	servertest.Eventually(t, func() error {
		if !strings.Contains(late.log.String(), "the number of processes is not known") {
			return fmt.Errorf("the log is %q", late.log)
		}
		return nil
	})
	worker.limiters["new"] = testkit.Limiter(t, worker, core.SlidingLog("new", core.PerHour(300))) // no heartbeat has told the number
	worker.admits(t, "new", 60)
}

// A record that cannot be used is logged once, and everything else works.
func TestProcesses_Refused(t *testing.T) {
	t.Parallel()
	const record = "test:{test}processes"
	for name, c := range map[string]struct {
		after func(ctx context.Context, rdb *redis.Client) error // the first heartbeat; nil if there is none
		want  string
	}{
		"no permission": {nil, "allow the user"},
		"another type": {func(ctx context.Context, rdb *redis.Client) error {
			return errors.Join(rdb.Del(ctx, record).Err(), rdb.Set(ctx, record, "x", 0).Err())
		}, "WRONGTYPE"},
		"not well formed": {func(ctx context.Context, rdb *redis.Client) error { return rdb.HSet(ctx, record, "x", "y\nz").Err() }, "not well formed"},
		"an unknown group": {func(ctx context.Context, rdb *redis.Client) error {
			return errors.Join(rdb.HSet(ctx, record, "a kind apart", lasting(1)).Err(), rdb.HSet(ctx, record+":rules", "a kind apart", "[1]").Err())
		}, "not well formed"},
		"more than 10 000": {func(ctx context.Context, rdb *redis.Client) error {
			return rdb.HSet(ctx, record, "another kind", lasting(10_001)).Err()
		}, "has changed much"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.NewServer(t)
			permissions := []string{"~test:*", "+@all"}
			if c.after == nil {
				permissions = append(permissions, "-hgetall")
			}
			servertest.SetUser(t, server, permissions...)
			m := newMember(t, server.Client(servertest.AsLimiter, dialOnce), "test", "api", resilient.Prefix(""), resilient.Instances(3), resilient.Timeout(unhurried))
			if c.after != nil {
				m.awaitProcesses(t, 1)
				testkit.Must(t, c.after(t.Context(), server.Client()))
			}
			logged := func() error {
				if n := strings.Count(m.log.String(), c.want); n != 1 {
					return fmt.Errorf("%d lines of the log are %q: %q", n, c.want, m.log)
				}
				return nil
			}
			servertest.Eventually(t, logged)
			m.limiters["new"] = testkit.Limiter(t, m, core.SlidingLog("new", core.PerHour(1))) // makes a heartbeat soon
			testkit.Admit(t, m.limiters["api"], "k", 1)
			testkit.Must(t, m.Close())
			testkit.Must(t, logged())
			if strings.Contains(m.log.String(), "y\nz") {
				t.Errorf("the log has the text of the record: %q", m.log)
			}
		})
	}
}

// lasting returns the field of a group of n processes with a heartbeat of now.
func lasting(n int) string { return fmt.Sprint(n, " ", time.Now().UnixMilli()) }
