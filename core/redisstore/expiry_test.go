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

// State lives at least as long as it means something, by the server's clock.
func TestKeysOutliveTheirMeaning(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range testkit.Algorithms {
		for _, limit := range []core.Limit{
			core.Per(3, time.Second), core.Per(7, 1100*time.Millisecond), core.Per(1000, time.Second), core.PerMinute(60),
			core.PerHour(500), core.PerDay(10), core.Per(10, century),
		} {
			t.Run(a.Name+"/"+limit.String(), func(t *testing.T) {
				s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
				rule := a.Rule("rule", limit)
				l := testkit.Limiter(t, s, rule)
				for n := 1; n <= min(limit.Events, 40); n++ {
					identity := fmt.Sprint(n)
					key := s.Key(identity, rule)
					for _, cost := range []int{n, 1} { // new, and there already
						before := rdb.Time(t.Context()).Val()
						reset := testkit.Ask(t, l, identity, cost).State(0).ResetAfter
						if expiry := expiry(t, rdb, key); expiry.Before(before.Add(reset)) {
							t.Errorf("cost %d: the key ends %v before its meaning", cost, before.Add(reset).Sub(expiry))
						} else if expiry.After(before.Add(reset).Add(patience + limit.Per/core.DefaultSubWindows)) {
							t.Errorf("cost %d: the key ends %v after its meaning", cost, expiry.Sub(before.Add(reset)))
						}
					}
				}
			})
		}
	}
}

// expiry is when a key ends, by the server's clock; now, if it has ended.
func expiry(t *testing.T, rdb *redis.Client, key string) time.Time {
	t.Helper()
	var now *redis.TimeCmd
	var ttl *redis.DurationCmd
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error { // at the same time
		now, ttl = p.Time(t.Context()), p.PTTL(t.Context(), key)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if ttl.Val() == -1 {
		t.Fatalf("%q has no TTL", key)
	}
	return now.Val().Add(max(0, ttl.Val()))
}

// What nobody uses any more is forgotten.
func TestKeysVanish(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range testkit.Algorithms {
		s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
		rule := a.Rule("rule", core.Per(10, 50*time.Millisecond))
		l := testkit.Limiter(t, s, rule)
		for n := range 10 {
			testkit.Admit(t, l, fmt.Sprint(n), n+1)
		}
		eventually(t, func() error {
			for n := range 10 {
				if key := s.Key(fmt.Sprint(n), rule); rdb.Exists(t.Context(), key).Val() != 0 {
					return fmt.Errorf("%s: %q is still there", a.Name, key)
				}
			}
			return nil
		})
	}
}
