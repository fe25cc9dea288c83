package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// An expiry is the time at which a key ends, by the server's clock. The server tells the time
// and the TTL of a key by two commands, so the expiry is known to lie between two times.
type expiry struct{ earliest, latest time.Time }

// expiryOf returns the expiry of a key, or a time in the past if it has ended.
func expiryOf(t *testing.T, rdb *redis.Client, key string) expiry {
	t.Helper()
	before := rdb.Time(t.Context()).Val()
	ttl, err := rdb.PTTL(t.Context(), key).Result()
	testkit.Must(t, err)
	if ttl == -1 {
		t.Fatalf("%q has no TTL", key)
	}
	after := rdb.Time(t.Context()).Val()
	return expiry{before.Add(max(0, ttl) - time.Millisecond), after.Add(max(0, ttl) + time.Millisecond)}
}

// TestStore_Take_ttl compares the expiry of a state with the time at which the state is that
// of a fresh key. Redis deletes the key by itself then.
func TestStore_Take_ttl(t *testing.T) {
	t.Parallel()
	const most = 20 * time.Second // for which a key may be kept in vain
	rdb := redistest.Shared(t).Client()
	for _, a := range testkit.Algorithms {
		for _, limit := range []core.Limit{
			core.Per(3, time.Second), core.Per(7, 1100*time.Millisecond), core.Per(1000, time.Second), core.PerMinute(60),
			core.PerHour(500), core.PerDay(10), core.Per(10, century),
		} {
			t.Run(a.Name+"/"+limit.String(), func(t *testing.T) {
				s := newStore(rdb)
				rule := a.Rule("rule", limit)
				l := testkit.Limiter(t, s, rule)
				for n := 1; n <= min(limit.Events, 40); n++ {
					identity := fmt.Sprint(n)
					for _, cost := range []int{n, 1} { // of a new key, and of one that exists
						before := rdb.Time(t.Context()).Val()
						reset := testkit.Ask(t, l, identity, cost).State(0).ResetAfter
						after := rdb.Time(t.Context()).Val()
						key := expiryOf(t, rdb, s.Key(identity, rule))
						if want := before.Add(reset); key.latest.Before(want) {
							t.Errorf("cost %d: the key ends %v before the state is that of a fresh key", cost, want.Sub(key.latest))
						}
						if want := after.Add(reset + limit.Per/core.DefaultSubWindows + most); key.earliest.After(want) {
							t.Errorf("cost %d: the key ends %v later than it may", cost, key.earliest.Sub(want))
						}
					}
				}
			})
		}
	}
}

// TestStore_Adjust_ttl frees a part of what a key has used, by a credit, by the undo of a
// denied joint decision, and after the clock has stepped back.
func TestStore_Adjust_ttl(t *testing.T) {
	t.Parallel()
	rdb, cluster := redistest.Shared(t).Client(), redistest.SharedCluster(t).Client()
	for _, a := range testkit.Algorithms {
		rule := a.Rule("r", core.PerHour(100))
		check := func(when string, rdb redis.UniversalClient, s *redisstore.Store, key string) {
			t.Helper()
			if ttl := rdb.PTTL(t.Context(), s.Key(key, rule)).Val(); ttl <= 0 {
				t.Errorf("%s, %s: the TTL is %v, want a positive one", a.Name, when, ttl)
			}
		}
		for _, n := range []int{1, 2, 15, 20} {
			s := newStore(rdb)
			l := testkit.Limiter(t, s, rule)
			testkit.Admit(t, l, "k", n)
			testkit.Admit(t, l, "k", 1)
			testkit.Must(t, l.Credit(t.Context(), "k", 1))
			check(fmt.Sprintf("%d and 1 less 1", n), rdb, s, "k")
		}

		s := newStore(cluster)
		l := testkit.Limiter(t, s, rule)
		for i := range 20 {
			k, full := fmt.Sprint("k", i), fmt.Sprint("full", i)
			testkit.Admit(t, l, full, 100)
			testkit.Admit(t, l, k, 1)
			d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: k, Cost: 1}, core.Ask{Limiter: l, Key: full, Cost: 1})
			if err != nil || d.Allowed {
				t.Fatalf("the joint decision is %+v, %v, want a denial", d, err)
			}
			check("after a denied joint decision", cluster, s, k)
		}

		h := harness(rdb)
		s = h.Store.(*redisstore.Store)
		l = testkit.Limiter(t, s, rule)
		testkit.Admit(t, l, "k", 20)
		testkit.Admit(t, l, "k", 20)
		h.Advance(-time.Second)
		testkit.Must(t, l.Credit(t.Context(), "k", 1))
		check("after a step back", rdb, s, "k")
	}
}
