package redisstore_test

import (
	"context"
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

// identityOn is an identity whose state lives on the given node.
func identityOn(t *testing.T, node *redistest.Server, s *redisstore.Store, like string) string {
	t.Helper()
	rdb := node.Client()
	rule := core.TokenBucket("any", core.PerSecond(1))
	for n := range 1000 {
		identity := fmt.Sprint(like, n)
		err := rdb.Exists(t.Context(), s.Key(identity, rule)).Err()
		if err == nil {
			return identity
		}
		if _, moved := redis.IsMovedError(err); !moved {
			t.Fatal(err)
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
	for i, mode := range modes {
		rdb := cluster.Client()
		for _, rich := range testkit.Algorithms {
			for _, poor := range testkit.Algorithms {
				for _, cost := range [][]int{{1, 20}, {7}}[i] {
					t.Run(fmt.Sprintf("%s/%s and %s/cost %d", mode.name, rich.Name, poor.Name, cost), func(t *testing.T) {
						h := harness(rdb, mode.opts...)
						s := h.Store.(*redisstore.Store)
						a, b := identityOn(t, cluster.Nodes[0], s, "a"), identityOn(t, cluster.Nodes[2], s, "b")
						wide := testkit.Limiter(t, s, rich.Rule("wide", core.PerHour(999)), rich.Rule("wider", core.PerDay(1009)))
						narrow := testkit.Limiter(t, s, poor.Rule("narrow", core.PerHour(5)))
						testkit.Admit(t, wide, a, 13)
						h.Advance(time.Second + time.Microsecond)
						testkit.Admit(t, wide, a, 17)
						h.Advance(time.Millisecond)
						testkit.Admit(t, narrow, b, 5)
						asks := []core.Ask{{Limiter: wide, Key: a, Cost: cost}, {Limiter: narrow, Key: b, Cost: 1}}
						before, nothing := states(t, wide, a), states(t, narrow, b)
						for range 2 {
							for range 5 {
								d, err := core.AllowTogether(t.Context(), asks...)
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

// What is given back is what was taken: not the events of others that came in
// between, which would leave earlier for it, or be forgotten.
func TestClusterGivesBackItsOwn(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for name, wait := range map[string]time.Duration{"within the period": time.Second, "after the period": time.Minute} {
		for _, a := range testkit.Algorithms {
			t.Run(name+"/"+a.Name, func(t *testing.T) {
				slow := redistest.NewProxy(t, cluster.Nodes[2].Addr)
				h := harness(cluster.Client(func(o *redis.ClusterOptions) {
					o.Dialer = through(map[string]*redistest.Proxy{cluster.Nodes[2].Addr: slow})
				}))
				s := h.Store.(*redisstore.Store)
				taken, denied := identityOn(t, cluster.Nodes[0], s, "taken"), identityOn(t, cluster.Nodes[2], s, "denied")
				wide := testkit.Limiter(t, s, a.Rule("wide", core.PerMinute(10)))
				narrow := testkit.Limiter(t, s, a.Rule("narrow", core.PerDay(1)))
				testkit.Admit(t, narrow, denied, 1)
				testkit.Used(t, wide, taken) // both nodes know the way

				slow.Delay(5 * short)
				joint := make(chan core.Decision)
				go func() {
					d, err := core.AllowTogether(context.Background(),
						core.Ask{Limiter: wide, Key: taken, Cost: 4}, core.Ask{Limiter: narrow, Key: denied, Cost: 1})
					if err != nil {
						t.Error(err)
					}
					joint <- d
				}()
				if a.Name != "leaky_bucket" { // no place is taken before the other has said yes
					eventually(t, func() error {
						if n := testkit.Used(t, wide, taken)[0]; n != 4 {
							return fmt.Errorf("%d are taken, want 4", n)
						}
						return nil
					})
				}
				h.Advance(wait)
				testkit.Admit(t, wide, taken, 6) // stays
				if d := <-joint; d.Allowed {
					t.Fatalf("%+v", d)
				}
				const want = 6
				if n := testkit.Used(t, wide, taken)[0]; n != want {
					t.Errorf("%d are used after 4 of 10 were given back, want %d", n, want)
				}
				least := 6 * time.Minute / 10
				if a.Name == "sliding_log" {
					least = time.Minute
				}
				if reset := states(t, wide, taken)[0].ResetAfter; reset < least {
					t.Errorf("the 6 that were taken just now are forgotten after %v, want %v", reset, least)
				}
				h.Advance(time.Minute - wait)
				if d := testkit.Ask(t, wide, taken, 5); a.Name == "sliding_log" && wait < time.Minute && d.Allowed {
					t.Error("6 and 5 of 10 were admitted within a minute")
				}
			})
		}
	}
}

// states are what is left for key, without the rules.
func states(t *testing.T, l *core.Limiter, key string) []core.State {
	t.Helper()
	d, err := l.Peek(t.Context(), key)
	testkit.Must(t, err)
	var all []core.State
	for _, st := range d.States() {
		st.Rule = core.Rule{}
		all = append(all, st)
	}
	return all
}

// A client that knows nothing of slots decides key by key, and no less exactly.
func TestClusterOtherClients(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	s := newStore(rdb)
	l := testkit.Limiter(t, s, dailyRules()...)
	if d, err := core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: 400}, core.Ask{Limiter: l, Key: "b", Cost: 1000}); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	d, err := core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: 1}, core.Ask{Limiter: l, Key: "b", Cost: 1})
	if err != nil || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if got := testkit.Used(t, l, "a"); !slices.Equal(got, []int{400, 400}) {
		t.Errorf("a has used %v, want 400", got)
	}
	if _, err := core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: -1}); !errors.Is(err, core.ErrNegativeCost) {
		t.Errorf("a negative cost: %v", err)
	}
}

// TestCluster_migration moves a slot back and forth between two masters while its keys are in
// use, and TestCluster_reshard 1000 slots with the keys of 200 identities, by the tool that
// operators use. Less than one decision in a thousand may fail.
func TestCluster_migration(t *testing.T) {
	t.Parallel()
	const rounds = 6
	cluster := steadyCluster(t)
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
	cluster := steadyCluster(t)
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
