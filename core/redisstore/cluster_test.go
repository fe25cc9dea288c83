package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/redistest"
	"github.com/weir-go/weir/core/redisstore"
)

// identityOn is an identity whose state lives on the given node.
func identityOn(t *testing.T, node *redistest.Server, s *redisstore.Store, like string) string {
	t.Helper()
	rdb := node.Client()
	ranges, err := rdb.ClusterSlots(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	rule := core.TokenBucket("any", core.PerSecond(1))
	for n := range 1000 {
		identity := fmt.Sprint(like, n)
		slot, err := rdb.ClusterKeySlot(t.Context(), s.Key(identity, &rule)).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range ranges {
			if r.Start <= int(slot) && int(slot) <= r.End && r.Nodes[0].Addr == node.Addr {
				return identity
			}
		}
	}
	t.Fatalf("no identity lives on %s", node.Addr)
	return ""
}

// Two keys on two nodes: the one that could be charged gets it back when the
// other one is denied, to the microsecond.
func TestClusterGivesBack(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for _, mode := range modes {
		rdb := cluster.Client()
		for _, rich := range algorithms {
			for _, poor := range algorithms {
				for _, cost := range []int{1, 7, 20} {
					t.Run(fmt.Sprintf("%s/%s and %s/cost %d", mode.name, rich.name, poor.name, cost), func(t *testing.T) {
						h := harness(rdb, mode.opts...)
						s := h.Store.(*redisstore.Store)
						a, b := identityOn(t, cluster.Nodes[0], s, "a"), identityOn(t, cluster.Nodes[2], s, "b")
						wide := limiter(t, s, rich.rule("wide", core.PerHour(999)), rich.rule("wider", core.PerDay(1009)))
						narrow := limiter(t, s, poor.rule("narrow", core.PerHour(5)))
						spend(t, wide, a, 13)
						h.Advance(time.Second + time.Microsecond)
						spend(t, wide, a, 17)
						h.Advance(time.Millisecond)
						spend(t, narrow, b, 5)
						asks := []core.Ask{{Limiter: wide, Key: a, Cost: cost}, {Limiter: narrow, Key: b, Cost: 1}}
						before, nothing := states(t, wide, a), states(t, narrow, b)
						for range 2 {
							for range 5 {
								d, err := core.AllowAll(t.Context(), asks...)
								if err != nil || d.Allowed {
									t.Fatalf("%+v, %v", d, err)
								}
								if d.State(0).RetryAfter == 0 && d.State(2).RetryAfter == 0 {
									t.Errorf("no state says why: %+v", d)
								}
							}
							slices.Reverse(asks)
						}
						if after := states(t, wide, a); !slices.Equal(before, after) {
							t.Errorf("the key that could pay had\n%+v, and has\n%+v", before, after)
						}
						if after := states(t, narrow, b); !slices.Equal(nothing, after) {
							t.Errorf("the key that could not had\n%+v, and has\n%+v", nothing, after)
						}
					})
				}
			}
		}
	}
}

// states are what is left for key, without the pointers to the rules.
func states(t *testing.T, l *core.Limiter, key string) []core.State {
	t.Helper()
	d, err := l.Peek(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var all []core.State
	for _, st := range d.States() {
		st.Rule = nil
		all = append(all, st)
	}
	return all
}

// One master dies: its keys cannot be decided, the keys of others can, and what
// a decision over both took from a living one comes back.
func TestClusterNodeDies(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	dead, alive := cluster.Nodes[0], cluster.Nodes[1]
	type user struct {
		name                string
		s                   *redisstore.Store
		l                   *core.Limiter
		living, other, lost string
	}
	var users []user
	for _, mode := range modes {
		rdb, own := cluster.Client(), prefix()
		s := redisstore.New(rdb, append([]redisstore.Option{own, redisstore.Timeout(10 * short)}, mode.opts...)...)
		u := user{mode.name, s, limiter(t, s, dailyRules()...), "", "", ""}
		u.living, u.other = identityOn(t, alive, s, "living"), identityOn(t, cluster.Nodes[2], s, "other")
		u.lost = identityOn(t, dead, s, "lost")
		patient := limiter(t, redisstore.New(rdb, append([]redisstore.Option{own, redisstore.Timeout(patience)}, mode.opts...)...), dailyRules()...)
		for _, identity := range []string{u.living, u.other, u.lost} {
			spend(t, patient, identity, 100)
		}
		users = append(users, u)
	}
	dead.Stop()
	for _, u := range users {
		t.Run(u.name, func(t *testing.T) {
			for range 3 {
				d, err := u.l.Allow(t.Context(), u.lost)
				unavailable(t, d, err)
				d, err = core.AllowAll(t.Context(),
					core.Ask{Limiter: u.l, Key: u.living, Cost: 10}, core.Ask{Limiter: u.l, Key: u.lost, Cost: 10}, core.Ask{Limiter: u.l, Key: u.other, Cost: 10})
				unavailable(t, d, err)
			}
			eventually(t, func() error { // giving back may outlast the call
				for _, identity := range []string{u.living, u.other} {
					d, err := u.l.Peek(t.Context(), identity)
					if err != nil {
						return err
					}
					if left := d.State(0).Remaining; left != 900 || d.State(1).Remaining != 900 {
						return fmt.Errorf("%s has %d and %d left, want 900", identity, left, d.State(1).Remaining)
					}
				}
				return nil
			})
			// Decisions elsewhere do not fail while those on the dead node do.
			var lost, failed atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 5 {
						d, err := u.l.Allow(t.Context(), u.lost)
						unavailable(t, d, err)
						lost.Add(1)
					}
				})
			}
			for _, identity := range []string{u.living, u.other} {
				wg.Go(func() {
					for range 200 {
						if _, err := u.l.Allow(t.Context(), identity); err != nil {
							failed.Add(1)
							t.Logf("%s: %v", identity, err)
						}
					}
				})
			}
			wg.Wait()
			if failed.Load() > 0 {
				t.Errorf("of 400 decisions on living nodes %d failed beside %d on a dead one", failed.Load(), lost.Load())
			}
		})
	}
	dead.Start()
	for _, u := range users {
		eventually(t, func() error {
			_, err := u.l.Allow(t.Context(), u.lost)
			return err
		})
	}
}

// A slot moves back and forth between two masters while its keys are in use.
func TestClusterMigration(t *testing.T) {
	t.Parallel()
	const goroutines, limit, rounds = 8, 1_000_000, 6
	cluster := redistest.Cluster(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := redisstore.New(cluster.Client(), append([]redisstore.Option{prefix(), redisstore.Timeout(20 * short)}, mode.opts...)...)
			rules := []core.Rule{core.TokenBucket("bucket", core.Per(limit, 365*24*time.Hour)), core.SlidingLog("log", core.PerDay(limit))}
			l := limiter(t, s, rules...)
			from, to := cluster.Nodes[0], cluster.Nodes[1]
			identity := identityOn(t, from, s, "k")
			spend(t, l, identity, 1)

			stop := make(chan struct{})
			var admitted, calls, failed atomic.Int64
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						calls.Add(1)
						d, err := l.Allow(t.Context(), identity)
						switch {
						case err != nil:
							failed.Add(1)
							t.Logf("a decision failed: %v", err)
						case d.Allowed:
							admitted.Add(1)
						}
					}
				})
			}
			var keys []string
			for i := range rules {
				keys = append(keys, s.Key(identity, &rules[i]))
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
			close(stop)
			wg.Wait()
			n, lost := int(admitted.Load())+1, int(failed.Load())
			t.Logf("%d decisions during %d migrations: %d failed (%.4f %%), %d were sent again",
				calls.Load(), rounds, lost, 100*float64(lost)/float64(calls.Load()), s.Stats().Retried)
			for i, got := range used(t, l, identity) {
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
func migrate(t *testing.T, cluster *redistest.ClusterSet, from, to *redistest.Server, keys ...string) {
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

// A client that knows nothing of slots decides key by key, and no less exactly.
func TestClusterOtherClients(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
	l := limiter(t, s, dailyRules()...)
	if d, err := core.AllowAll(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: 400}, core.Ask{Limiter: l, Key: "b", Cost: 1000}); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	d, err := core.AllowAll(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: 1}, core.Ask{Limiter: l, Key: "b", Cost: 1})
	if err != nil || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if got := used(t, l, "a"); !slices.Equal(got, []int{400, 400}) {
		t.Errorf("a has used %v, want 400", got)
	}
	if _, err := core.AllowAll(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: -1}); !errors.Is(err, core.ErrNegativeCost) {
		t.Errorf("a negative cost: %v", err)
	}
}
