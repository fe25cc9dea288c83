package redisstore_test

import (
	"testing"

	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// Stores with different prefixes or secrets have different states, and Stores with the same prefix
// and secret share their states.
func TestStore_Keys_prefixAndSecret(t *testing.T) {
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
		t.Errorf("the same identity and rule have the keys %q and %q", a, b)
	}
	seen := make(map[string]string)
	for name, s := range map[string]*redisstore.Store{
		"plain": plain, "prefix": store(prefix()), "secret": store(redisstore.KeySecret(secret)), "other secret": store(redisstore.KeySecret(another)),
	} {
		for i := range rules {
			key := s.Key("k", rules[i])
			if other, ok := seen[key]; ok {
				t.Errorf("%s and %s share the key %q", other, name, key)
			}
			seen[key] = name
		}
		l := testkit.Limiter(t, s, rules...)
		if got := testkit.Used(t, l, "k"); got[0] != 0 {
			t.Errorf("%s: the rules have used %v, want 0", name, got)
		}
		testkit.Admit(t, l, "k", 10)
	}
	again := append([]byte(nil), secret...)
	s := store(redisstore.KeySecret(again))
	clear(again) // the Store has its own copy
	if got := testkit.Used(t, testkit.Limiter(t, s, rules...), "k"); got[0] != 10 {
		t.Errorf("with the same secret, the rules have used %v, want 10", got)
	}
}
