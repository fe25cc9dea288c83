package redisstore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// refuseTime are settings of servers that refuse TIME in scripts, as some services do.
var refuseTime = []string{"--rename-command", "TIME", ""}

// Without TIME, each kind of rule admits its limit and no more, and its times are those of the server to the millisecond. The
// documented user needs four other commands in place of TIME.
func TestStore_Take_withoutTime(t *testing.T) {
	t.Parallel()
	const n = 5
	limit := core.PerDay(n)
	server := redistest.NewServer(t, refuseTime...)
	all, identity, _ := servertest.DocumentedCommands(t, "doc.go")
	user := slices.Concat([]string{"~test*", "&test*", "+set", "+pttl", "+pexpireat", "+pexpiretime"}, all, servertest.IdentityCommands(t, server, identity))
	servertest.SetUser(t, server, slices.DeleteFunc(user, func(permission string) bool { return permission == "+time" })...)
	cluster := redistest.NewCluster(t, refuseTime...).Client()
	for name, c := range map[string]struct{ rdb, operator redis.UniversalClient }{
		"server": {server.Client(servertest.AsLimiter), server.Client()}, "cluster": {cluster, cluster},
	} {
		for _, mode := range modes {
			s := newStore(c.rdb, mode.opts...)
			for _, rule := range []core.Rule{
				core.TokenBucket("bucket", limit), core.LeakyBucket("leaky", limit), core.FixedWindow("window", limit),
				core.FixedWindow("first", limit).FromFirst(), core.SlidingWindow("sliding", limit), core.SlidingLog("log", limit),
				core.Quota("quota", core.Daily(n)), core.InFlight("places", n).Hold(time.Minute),
			} {
				t.Run(name+" "+mode.name+" "+rule.Name(), func(t *testing.T) {
					l := testkit.Limiter(t, s, rule)
					var admitted atomic.Int64
					testkit.Concurrently(32, func(int) {
						if r, err := l.Reserve(t.Context(), "k", 1); err != nil {
							t.Error(err)
						} else if r.Decision().Allowed {
							admitted.Add(1)
						}
					})
					if admitted.Load() != n {
						t.Errorf("admitted %d, want %d", admitted.Load(), n)
					}
					key := s.Key("k", rule)
					testkit.Must(t, c.operator.Persist(t.Context(), key).Err()) // as without a permission for PEXPIRE
					if wait := testkit.Peek(t, l, "k").RetryAfter; wait%time.Millisecond != 0 || wait <= 0 {
						t.Errorf("the RetryAfter is %v, want whole milliseconds", wait)
					}
					if ttl, err := c.operator.PTTL(t.Context(), key).Result(); err != nil || ttl <= 0 {
						t.Errorf("the TTL is %v, and the error %v", ttl, err)
					}
				})
			}
			t.Run(name+" "+mode.name, func(t *testing.T) {
				l := testkit.Limiter(t, s, core.FixedWindow("hour", core.PerHour(n)))
				before := time.Now()
				left := testkit.Admit(t, l, "k", 1).State(0).ResetAfter
				after := time.Now()
				if end := before.Add(left); end.Add(after.Sub(before)).Before(before.Truncate(time.Hour).Add(time.Hour-time.Millisecond)) ||
					end.After(after.Truncate(time.Hour).Add(time.Hour+time.Millisecond)) {
					t.Errorf("the window ends at %v, want the hour", end)
				}
				r, err := core.ReserveTogether(t.Context(), core.Ask{Limiter: l, Key: "k", Cost: 2}, core.Ask{Limiter: l, Key: "other", Cost: 2})
				testkit.Must(t, err)
				testkit.Must(t, r.Settle(t.Context(), 1))
				if k, other := testkit.Left(t, l, "k"), testkit.Left(t, l, "other"); k != n-2 || other != n-1 {
					t.Errorf("%d and %d are left, want %d and %d", k, other, n-2, n-1)
				}
			})
		}
	}
}

// Without TIME, a decision that has only to read writes nothing if a key exists, and leaves no key otherwise.
func TestStore_Take_withoutTime_reads(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]core.Rule{
		"the first key is absent": {core.Pause("pause"), core.SlidingLog("log", core.PerDay(1))},
		"the last key is absent":  {core.SlidingLog("log", core.PerDay(1)), core.Pause("pause")},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redistest.NewServer(t, refuseTime...).Client()
			l := testkit.Limiter(t, newStore(rdb), rules...)
			testkit.Admit(t, l, "k", 1)
			testkit.Peek(t, l, "unused")
			if keys, err := rdb.Keys(t.Context(), "test*unused*").Result(); err != nil || len(keys) > 0 {
				t.Errorf("the keys %q are left, and the error is %v", keys, err)
			}
			testkit.Must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			for range 2 {
				if d := testkit.Allow(t, l, "k"); d.Allowed {
					t.Errorf("got %+v, want a denial", d)
				}
			}
		})
	}
}

// A user without the other commands leaves no key for longer than a second.
func TestStore_Take_withoutTime_permissions(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t, refuseTime...)
	all, _, _ := servertest.DocumentedCommands(t, "doc.go")
	servertest.SetUser(t, server, slices.Concat([]string{"~test*", "&test*", "+set", "+pexpireat", "+pexpiretime"}, all)...)
	l := testkit.Limiter(t, newStore(server.Client(servertest.AsLimiter)), core.SlidingLog("log", core.PerDay(1)))
	if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "the user lacks a permission") {
		t.Errorf("got the error %v, want one about a permission", err)
	}
	rdb := server.Client()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	testkit.Must(t, err)
	for _, key := range keys {
		if ttl := rdb.PTTL(t.Context(), key).Val(); ttl == -1 || ttl > time.Second {
			t.Errorf("the key %s is left for %v", key, ttl)
		}
	}
}

// If the server that refuses TIME is replaced by one that permits it, with a user who needs no other commands, or by one that
// is too old for the other commands, the Store uses TIME again.
func TestStore_Take_withoutTime_replaced(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{"user": nil, "version": {"--rename-command", "PEXPIRETIME", ""}} {
		t.Run(name, func(t *testing.T) {
			a, b := redistest.NewServer(t, refuseTime...), redistest.NewServer(t, settings...)
			all, identity, _ := servertest.DocumentedCommands(t, "doc.go")
			user := slices.Concat([]string{"~test*", "&test*"}, all, servertest.IdentityCommands(t, b, identity))
			servertest.SetUser(t, b, user...)
			servertest.SetUser(t, a, append(user, "+set", "+pttl", "+pexpireat", "+pexpiretime")...)
			var addr atomic.Pointer[string]
			addr.Store(&a.Addr)
			rdb := a.Client(servertest.AsLimiter, func(o *redis.Options) {
				o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, *addr.Load())
				}
			})
			l := testkit.Limiter(t, newStore(rdb), core.SlidingLog("log", core.PerDay(50)))
			testkit.Admit(t, l, "k", 1)
			addr.Store(&b.Addr)
			a.Stop()
			servertest.Eventually(t, func() error {
				_, err := l.Allow(t.Context(), "k")
				return err
			})
		})
	}
}

// A server that has neither TIME nor PEXPIRETIME is named so.
func TestStore_Take_withoutTime_old(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t, slices.Concat(refuseTime, []string{"--rename-command", "PEXPIRETIME", ""})...)
	_, err := testkit.Limiter(t, newStore(server.Client()), core.SlidingLog("log", core.PerDay(50))).Allow(t.Context(), "k")
	if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "a server that refuses TIME in scripts needs PEXPIRETIME, of Redis 7.0") {
		t.Errorf("got the error %v", err)
	}
}

// Without TIME, a caller that has waited for RetryAfter is admitted.
func TestLimiter_Wait_withoutTime(t *testing.T) {
	t.Parallel()
	s := newStore(redistest.NewServer(t, refuseTime...).Client())
	l := testkit.Limiter(t, s, core.SlidingLog("log", core.Per(1, 7300*time.Microsecond)))
	testkit.Must(t, l.Wait(t.Context(), "k"))
	for i := range 50 {
		before := s.Stats().Requests
		if err := l.Wait(t.Context(), "k"); err != nil || s.Stats().Requests-before > 2 {
			t.Fatalf("wait %d took %d requests, want at most 2, and the error is %v", i, s.Stats().Requests-before, err)
		}
	}
}
