package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// hostile are identities that a client might choose. Those with letters contain "mallory", except
// "{x}".
var hostile = []string{
	"}", "{", "{}", "}{", "{x}", "{mallory}", "mallory}", "{}mallory", "mallory\x00", "mallory\r\nDEL mallory\r\n", "mallory mallory",
	"mallory:log", "mallory*?[a-z]", "m\u00e4llory mallory", "\xff\xfe\xfdmallory", "%6dallory", "192.0.2.1 mallory",
	strings.Repeat("mallory", 100<<10/7), strings.Repeat("x", 100<<10) + "mallory",
}

// The longest prefix and rule name.
var (
	longestPrefix = strings.Repeat("p", 26)
	longestName   = strings.Repeat("n", 64)
)

func TestStore_Keys(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	slots := redistest.SharedCluster(t).Nodes[0].Client()
	var want []string
	for _, opts := range [][]redisstore.Option{
		nil,
		{redisstore.Prefix(longestPrefix)},
		{redisstore.Prefix(""), redisstore.KeySecret([]byte("sixteen bytes...")), redisstore.Unbatched()},
	} {
		s := redisstore.New(rdb, "test", append(opts, redisstore.Timeout(waitLimit))...)
		rules := append(dailyRules(),
			core.TokenBucket(longestName, core.PerSecond(3)), core.SlidingLog("a {b} c*", core.Per(2, 20*time.Millisecond)))
		l := testkit.Limiter(t, s, rules...)
		for _, identity := range hostile {
			testkit.Admit(t, l, identity, 1)
			slot := int64(-1)
			for i := range rules {
				key := s.Key(identity, rules[i])
				want = append(want, key)
				got, err := slots.ClusterKeySlot(t.Context(), key).Result()
				testkit.Must(t, err)
				if slot >= 0 && got != slot {
					t.Errorf("rules of %.20q have the slots %d and %d", identity, slot, got)
				}
				slot = got
			}
		}
	}
	keys := keysOf(t, rdb, "")
	if len(keys) < 3*len(hostile) {
		t.Fatalf("there are %d keys, want at least %d", len(keys), 3*len(hostile))
	}
	for _, key := range keys {
		expiryOf(t, rdb, key)
		if !slices.Contains(want, key) {
			t.Errorf("the key %q belongs to no rule", key)
		}
		if len(key) > 128 {
			t.Errorf("%q has %d bytes, want at most 128", key, len(key))
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q has characters that cannot be printed", key)
		}
		if strings.Contains(key, "mallory") || strings.Contains(key, "xxxxxxxx") {
			t.Errorf("%q shows its identity", key)
		}
	}
	slices.Sort(want)
	if len(slices.Compact(want)) != 3*4*len(hostile) {
		t.Error("two identities share a key")
	}
}

// TestStore_Take_ttl compares the expiry of a key with the time at which its state equals that of a
// new key.
func TestStore_Take_ttl(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const most = 20 * time.Second // for which an unused key may be kept
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
					for _, cost := range []int{n, 1} { // of a new key and of an existing key
						before := rdb.Time(t.Context()).Val()
						reset := testkit.Ask(t, l, identity, cost).State(0).ResetAfter
						after := rdb.Time(t.Context()).Val()
						key := expiryOf(t, rdb, s.Key(identity, rule))
						if want := before.Add(reset); key.latest.Before(want) {
							t.Errorf("cost %d: the key expires %v before its state equals that of a new key", cost, want.Sub(key.latest))
						}
						if want := after.Add(reset + limit.Per/60 + most); key.earliest.After(want) {
							t.Errorf("cost %d: the key expires %v too late", cost, key.earliest.Sub(want))
						}
					}
				}
			})
		}
	}
}

// TestStore_Adjust_ttl frees a part of the used events, by a credit, by the undo of a denied joint
// decision, and by a credit after the clock has stepped back.
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
