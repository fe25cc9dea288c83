package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
