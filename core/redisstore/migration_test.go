package redisstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A slot moves back and forth between two masters while its keys are in use.
func TestClusterMigration(t *testing.T) {
	t.Parallel()
	const goroutines, limit, rounds = 8, 1_000_000, 6
	cluster := redistest.NewCluster(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := redisstore.New(cluster.Client(), append([]redisstore.Option{prefix(), redisstore.Timeout(20 * short)}, mode.opts...)...)
			rules := []core.Rule{core.TokenBucket("bucket", core.Per(limit, 365*24*time.Hour)), core.SlidingLog("log", core.PerDay(limit))}
			l := testkit.Limiter(t, s, rules...)
			from, to := cluster.Nodes[0], cluster.Nodes[1]
			identity := identityOn(t, from, s, "k")
			testkit.Admit(t, l, identity, 1)

			var admitted, calls, failed atomic.Int64
			stop := underLoad(t, goroutines, func() {
				calls.Add(1)
				d, err := l.Allow(t.Context(), identity)
				switch {
				case err != nil:
					failed.Add(1)
					t.Logf("a decision failed: %v", err)
				case d.Allowed:
					admitted.Add(1)
				}
			})
			var keys []string
			for i := range rules {
				keys = append(keys, s.Key(identity, rules[i]))
			}
			for range rounds {
				seen := calls.Load()
				eventually(t, func() error {
					if n := calls.Load() - seen; n < 500 {
						return fmt.Errorf("%d calls between two migrations", n)
					}
					return nil
				})
				migrate(t, cluster, from, to, keys...)
				from, to = to, from
			}
			stop()
			n, lost := int(admitted.Load())+1, int(failed.Load())
			t.Logf("%d decisions during %d migrations: %d failed (%.4f %%), %d were sent again",
				calls.Load(), rounds, lost, 100*float64(lost)/float64(calls.Load()), s.Stats().Retried)
			for i, got := range testkit.Used(t, l, identity) {
				if got < n || got > n+lost {
					t.Errorf("rule %d has used %d, admitted were %d, and %d failed", i, got, n, lost)
				}
			}
			if int64(lost)*1000 > calls.Load() {
				t.Errorf("%d of %d failed, more than one in a thousand", lost, calls.Load())
			}
		})
	}
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
		host, port := "127.0.0.1", to.Addr[len("127.0.0.1:"):]
		do(source, "migrate", host, port, key, 0, 5000)
	}
	do(target, "cluster", "setslot", slot, "node", id(target))
	do(source, "cluster", "setslot", slot, "node", id(target))
	for _, node := range cluster.Nodes {
		if node != from && node != to {
			do(node.Client(), "cluster", "setslot", slot, "node", id(target))
		}
	}
}
