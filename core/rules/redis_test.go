package rules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
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

// No decision fails because Redis is down, at the start or later.
func TestSet_Overrides_Outage(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	testkit.Must(t, server.Stop())
	n := newNode(t, server.Client(), rules.Timeout(rules.DefaultTimeout))
	if got := n.limit(t, "early"); got != "10/h" {
		t.Errorf("down at the start: got %s", got)
	}
	if s := n.source.Stats(); s.Missing == 0 || s.Age >= 0 {
		t.Errorf("got %+v", s)
	}
	if _, err := rules.Load(t.Context(), n.source); err == nil || errors.Is(err, rules.ErrNoConfig) || !strings.Contains(err.Error(), "configuration of Redis") {
		t.Errorf("got error %v of Load", err)
	}
	if err := n.Override(t.Context(), "api", "k", rules.Override{Plan: "gold"}); err == nil || !strings.Contains(err.Error(), "override in Redis") {
		t.Errorf("got error %v of Override", err)
	}
	testkit.Must(t, server.Start())
	becomes(t, "up", "100/h", func() string {
		_ = n.Override(t.Context(), "api", "k", rules.Override{Plan: "gold"})
		return n.limit(t, "k")
	})
	testkit.Must(t, server.Stop())
	if got := n.limit(t, "k"); got != "100/h" {
		t.Errorf("down later: got %s", got)
	}
	if got := n.limit(t, "new"); got != "10/h" {
		t.Errorf("down later, a new key: got %s", got)
	}
	if errs := n.errs(); len(errs) < 3 || len(errs) > 9 {
		t.Errorf("got %d errors, want some for each outage: %q", len(errs), errs)
	}
}

// A configuration in Redis is followed, whatever happens to it.
func TestRedisSource_Watch(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	ctx := t.Context()
	if _, err := rules.Load(ctx, n.source); !errors.Is(err, rules.ErrNoConfig) || !strings.Contains(err.Error(), prefix+"test:rules") {
		t.Errorf("got error %v without a configuration", err)
	}
	testkit.Must(t, rdb.HSet(ctx, prefix+"test:rules", "text", "policies: {", "version", "").Err())
	if text, err := rules.Redis(rdb, "test", rules.Prefix(prefix)).Load(ctx); string(text) != "policies: {" || err != nil {
		t.Errorf("got %q, %v with an empty version", text, err)
	}
	put := func(limit string) {
		testkit.Must(t, n.source.Put(ctx, []byte(strings.Replace(apiPolicies, "10/h", limit, 1))))
	}
	put("11/h")
	becomes(t, "first", "11/h", func() string { return n.limit(t, "k") })
	var all rules.Errors
	if err := n.source.Put(ctx, []byte("policies: {api: {}}")); !errors.As(err, &all) {
		t.Errorf("got error %v of an invalid text", err)
	}
	put("12/h")
	becomes(t, "second", "12/h", func() string { return n.limit(t, "k") })
	for name, lose := range map[string]func() error{
		"flow node": func() error {
			return rdb.HSet(ctx, prefix+"test:rules", "text", "policies: {", "version", "x").Err()
		},
		"there is no configuration": func() error { return rdb.Del(ctx, prefix+"test:rules").Err() },
	} {
		before := len(n.errs())
		testkit.Must(t, lose())
		becomes(t, name, "reported", func() string {
			if slices.ContainsFunc(n.errs()[before:], func(s string) bool { return strings.Contains(s, name) }) {
				return "reported"
			}
			return fmt.Sprint(n.errs())
		})
		if got := n.limit(t, "k"); got != "12/h" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	put("13/h")
	becomes(t, "again", "13/h", func() string { return n.limit(t, "k") })
}

// The permissions in the documentation suffice.
func TestRedisSource_Permissions(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	ctx := t.Context()
	doc, err := os.ReadFile("doc.go")
	testkit.Must(t, err)
	users := regexp.MustCompile(`(?m)ACL SETUSER .*$`).FindAllString(string(doc), -1)
	if len(users) != 2 {
		t.Fatalf("got the users %q in the documentation", users)
	}
	for _, user := range users {
		var command []any
		for _, word := range strings.Fields(user) {
			command = append(command, strings.ReplaceAll(word, "weir:shop:", "weir:test:"))
		}
		testkit.Must(t, server.Client().Do(ctx, command...).Err())
	}
	client := func(user string) *redis.Client {
		o := *server.Client().Options()
		o.Username, o.Password, o.DisableIdentity = user, "password", true
		rdb := redis.NewClient(&o)
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	writer, reader := newNode(t, client("operator")), newNode(t, client("reader"))
	testkit.Must(t, writer.source.Put(ctx, []byte(strings.Replace(apiPolicies, "10/h", "11/h", 1)), rules.IfVersion("")))
	testkit.Must(t, writer.Override(ctx, "api", "gold", rules.Override{Plan: "gold"}))
	testkit.Must(t, writer.Block(ctx, "api", "gone", time.Time{}))
	testkit.Must(t, writer.Remove(ctx, "api", "gone"))
	for _, n := range []*node{writer, reader} {
		if all, err := n.source.List(ctx, 9); err != nil || len(all) != 1 || all[0].Override.Plan != "gold" {
			t.Errorf("got the entries %v, %v", all, err)
		}
		if all, err := n.EntriesOf(ctx, "api", "gold"); err != nil || len(all) != 1 {
			t.Errorf("got the entries %v, %v", all, err)
		}
	}
	becomes(t, "policies", "11/h", func() string { return reader.limit(t, "gone") })
	becomes(t, "override", "100/h", func() string { return reader.limit(t, "gold") })
	if err := reader.Block(ctx, "api", "k", time.Time{}); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("got error %v of a reader's write", err)
	}
	if errs := slices.Concat(writer.errs(), reader.errs()); !onlyNoConfig(errs) {
		t.Errorf("got errors %q", errs)
	}
	// Without one of the permissions, a call that returns an error has no effect.
	admin := newNode(t, server.Client())
	for _, permission := range strings.Fields(users[1])[6:] {
		testkit.Must(t, server.Client().Do(ctx, "ACL", "SETUSER", "operator", "-"+permission[1:]).Err())
		key := "without " + permission
		for name, write := range map[string]func() error{
			"Block":    func() error { return writer.Block(ctx, "api", key+" block", time.Time{}) },
			"Override": func() error { return writer.Override(ctx, "api", key+" override", rules.Override{Plan: "gold"}) },
		} {
			err := write()
			got, read := admin.EntriesOf(ctx, "api", key+" "+strings.ToLower(name))
			if testkit.Must(t, read); (err == nil) != (len(got) == 1) {
				t.Errorf("%s without %s: got %v, and the entries are %v", name, permission, err, got)
			}
		}
		testkit.Must(t, server.Client().Do(ctx, "ACL", "SETUSER", "operator", permission).Err())
	}
}

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
		"rules: RedisOf: Prefix, KeySecret and OrHash are those of the store":                                     func() { rules.RedisOf(redisstore.New(rdb, "shop"), rules.Prefix("")) },
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

// New keys are not read, blocked keys are denied by their first event, and neither changes when
// Redis is down.
func TestSet_Overrides_NewKeys(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	other := writer(t, server.Client(), rules.DefaultPrefix)
	for i := range 20 {
		testkit.Must(t, other.Block(t.Context(), "api", fmt.Sprint("blocked", i), time.Time{}))
		testkit.Must(t, other.Override(t.Context(), "api", fmt.Sprint("gold", i), rules.Override{Plan: "gold"}))
	}
	n := newNode(t, server.Client(), rules.FailClosed(), rules.MaxKeys(10))
	n.isConfirmed(t)
	if s := n.source.Stats(); s.Overrides != 20 || s.Blocks != 20 {
		t.Errorf("got %+v, want 20 overrides and 20 blocks", s)
	}
	flood := func(name string) {
		t.Helper()
		before := n.source.Stats()
		for i := range 2000 {
			if got := n.limit(t, fmt.Sprint(name, i)); got != "10/h" {
				t.Fatalf("%s: a new key has the limit %s", name, got)
			}
		}
		if s := n.source.Stats(); s.Reads != before.Reads || s.Keys != before.Keys || s.Missing > 0 {
			t.Errorf("%s: got %+v, before it %+v", name, s, before)
		}
	}
	flood("up")
	if got := n.limit(t, "gold1"); got != "100/h" {
		t.Errorf("a key with a plan has the limit %s", got)
	}
	flood("up, with an entry")
	testkit.Must(t, server.Stop())
	flood("down")
	for i := range 20 {
		if got := n.limit(t, fmt.Sprint("blocked", i)); got != "blocked" {
			t.Errorf("down: a blocked key has the limit %s", got)
		}
	}
	if got := n.limit(t, "gold1"); got != "100/h" {
		t.Errorf("down: a key with a plan that was read before has the limit %s", got)
	}
}

// The indexes are used after MaxAge if Redis is down, and read again if it is not.
func TestSet_Overrides_MaxAge(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	ctx, other := t.Context(), writer(t, server.Client(), rules.DefaultPrefix)
	testkit.Must(t, other.Block(ctx, "api", "blocked", time.Now().Add(time.Hour)))
	testkit.Must(t, other.Override(ctx, "api", "gold", rules.Override{Plan: "gold"}))
	n := newNode(t, server.Client(), rules.FailClosed(), rules.MaxAge(50*time.Millisecond), rules.Timeout(rules.DefaultTimeout))
	n.isConfirmed(t)
	n.stop()
	becomes(t, "without Watch", "reads", func() string {
		if n.limit(t, "new"); n.source.Stats().Reads > 0 {
			return "reads"
		}
		return "does not read"
	})
	testkit.Must(t, other.Block(ctx, "api", "late", time.Time{}))
	becomes(t, "a block that Watch has not read", "blocked", func() string { return n.limit(t, "late") })
	testkit.Must(t, server.Stop())
	begin := time.Now()
	for time.Since(begin) < 2*time.Second {
		for key, want := range map[string]string{"blocked": "blocked", "late": "blocked", "new": "10/h", "newer": "10/h"} {
			if got := n.limit(t, key); got != want {
				t.Fatalf("down for %v: the key %s has the limit %s, want %s", time.Since(begin), key, got, want)
			}
		}
	}
	if _, err := limiter(t, n.Set, "api").Peek(ctx, "gold"); !errors.Is(err, core.ErrFailClosed) {
		t.Errorf("a key with an override that was never read: got error %v, want ErrFailClosed", err)
	}
}

// A hook that panics or ends the goroutine fails a read, and nothing else.
func TestSet_Overrides_Hook(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, c := range map[string]struct {
		fail func()
		want string
	}{
		"panic":  {func() { panic("of a hook") }, "the client panicked: of a hook"},
		"Goexit": {runtime.Goexit, "the client ended the goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix()
			var failing atomic.Bool
			rdb := hooked(t, server, func() error {
				if failing.Load() {
					c.fail()
				}
				return nil
			})
			testkit.Must(t, writer(t, server.Client(), prefix).Override(t.Context(), "api", "k", rules.Override{Plan: "gold"}))
			n := newNode(t, rdb, rules.Prefix(prefix), rules.Timeout(rules.DefaultTimeout))
			n.isConfirmed(t)
			failing.Store(true)
			becomes(t, "an error", c.want, func() string {
				if got := n.limit(t, "k"); got != "10/h" {
					t.Fatalf("got %s, want the limit without an override", got)
				}
				for _, e := range n.errs() {
					if strings.Contains(e, "overrides of keys: "+c.want) {
						return c.want
					}
				}
				return fmt.Sprint(n.errs())
			})
			if err := n.Block(t.Context(), "api", "k", time.Time{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v of a write", err)
			}
			failing.Store(false)
			becomes(t, "later", "100/h", func() string { return n.limit(t, "k") })
		})
	}
}

// Replies with too few elements are errors.
func TestSet_Overrides_ShortReply(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, shorten := range map[string]func(redis.Cmder){
		"texts": func(c redis.Cmder) {
			if texts, ok := c.(*redis.SliceCmd); ok {
				texts.SetVal(nil)
			}
		},
		"scores": func(c redis.Cmder) {
			if scores, ok := c.(*redis.FloatSliceCmd); ok {
				scores.SetVal(nil)
			}
		},
	} {
		rdb := server.Client()
		rdb.AddHook(replyHook{shorten})
		s := writer(t, rdb, newPrefix())
		if _, err := s.OverrideOf(t.Context(), "api", "k"); err == nil || !strings.Contains(err.Error(), "replies with 0") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// A replyHook changes the replies to pipelines.
type replyHook struct{ change func(redis.Cmder) }

func (replyHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (replyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h replyHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			h.change(c)
		}
		return err
	}
}

// Many invalid overrides are reported as a few errors, which count the others.
func TestSet_OnError_ManyInvalidOverrides(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	begin := time.Now()
	for i := range 200 {
		text := "{plan: "
		if i%2 == 0 {
			text = fmt.Sprintf("{limits: {none%d: 5/h}}", i)
		}
		writeText(t, rdb, prefix, fmt.Sprint(i), text)
		n.limit(t, fmt.Sprint(i))
	}
	invalid := 0
	becomes(t, "soon", "reported", func() string { // a process may learn later that the keys have overrides
		n.limit(t, "1")
		invalid = 0
		for _, e := range n.errs() {
			if strings.Contains(e, "an override in Redis") {
				invalid++
			}
		}
		if invalid == 0 {
			return "no error"
		}
		return "reported"
	})
	if most := 10 * (1 + int(time.Since(begin)/time.Second)); invalid > most {
		t.Errorf("got %d errors in %v, want at most %d", invalid, time.Since(begin), most)
	}
	becomes(t, "later", "counted", func() string {
		writeText(t, rdb, prefix, "k", "{plan: ")
		if n.limit(t, "k"); strings.Contains(fmt.Sprint(n.errs()), "errors of overrides before it)") {
			return "counted"
		}
		return fmt.Sprint(n.errs())
	})
}

// Processes that watch Redis apply a change of the policy of all routes.
func TestRedisSource_AllRoutes(t *testing.T) {
	n := newNode(t, redistest.Shared(t).Client(), rules.Prefix(newPrefix()))
	if n.ForAll() != nil {
		t.Fatal("got a limiter of all routes")
	}
	testkit.Must(t, n.source.Put(t.Context(), []byte(apiPolicies+"\nall_routes: other")))
	becomes(t, "the policy of all routes", "true", func() string {
		l := n.ForAll()
		return fmt.Sprint(l != nil && l == limiter(t, n.Set, "other"))
	})
}
