package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// A joint decision charges a key on one node and is denied for a key on another. The undo restores
// the states to the microsecond.
func TestCluster_deniedJointDecision(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for i, mode := range modes {
		rdb := cluster.Client()
		for _, charged := range testkit.Algorithms {
			for _, denied := range testkit.Algorithms {
				for _, cost := range [][]int{{1, 20}, {7}}[i] {
					t.Run(fmt.Sprintf("%s/%s and %s/cost %d", mode.name, charged.Name, denied.Name, cost), func(t *testing.T) {
						h := harness(rdb, mode.opts...)
						s := h.Store.(*redisstore.Store)
						a, b := identityOn(t, cluster.Nodes[0], s, "a"), identityOn(t, cluster.Nodes[2], s, "b")
						wide := testkit.Limiter(t, s, charged.Rule("wide", core.PerHour(999)), charged.Rule("wider", core.PerDay(1009)))
						narrow := testkit.Limiter(t, s, denied.Rule("narrow", core.PerHour(5)))
						testkit.Admit(t, wide, a, 13)
						h.Advance(time.Second + time.Microsecond)
						testkit.Admit(t, wide, a, 17)
						h.Advance(time.Millisecond)
						testkit.Admit(t, narrow, b, 5)
						asks := []core.Ask{{Limiter: wide, Key: a, Cost: cost}, {Limiter: narrow, Key: b, Cost: 1}}
						before, exhausted := states(t, wide, a), states(t, narrow, b)
						for range 2 {
							for range 5 {
								d, err := core.AllowTogether(t.Context(), asks...)
								if err != nil || d.Allowed {
									t.Fatalf("the joint decision is %+v, %v, want a denial", d, err)
								}
								if d.State(0).RetryAfter == 0 && d.State(2).RetryAfter == 0 {
									t.Errorf("the decision is %+v, want a state with a RetryAfter", d)
								}
							}
							slices.Reverse(asks)
						}
						if after := states(t, wide, a); !slices.Equal(before, after) {
							t.Errorf("the charged key has the states\n%+v, want\n%+v", after, before)
						}
						if after := states(t, narrow, b); !slices.Equal(exhausted, after) {
							t.Errorf("the denied key has the states\n%+v, want\n%+v", after, exhausted)
						}
					})
				}
			}
		}
	}
}

// The undo of a joint decision frees its own events. Events of other decisions, which were admitted
// before the undo, count as long as without it.
func TestCluster_undoAfterOtherEvents(t *testing.T) {
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
				testkit.Used(t, wide, taken) // there are connections to both nodes

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
				if !a.Kind().Delays { // spends only when the other key is admitted
					eventually(t, func() error {
						if n := testkit.Used(t, wide, taken)[0]; n != 4 {
							return fmt.Errorf("%d are used, want 4", n)
						}
						return nil
					})
				}
				h.Advance(wait)
				testkit.Admit(t, wide, taken, 6) // stays
				if d := <-joint; d.Allowed {
					t.Fatalf("the joint decision is %+v, want a denial", d)
				}
				if n := testkit.Used(t, wide, taken)[0]; n != 6 {
					t.Errorf("%d are used after the undo of 4, want 6", n)
				}
				least := 6 * time.Minute / 10
				if a.Name == "sliding_log" {
					least = time.Minute
				}
				if reset := states(t, wide, taken)[0].ResetAfter; reset < least {
					t.Errorf("ResetAfter of the 6 later events is %v, want at least %v", reset, least)
				}
				h.Advance(time.Minute - wait)
				if d := testkit.Ask(t, wide, taken, 5); a.Name == "sliding_log" && wait < time.Minute && d.Allowed {
					t.Error("11 events were admitted within a minute, want at most 10")
				}
			})
		}
	}
}

// states returns the states of key without the rules.
func states(t *testing.T, l *core.Limiter, key string) []core.State {
	t.Helper()
	d := testkit.Peek(t, l, key)
	var all []core.State
	for _, st := range d.States() {
		st.Rule = core.Rule{}
		all = append(all, st)
	}
	return all
}

// TestCluster_migration moves a slot back and forth between two masters while its keys are in use.
// At most one decision in a thousand may fail.
func TestCluster_migration(t *testing.T) {
	t.Parallel()
	const rounds = 4
	cluster := steadyCluster(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := newStore(cluster.Client(), mode.opts...)
			rules := largeRules()
			from, to := cluster.Nodes[0], cluster.Nodes[1]
			identity := identityOn(t, from, s, "k")
			slot := keyhash.Slot(tag(s.Key(identity, rules[0])))
			load := startLoad(t, 8, testkit.Limiter(t, s, rules...), identity)
			for range rounds {
				load.admit(t, 500)
				migrate(t, cluster, from, to, slot)
				from, to = to, from
			}
			if failed := load.check(t, 0); failed*1000 > load.calls.Load() {
				t.Errorf("%d of %d decisions failed, want at most one in a thousand", failed, load.calls.Load())
			}
		})
	}
}

// While a slot moves, one key of it is on each node. A script with both would fail with TRYAGAIN.
func TestCluster_slotOnTwoNodes(t *testing.T) {
	t.Parallel()
	cluster := steadyCluster(t)
	s := newStore(cluster.Client())
	rule := largeRules()[0]
	l := testkit.Limiter(t, s, rule)
	slot := func(identity string) uint16 { return keyhash.Slot(tag(s.Key(identity, rule))) }
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	moved := identityOn(t, from, s, "moved")
	stays := ""
	for i := 0; stays == ""; i++ {
		if other := fmt.Sprint("stays", i); slot(other) == slot(moved) {
			stays = other
		}
	}
	testkit.Admit(t, l, moved, 1)
	testkit.Admit(t, l, stays, 1)
	startMigration(t, from, to, slot(moved))
	moveKeys(t, from, to, s.Key(moved, rule))
	testkit.Concurrently(64, func(i int) {
		for range 20 {
			if _, err := l.Allow(t.Context(), []string{moved, stays}[i%2]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for _, key := range []string{moved, stays} {
		if got := testkit.Used(t, l, key)[0]; got != 1+32*20 {
			t.Errorf("%s has used %d, want %d", key, got, 1+32*20)
		}
	}
}

// TestCluster_reshard moves 500 slots with the keys of 200 identities by redis-cli.
func TestCluster_reshard(t *testing.T) {
	t.Parallel()
	const slots = 500
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
				t.Errorf("%d decisions were made while slots moved, want at least 100", moving)
			}
		})
	}
}

// migrate moves a slot with all its keys from one master to another, as redis-cli does. While the
// source holds a key of the slot, also one of an earlier test, it rejects the new owner, or deletes
// the key if the claim of the new owner arrives first.
func migrate(t *testing.T, cluster *redistest.Cluster, from, to *redistest.Server, slot uint16) {
	t.Helper()
	startMigration(t, from, to, slot)
	source, id := from.Client(), to.Client().ClusterMyID(t.Context()).Val()
	for {
		keys, err := source.ClusterGetKeysInSlot(t.Context(), int(slot), 100).Result()
		testkit.Must(t, err)
		if len(keys) == 0 {
			break
		}
		moveKeys(t, from, to, keys...)
	}
	for _, node := range slices.Concat([]*redistest.Server{to, from}, cluster.Nodes) {
		testkit.Must(t, node.Client().Do(t.Context(), "cluster", "setslot", slot, "node", id).Err())
	}
}

// startMigration opens a slot for a migration. Its keys stay.
func startMigration(t *testing.T, from, to *redistest.Server, slot uint16) {
	t.Helper()
	source, target := from.Client(), to.Client()
	id := func(rdb *redis.Client) string { return rdb.ClusterMyID(t.Context()).Val() }
	testkit.Must(t, target.Do(t.Context(), "cluster", "setslot", slot, "importing", id(source)).Err())
	testkit.Must(t, source.Do(t.Context(), "cluster", "setslot", slot, "migrating", id(target)).Err())
}

// moveKeys moves keys from one server to another, one after the other.
func moveKeys(t *testing.T, from, to *redistest.Server, keys ...string) {
	t.Helper()
	source := from.Client()
	for _, key := range keys {
		testkit.Must(t, source.Do(t.Context(), "migrate", "127.0.0.1", to.Addr[len("127.0.0.1:"):], key, 0, 5000).Err())
	}
}

// TestCluster_promotion kills the master of a key. Decisions fail until its replica has taken over,
// and no charge is lost.
func TestCluster_promotion(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	replica, err := cluster.AddReplica(cluster.Nodes[0])
	testkit.Must(t, err)
	rule := core.SlidingLog("log", core.PerDay(10))
	var limiters []*core.Limiter
	var keys []string
	for _, mode := range modes {
		rdb, own := cluster.Client(), prefix()
		s := newStore(rdb, append(mode.opts, own, redisstore.Timeout(4*short))...)
		l, key := testkit.Limiter(t, s, rule), identityOn(t, cluster.Nodes[0], s, "promoted")
		testkit.Admit(t, testkit.Limiter(t, newStore(rdb, own), rule), key, 10)
		limiters, keys = append(limiters, l), append(keys, key)
	}
	testkit.Must(t, cluster.Nodes[0].WaitReplica(replica))
	testkit.Must(t, cluster.Nodes[0].Stop())
	for i, mode := range modes {
		eventually(t, func() error {
			d, err := limiters[i].Allow(t.Context(), keys[i])
			if err != nil && !errors.Is(err, core.ErrUnavailable) {
				t.Fatalf("%s: the error is %v, want core.ErrUnavailable", mode.name, err)
			}
			if err == nil && d.Allowed {
				t.Fatalf("%s: 11 events were admitted, want at most 10", mode.name)
			}
			return err
		})
	}
}

// TestCluster_frozenMaster pauses the master of a key, as a network that drops its packets does.
// Its replica takes over, and decisions succeed long before go-redis would look for it by itself,
// after a minute.
func TestCluster_frozenMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	_, err := cluster.AddReplica(cluster.Nodes[0])
	testkit.Must(t, err)
	var limiters []*core.Limiter
	var keys []string
	for _, mode := range modes {
		rdb, own := cluster.Client(), prefix()
		s := newStore(rdb, append(mode.opts, own, redisstore.Timeout(4*short))...)
		l, key := testkit.Limiter(t, s, dailyRules()...), identityOn(t, cluster.Nodes[0], s, "frozen")
		patient := testkit.Limiter(t, newStore(rdb, own), dailyRules()...)
		testkit.Admit(t, patient, key, 1)
		testkit.Admit(t, patient, key, 1)
		limiters, keys = append(limiters, l), append(keys, key)
	}
	testkit.Must(t, cluster.Nodes[0].Pause())
	defer func() { testkit.Must(t, cluster.Nodes[0].Resume()) }()
	start := time.Now()
	for i, mode := range modes {
		eventually(t, func() error {
			_, err := limiters[i].Allow(t.Context(), keys[i])
			return err
		})
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: decisions failed for %v", mode.name, took)
		}
	}
}

// TestSentinel_failover replaces the master within a window. Charges that have reached the replica
// count. The limit is exceeded at most by the events that were admitted before the failover.
func TestSentinel_failover(t *testing.T) {
	t.Parallel()
	const limit, first = 1000, 700
	set := redistest.NewSentinel(t)
	type user struct {
		name       string
		idle, busy *core.Limiter // idle is not used during the failover
		admitted   atomic.Int64  // by busy
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
			idle: testkit.Limiter(t, newStore(rdb, mode.opts...), rules("idle")...),
			busy: testkit.Limiter(t, newStore(rdb, append(mode.opts, redisstore.Timeout(2*short))...), rules("busy")...),
		}
		testkit.Admit(t, u.idle, "k", first)
		all = append(all, u)
	}
	testkit.Must(t, set.Master.WaitReplica(set.Replica))
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
			errs := make(chan error, 20)
			for range cap(errs) { // on connections from before the failover, and on new ones
				go func() { _, err := u.idle.Peek(t.Context(), "k"); errs <- err }()
			}
			var err error
			for range cap(errs) {
				err = cmp.Or(<-errs, err)
			}
			return err
		})
		u.before = u.admitted.Load()
		if got := testkit.Used(t, u.idle, "k"); !slices.Equal(got, []int{first, first}) {
			t.Errorf("%s: the rules have used %v after the failover, want %d each", u.name, got, first)
		}
		if d := testkit.Ask(t, u.idle, "k", limit-first+1); d.Allowed {
			t.Errorf("%s: a cost of %d was admitted, want at most %d", u.name, limit-first+1, limit-first)
		}
		testkit.Admit(t, u.idle, "k", limit-first)
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
		t.Logf("%s: %d were admitted, %d of them before the first decisions after the failover", u.name, n, u.before)
		if n > limit+u.before {
			t.Errorf("%s: %d were admitted, want at most %d and the %d from before the failover", u.name, n, limit, u.before)
		}
	}
}
