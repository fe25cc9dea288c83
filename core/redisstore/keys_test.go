package redisstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// hostile are identities that a client could come up with. Every one of them
// says "mallory" as soon as it says anything.
var hostile = []string{
	"}", "{", "{}", "}{", "{x}", "{mallory}", "mallory}", "{}mallory", "mallory\x00", "mallory\r\nDEL mallory\r\n", "mallory mallory",
	"mallory:log", "mallory*?[a-z]", "m\u00e4llory mallory", "\xff\xfe\xfdmallory", "%6dallory", "192.0.2.1 mallory",
	strings.Repeat("mallory", 100<<10/7), strings.Repeat("x", 100<<10) + "mallory",
}

// longest are the longest prefix and rule name that there may be.
var (
	longestPrefix = strings.Repeat("p", 32)
	longestName   = strings.Repeat("n", 64)
)

func TestKeys(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	slots := redistest.SharedCluster(t).Nodes[0].Client()
	var want []string
	for _, opts := range [][]redisstore.Option{
		nil,
		{redisstore.Prefix(longestPrefix)},
		{redisstore.Prefix(""), redisstore.KeySecret([]byte("sixteen bytes...")), redisstore.Pipelined()},
	} {
		s := redisstore.New(rdb, append(opts, redisstore.Timeout(patience))...)
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
		t.Fatalf("only %d keys", len(keys))
	}
	for _, key := range keys {
		expiryOf(t, rdb, key)
		if !slices.Contains(want, key) {
			t.Errorf("nobody has asked for %q", key)
		}
		if len(key) > 128 {
			t.Errorf("%q has %d bytes", key, len(key))
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q is not printable", key)
		}
		if strings.Contains(key, "mallory") || strings.Contains(key, "xxxxxxxx") {
			t.Errorf("%q shows whose it is", key)
		}
	}
	slices.Sort(want)
	if len(slices.Compact(want)) != 3*4*len(hostile) {
		t.Error("two identities share a key")
	}
}

// Prefixes and secrets keep applications apart; the same ones bring them together.
func TestKeysApart(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	own := prefix()
	secret, another := []byte("a secret of sixteen or more"), []byte("a secret of sixteen or less")
	store := func(opts ...redisstore.Option) *redisstore.Store {
		return newStore(rdb, append([]redisstore.Option{own}, opts...)...)
	}
	rules := dailyRules()
	plain := store()
	if a, b := plain.Key("k", rules[0]), store().Key("k", rules[0]); a != b {
		t.Errorf("one key is %q and %q", a, b)
	}
	seen := make(map[string]string)
	for name, s := range map[string]*redisstore.Store{
		"plain": plain, "prefix": store(prefix()), "secret": store(redisstore.KeySecret(secret)), "other secret": store(redisstore.KeySecret(another)),
	} {
		for i := range rules {
			key := s.Key("k", rules[i])
			if whose, ok := seen[key]; ok {
				t.Errorf("%s and %s share %q", whose, name, key)
			}
			seen[key] = name
		}
		l := testkit.Limiter(t, s, rules...)
		if got := testkit.Used(t, l, "k"); got[0] != 0 {
			t.Errorf("%s sees what others have used: %v", name, got)
		}
		testkit.Admit(t, l, "k", 10)
	}
	again := append([]byte(nil), secret...)
	s := store(redisstore.KeySecret(again))
	clear(again) // the Store has its own copy
	if got := testkit.Used(t, testkit.Limiter(t, s, rules...), "k"); got[0] != 10 {
		t.Errorf("the same secret sees %v used, want 10", got)
	}
}

func TestKeysOptionsPanic(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(){
		"redisstore: Prefix":    func() { redisstore.Prefix(longestPrefix + "p") },
		"redisstore: Prefix:":   func() { redisstore.Prefix("a{b") },
		"redisstore: Prefix: ":  func() { redisstore.Prefix("a}b") },
		"redisstore: KeySecret": func() { redisstore.KeySecret([]byte("fifteen bytes..")) },
		"redisstore: Timeout":   func() { redisstore.Timeout(0) },
		"redisstore: New":       func() { redisstore.New(nil) },
	} {
		panics(t, strings.TrimRight(name, ": ")+": ", option)
	}
}
