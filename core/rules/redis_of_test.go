package rules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// The source of a store has its client, name, prefix and secret, through any stores over it.
func TestRedisOf(t *testing.T) {
	rdb, secret := redistest.Shared(t).Client(), []byte("a secret of sixteen or more")
	for name, over := range map[string]func(s core.Store) core.Store{
		"the store": func(s core.Store) core.Store { return s },
		"observe":   func(s core.Store) core.Store { return observe.New(s) },
		"the stack": func(s core.Store) core.Store {
			f := failover.New(s, memstore.New())
			t.Cleanup(func() { testkit.Must(t, f.Close()) })
			l := lease.New(observe.New(denycache.New(f)))
			t.Cleanup(func() { testkit.Must(t, l.Close()) })
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix()
			store := over(redisstore.New(rdb, "shop", redisstore.Prefix(prefix), redisstore.KeySecret(secret)))
			source := rules.RedisOf(store, rules.Timeout(time.Minute))
			config, err := rules.Parse("test", []byte(apiPolicies))
			testkit.Must(t, err)
			set, err := rules.New(store, config, rules.Overrides(source))
			testkit.Must(t, err)
			testkit.Must(t, set.Block(t.Context(), "api", "k", time.Time{}))
			testkit.Must(t, source.Put(t.Context(), []byte(apiPolicies)))
			keys := rdb.Keys(t.Context(), prefix+"*").Val()
			for _, key := range keys {
				if !strings.HasPrefix(key, prefix+"shop:rules") && !strings.HasPrefix(key, prefix+"shop:{rules:shop}") {
					t.Errorf("got the key %q", key)
				}
			}
			// A program without the store finds the same, if it has the same name, prefix and secret.
			for app, want := range map[string]bool{"shop": true, "blog": false} {
				alone := rules.Redis(rdb, app, rules.Prefix(prefix), rules.KeySecret(secret), rules.Timeout(time.Minute))
				other, err := rules.New(nothing{}, config, rules.Overrides(alone))
				testkit.Must(t, err)
				o, err := other.OverrideOf(t.Context(), "api", "k")
				if testkit.Must(t, err); o.Blocked != want {
					t.Errorf("%s: got the override %+v, want a block: %t", app, o, want)
				}
				if _, err := alone.Load(t.Context()); (err == nil) != want {
					t.Errorf("%s: got the error %v of Load", app, err)
				}
			}
			if len(keys) < 4 {
				t.Errorf("got the keys %q", keys)
			}
		})
	}
	// Two beginnings and names are never one prefix.
	base := newPrefix()
	for prefix, want := range map[string]string{"": "", base + "t": base + "t:", base + "t1": base + "t1:", base: base} {
		source := rules.RedisOf(redisstore.New(rdb, "1x", redisstore.Prefix(prefix)))
		testkit.Must(t, source.Put(t.Context(), []byte(apiPolicies)))
		if rdb.Del(t.Context(), want+"1x:rules").Val() != 1 {
			t.Errorf("the prefix %q: there is no key %q", prefix, want+"1x:rules")
		}
		alone := rules.Redis(rdb, "1x", rules.Prefix(prefix))
		testkit.Must(t, alone.Put(t.Context(), []byte(apiPolicies)))
		if rdb.Del(t.Context(), want+"1x:rules").Val() != 1 {
			t.Errorf("without a store, the prefix %q: there is no key %q", prefix, want+"1x:rules")
		}
	}
	for want, call := range map[string]func(){
		"rules: RedisOf: a *memstore.Store has no states in Redis":                                                func() { rules.RedisOf(memstore.New()) },
		"rules: RedisOf: Prefix and KeySecret are those of the store":                                             func() { rules.RedisOf(redisstore.New(rdb, "shop"), rules.Prefix("")) },
		`rules: Redis: the name of the application is "": it has letters, digits, '-', '_' and '.', at least one`: func() { rules.Redis(rdb, "") },
	} {
		testkit.Panics(t, want, call)
	}
}

// With IfVersion, a Put replaces the version that it has seen, and no other.
func TestRedisSource_Put_IfVersion(t *testing.T) {
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	source := rules.Redis(rdb, "test", rules.Prefix(prefix))
	other := strings.Replace(apiPolicies, "10/h", "11/h", 1)
	load := func() string {
		_, err := source.Load(t.Context())
		testkit.Must(t, err)
		return source.Version()
	}
	if source.Version() != "" {
		t.Errorf("got the version %q before a Load", source.Version())
	}
	isVersion(t, source.Put(t.Context(), []byte(other), rules.IfVersion("x")))
	testkit.Must(t, source.Put(t.Context(), []byte(apiPolicies), rules.IfVersion("")))
	first := load()
	isVersion(t, source.Put(t.Context(), []byte(other), rules.IfVersion("")))
	testkit.Must(t, source.Put(t.Context(), []byte(other), rules.IfVersion(first)))
	isVersion(t, source.Put(t.Context(), []byte(apiPolicies), rules.IfVersion(first)))
	if second := load(); second == first {
		t.Errorf("two texts have the version %q", second)
	}
	// A Put of the text that is there changes nothing.
	testkit.Must(t, source.Put(t.Context(), []byte(other), rules.IfVersion("x")))
	// One of many that have seen one version is first.
	seen, won := load(), make(chan bool, 16)
	for i := range cap(won) {
		go func() {
			text := strings.Replace(apiPolicies, "10/h", fmt.Sprint(100+i, "/h"), 1)
			won <- source.Put(t.Context(), []byte(text), rules.IfVersion(seen)) == nil
		}()
	}
	n := 0
	for range cap(won) {
		if <-won {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of 16 replaced one version, want 1", n)
	}
	testkit.Must(t, rdb.Del(t.Context(), prefix+"test:rules").Err())
	if _, err := source.Load(t.Context()); !errors.Is(err, rules.ErrNoConfig) || source.Version() != "" {
		t.Errorf("without a configuration: got %v and the version %q", err, source.Version())
	}
}

func isVersion(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, rules.ErrVersion) {
		t.Errorf("got error %v, want ErrVersion", err)
	}
}

// Without the permission for MULTI, nothing is written outside of a transaction.
func TestRedisSource_Put_WithoutMulti(t *testing.T) {
	server := redistest.NewServer(t)
	testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "writer", "on", ">password", "~weir:*", "+hget", "+hgetall", "+hset", "+watch", "+unwatch").Err())
	o := *server.Client().Options()
	o.Username, o.Password, o.DisableIdentity = "writer", "password", true
	rdb := redis.NewClient(&o)
	t.Cleanup(func() { _ = rdb.Close() })
	err := rules.Redis(rdb, "test").Put(t.Context(), []byte(apiPolicies), rules.IfVersion(""))
	if err == nil || !strings.Contains(err.Error(), "NOPERM") || server.Client().Exists(t.Context(), "weir:test:rules").Val() != 0 {
		t.Errorf("got error %v, and %d keys", err, server.Client().Exists(t.Context(), "weir:test:rules").Val())
	}
}
