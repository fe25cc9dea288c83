package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// TestCluster_migration moves a slot back and forth between two masters while its keys are in
// use, and TestCluster_reshard 1000 slots with the keys of 200 identities, by the tool that
// operators use. Less than one decision in a thousand may fail.
func TestCluster_migration(t *testing.T) {
	t.Parallel()
	const rounds = 6
	cluster := redistest.NewCluster(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := newStore(cluster.Client(), mode.opts...)
			rules := largeRules()
			from, to := cluster.Nodes[0], cluster.Nodes[1]
			identity := identityOn(t, from, s, "k")
			load := startLoad(t, 8, testkit.Limiter(t, s, rules...), identity)
			for range rounds {
				load.admit(t, 500)
				migrate(t, cluster, from, to, s.Key(identity, rules[0]), s.Key(identity, rules[1]))
				from, to = to, from
			}
			if failed := load.check(t, 0); failed*1000 > load.calls.Load() {
				t.Errorf("%d of %d decisions failed, want at most one in a thousand", failed, load.calls.Load())
			}
		})
	}
}

func TestCluster_reshard(t *testing.T) {
	t.Parallel()
	const slots = 1000
	cluster := redistest.NewCluster(t)
	for m, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			l := testkit.Limiter(t, newStore(cluster.Client(), mode.opts...), largeRules()...)
			var keys []string
			for u := range 200 {
				keys = append(keys, fmt.Sprint("user ", u))
				testkit.Admit(t, l, keys[u], 1)
			}
			load := startLoad(t, 4, l, keys...)
			testkit.Must(t, cluster.Reshard(cluster.Nodes[m], cluster.Nodes[m+1], slots))
			moving := load.calls.Load()
			load.admit(t, 2000)
			if failed := load.check(t, 1); failed*1000 > load.calls.Load() {
				t.Errorf("%d of %d decisions failed, want at most one in a thousand", failed, load.calls.Load())
			}
			if moving < 100 {
				t.Errorf("%d decisions were made while slots moved, want 100 for the test to have a meaning", moving)
			}
		})
	}
}

// largeRules admit every event of a test.
func largeRules() []core.Rule {
	const limit = 1_000_000
	return []core.Rule{core.TokenBucket("bucket", core.Per(limit, century)), core.SlidingLog("log", core.PerDay(limit))}
}

// migrate moves the slot of keys from one master to another, as redis-cli does.
func migrate(t *testing.T, cluster *redistest.Cluster, from, to *redistest.Server, keys ...string) {
	t.Helper()
	source, target := from.Client(), to.Client()
	slot := source.ClusterKeySlot(t.Context(), keys[0]).Val()
	id := func(rdb *redis.Client) string { return rdb.ClusterMyID(t.Context()).Val() }
	do := func(rdb *redis.Client, args ...any) {
		t.Helper()
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do(target, "cluster", "setslot", slot, "importing", id(source))
	do(source, "cluster", "setslot", slot, "migrating", id(target))
	// One at a time: in between, the keys of a decision are on both sides.
	for _, key := range keys {
		do(source, "migrate", "127.0.0.1", to.Addr[len("127.0.0.1:"):], key, 0, 5000)
	}
	do(target, "cluster", "setslot", slot, "node", id(target))
	do(source, "cluster", "setslot", slot, "node", id(target))
	for _, node := range cluster.Nodes {
		if node != from && node != to {
			do(node.Client(), "cluster", "setslot", slot, "node", id(target))
		}
	}
}

// TestCluster_promotion kills the master of a key, and its replica takes over: decisions fail
// until then and not much longer, and no charge is lost.
func TestCluster_promotion(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	replica, err := cluster.AddReplica(cluster.Nodes[0])
	testkit.Must(t, err)
	master := cluster.Nodes[0].Client()
	rule := core.SlidingLog("log", core.PerDay(10))
	var limiters []*core.Limiter
	var keys []string
	for _, mode := range modes {
		s := newStore(cluster.Client(), append(mode.opts, redisstore.Timeout(4*short))...)
		l, key := testkit.Limiter(t, s, rule), identityOn(t, cluster.Nodes[0], s, "promoted")
		testkit.Admit(t, l, key, 10)
		limiters, keys = append(limiters, l), append(keys, key)
	}
	eventually(t, func() error {
		offset := func(rdb *redis.Client) string {
			_, rest, _ := strings.Cut(rdb.Info(t.Context(), "replication").Val(), "master_repl_offset:")
			n, _, _ := strings.Cut(rest, "\r")
			return n
		}
		if have, want := offset(replica.Client()), offset(master); have != want {
			return fmt.Errorf("the replica has the offset %s, want %s", have, want)
		}
		return nil
	})
	testkit.Must(t, cluster.Nodes[0].Stop())
	for i, mode := range modes {
		eventually(t, func() error {
			d, err := limiters[i].Allow(t.Context(), keys[i])
			if err != nil && !errors.Is(err, core.ErrUnavailable) {
				t.Fatalf("%s: the error is %v, want core.ErrUnavailable", mode.name, err)
			}
			if err == nil && d.Allowed {
				t.Fatalf("%s: the eleventh of ten was admitted", mode.name)
			}
			return err
		})
	}
}

// TestSentinel_failover replaces the master in the middle of a window: the charges that had
// reached the replica count, and no more events than were admitted before the failover can be
// admitted twice.
func TestSentinel_failover(t *testing.T) {
	t.Parallel()
	const limit, first = 1000, 700
	set := redistest.NewSentinel(t)
	type user struct {
		name       string
		calm, busy *core.Limiter // calm is not used while the master is away
		admitted   atomic.Int64  // of busy
		before     int64         // admitted until the first decisions after the failover
		stop       func()
	}
	var all []*user
	for _, mode := range modes {
		rdb := set.Client(func(o *redis.FailoverOptions) { o.DialTimeout, o.ReadTimeout = 10*short, 10*short })
		rules := func(name string) []core.Rule {
			return []core.Rule{core.TokenBucket(name+" bucket", core.Per(limit, century)), core.SlidingLog(name+" log", core.PerDay(limit))}
		}
		u := &user{
			name: mode.name,
			calm: testkit.Limiter(t, newStore(rdb, mode.opts...), rules("calm")...),
			busy: testkit.Limiter(t, newStore(rdb, append(mode.opts, redisstore.Timeout(2*short))...), rules("busy")...),
		}
		testkit.Admit(t, u.calm, "k", first)
		all = append(all, u)
	}
	eventually(t, func() error {
		if n, err := set.Master.Client().Wait(t.Context(), 1, time.Second).Result(); n < 1 {
			return fmt.Errorf("%d replicas have caught up: %w", n, err)
		}
		return nil
	})
	for _, u := range all {
		u.stop = underLoad(t, 2, func() {
			if d, err := u.busy.Allow(t.Context(), "k"); err == nil && d.Allowed {
				u.admitted.Add(1)
			}
		})
		eventually(t, func() error {
			if n := u.admitted.Load(); n < 10 {
				return fmt.Errorf("%s: %d were admitted, want 10", u.name, n)
			}
			return nil
		})
	}
	testkit.Must(t, set.Failover())
	for _, u := range all {
		eventually(t, func() error {
			for range 20 { // also over connections that were open before
				if _, err := u.calm.Peek(t.Context(), "k"); err != nil {
					return err
				}
			}
			return nil
		})
		u.before = u.admitted.Load()
		if got := testkit.Used(t, u.calm, "k"); !slices.Equal(got, []int{first, first}) {
			t.Errorf("%s: %v are used after the failover, want %d", u.name, got, first)
		}
		if d := testkit.Ask(t, u.calm, "k", limit-first+1); d.Allowed {
			t.Errorf("%s: more than the rest of the limit was admitted", u.name)
		}
		testkit.Admit(t, u.calm, "k", limit-first)
	}
	for _, u := range all {
		eventually(t, func() error {
			d, err := u.busy.Allow(t.Context(), "k")
			if err == nil && d.Allowed {
				u.admitted.Add(1)
				err = fmt.Errorf("%d are left", d.State(0).Remaining)
			}
			return err
		})
		u.stop()
		n := u.admitted.Load()
		t.Logf("%s: %d of %d were admitted, %d of them before the first decisions after the failover", u.name, n, limit, u.before)
		if n > limit+u.before {
			t.Errorf("%s: %d were admitted, want at most %d, and %d from before the failover", u.name, n, limit, u.before)
		}
	}
}
