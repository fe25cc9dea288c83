package rules_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var prefixes atomic.Int64

// newPrefix returns a prefix for the keys of a test on a shared server.
func newPrefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

const apiPolicies = "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 10/h, plans: {free: 50/h, gold: 100/h}}]}, other: {rules: [{name: o, algorithm: token_bucket, limit: 5/h}]}}"

// A node is a process that uses a configuration and overrides in Redis.
type node struct {
	*rules.Set
	source *rules.RedisSource
	errs   func() []string
	stop   func()
}

// newNode returns a Set with apiPolicies, which waits for Redis for a minute unless opts have another
// Timeout. The Set watches Redis until stop or the end of the test.
func newNode(t *testing.T, rdb redis.UniversalClient, opts ...rules.RedisOption) *node {
	t.Helper()
	var mu sync.Mutex
	var errs []string
	n := &node{source: rules.Redis(rdb, "test", append([]rules.RedisOption{rules.Timeout(time.Minute)}, opts...)...), errs: func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(errs)
	}}
	rules.PollEvery(n.source, 20*time.Millisecond)
	config, err := rules.Parse("f", []byte(apiPolicies))
	testkit.Must(t, err)
	n.Set, err = rules.New(memstore.New(), config, rules.Overrides(n.source), rules.OnError(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err.Error())
	}))
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.Watch(ctx, n.source)
	}()
	n.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(n.stop)
	return n
}

// limit returns the limit of a key of the policy api.
func (n *node) limit(t *testing.T, key string) string {
	t.Helper()
	d, err := limiter(t, n.Set, "api").Peek(t.Context(), key)
	testkit.Must(t, err)
	return d.State(0).Limit().String()
}

// becomes waits until get returns want.
func becomes(t *testing.T, what, want string, get func() string) {
	t.Helper()
	begin := time.Now()
	got := get()
	for ; got != want && time.Since(begin) < 10*time.Second; got = get() {
		time.Sleep(5 * time.Millisecond)
	}
	if got != want {
		t.Errorf("%s: got %s after %v, want %s", what, got, time.Since(begin), want)
	}
}

// writeText writes the text of an override of the policy api, with the documented commands.
func writeText(t *testing.T, rdb redis.UniversalClient, prefix, key, text string) {
	t.Helper()
	ctx, tag := t.Context(), keyhash.New(nil).Tag(key)
	change := func() {
		_, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			tx.ZAdd(ctx, prefix+"test:{rules:test}overrides", redis.Z{Score: math.Inf(1), Member: tag + ":api"})
			return tx.XAdd(ctx, &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []string{"member", tag + ":api", "set", "overrides", "end", "+inf"}}).Err()
		})
		testkit.Must(t, err)
	}
	change()
	testkit.Must(t, rdb.Set(ctx, prefix+"test:{"+tag+"}override:api", text, 0).Err())
	change()
}

// A write of one process takes effect there at once and in others when they read the changes.
func TestSet_Override(t *testing.T) {
	t.Parallel()
	for _, server := range []struct {
		name string
		rdb  redis.UniversalClient
	}{{"single", redistest.Shared(t).Client()}, {"cluster", redistest.SharedCluster(t).Client()}} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			prefix := rules.Prefix(newPrefix())
			a, b := newNode(t, server.rdb, prefix), newNode(t, server.rdb, prefix)
			ctx, soon := t.Context(), time.Now().Add(time.Hour)
			for i, step := range []struct {
				do   func() error
				want string
			}{
				{func() error { return nil }, "10/h"},
				{func() error { return a.Override(ctx, "api", "k", rules.Override{Plan: "gold"}) }, "100/h"},
				{func() error {
					return a.Override(ctx, "api", "k", rules.Override{Limits: map[string]core.Limit{"r": core.PerHour(20)}, Until: soon})
				}, "20/h"},
				{func() error { return a.Block(ctx, "api", "k", soon) }, "blocked"},
				{func() error { return a.Override(ctx, "api", "k", rules.Override{Plan: "gold", Until: soon}) }, "blocked"},
				{func() error { return a.Unblock(ctx, "api", "k") }, "100/h"},
				{func() error { return a.Block(ctx, "api", "k", time.Time{}) }, "blocked"},
				{func() error { return a.Remove(ctx, "api", "k") }, "10/h"},
			} {
				testkit.Must(t, step.do())
				if got := a.limit(t, "k"); got != step.want {
					t.Errorf("step %d: got %s at once, want %s", i, got, step.want)
				}
				becomes(t, fmt.Sprint("step ", i, " elsewhere"), step.want, func() string { return b.limit(t, "k") })
				if got := b.limit(t, "other"); got != "10/h" {
					t.Errorf("step %d: another key got %s", i, got)
				}
			}
			if errs := slices.Concat(a.errs(), b.errs()); !onlyNoConfig(errs) {
				t.Errorf("got errors %q", errs)
			}
		})
	}
}

// A block in Redis tells its end in every process, also one that another process has written.
func TestSet_Block_RetryAfter(t *testing.T) {
	t.Parallel()
	rdb, prefix := redistest.Shared(t).Client(), rules.Prefix(newPrefix())
	a, b := newNode(t, rdb, prefix), newNode(t, rdb, prefix)
	for _, c := range []struct {
		name  string
		block func() error
		want  time.Duration // rounded to minutes
	}{
		{"an hour", func() error { return a.Block(t.Context(), "api", "k", time.Now().Add(time.Hour)) }, time.Hour},
		{"two hours", func() error { return a.Block(t.Context(), "api", "k", time.Now().Add(2*time.Hour)) }, 2 * time.Hour},
		{"no end", func() error { return a.Block(t.Context(), "api", "k", time.Time{}) }, core.Never},
		{"a blocked limit", func() error {
			testkit.Must(t, a.Unblock(t.Context(), "api", "k"))
			return a.Override(t.Context(), "api", "k", rules.Override{Limits: map[string]core.Limit{"r": core.Blocked}, Until: time.Now().Add(3 * time.Hour)})
		}, 3 * time.Hour},
	} {
		testkit.Must(t, c.block())
		for name, n := range map[string]*node{"here": a, "elsewhere": b} {
			becomes(t, c.name+", "+name, fmt.Sprint(c.want, " true"), func() string {
				d := testkit.Peek(t, limiter(t, n.Set, "api"), "k")
				if d.RetryAfter == core.Never {
					return fmt.Sprint(d.RetryAfter, " ", d.Blocked())
				}
				return fmt.Sprint(d.RetryAfter.Round(time.Minute), " ", d.Blocked())
			})
		}
	}
}

// onlyNoConfig reports whether all errors are about the configuration that is not in Redis.
func onlyNoConfig(errs []string) bool {
	return !slices.ContainsFunc(errs, func(s string) bool { return !strings.Contains(s, "there is no configuration") })
}

func TestSet_Override_Errors(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	ctx, past := t.Context(), time.Now().Add(-time.Second)
	gold := rules.Override{Plan: "gold"}
	limited := func(rule string, l core.Limit) rules.Override {
		return rules.Override{Limits: map[string]core.Limit{rule: l}}
	}
	without, err := rules.New(memstore.New(), parse(t, "api: {rules: ["+second+"]}"))
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no source":          {without.Override(ctx, "api", "k", gold), "the Set has no source of overrides"},
		"no policy":          {n.Override(ctx, "apis", "k", gold), `no policy "apis"`},
		"no key":             {n.Override(ctx, "api", "", gold), "empty key"},
		"empty":              {n.Override(ctx, "api", "k", rules.Override{}), "the override is empty"},
		"past":               {n.Override(ctx, "api", "k", rules.Override{Plan: "gold", Until: past}), "past"},
		"unknown plan":       {n.Override(ctx, "api", "k", rules.Override{Plan: "silver"}), `no rule of the policy has the plan "silver"`},
		"unknown rule":       {n.Override(ctx, "api", "k", limited("q", core.PerHour(1))), `no rule "q"`},
		"invalid limit":      {n.Override(ctx, "api", "k", limited("r", core.PerHour(1).WithBurst(5))), "burst"},
		"block in the past":  {n.Block(ctx, "api", "k", past), "past"},
		"block of no policy": {n.Block(ctx, "apis", "k", time.Time{}), `no policy "apis"`},
		"remove without key": {n.Remove(ctx, "api", ""), "empty key"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, c.err, c.want)
		}
	}
	if keys := rdb.Keys(ctx, prefix+"*").Val(); len(keys) > 0 {
		t.Errorf("got the keys %q", keys)
	}
}

// Redis contains hashes of keys, and expires overrides after their end.
func TestSet_Override_Keys(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, secret := range []string{"", "a secret of sixteen or more"} {
		prefix := newPrefix() + fmt.Sprint(len(secret), ":")
		opts := []rules.RedisOption{rules.Prefix(prefix)}
		tag := "q8Oke4rRi4VcaH2cosYJHg"
		if secret != "" {
			opts, tag = append(opts, rules.KeySecret([]byte(secret))), "ReleIqma5P2gug232rnC7Q"
		}
		n := newNode(t, rdb, opts...)
		ctx := t.Context()
		testkit.Must(t, n.Override(ctx, "api", "user:1", rules.Override{Plan: "gold", Until: time.Now().Add(time.Hour)}))
		testkit.Must(t, n.Block(ctx, "other", "user:1", time.Time{}))
		testkit.Must(t, n.source.Put(ctx, []byte(apiPolicies)))
		keys := rdb.Keys(ctx, prefix+"*").Val()
		slices.Sort(keys)
		want := []string{
			prefix + "test:rules", prefix + "test:{rules:test}blocks", prefix + "test:{rules:test}changes", prefix + "test:{rules:test}overrides", prefix + "test:{rules:test}secret", prefix + "test:{" + tag + "}override:api",
			prefix + "test:{rules:test}override:" + tag + ":api", prefix + "test:{rules:test}block:" + tag + ":other",
		}
		slices.Sort(want)
		if !slices.Equal(keys, want) {
			t.Errorf("got the keys %q, want %q", keys, want)
		}
		for _, key := range []string{prefix + "test:{" + tag + "}override:api", prefix + "test:{rules:test}override:" + tag + ":api"} {
			if ttl := rdb.TTL(ctx, key).Val(); ttl < time.Hour || ttl > 4*time.Hour {
				t.Errorf("%s: got the TTL %v of an override of an hour", key, ttl)
			}
		}
		for _, m := range rdb.XRange(ctx, prefix+"test:{rules:test}changes", "-", "+").Val() {
			if s := fmt.Sprint(m.Values); strings.Contains(s, "user:1") {
				t.Errorf("got the change %s", s)
			}
		}
	}
}

// OverrideOf returns the override that a decision uses, and that of the configuration.
func TestSet_OverrideOf(t *testing.T) {
	t.Parallel()
	source := rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix(newPrefix()))
	n, err := rules.New(memstore.New(), parse(t, "api: {rules: [{name: r, algorithm: fixed_window, limit: 10/h, plans: {gold: 100/h}}], keys: {k: {plan: gold}}}"), rules.Overrides(source))
	testkit.Must(t, err)
	ctx, until := t.Context(), time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	is := func(want string) {
		t.Helper()
		o, err := n.OverrideOf(ctx, "api", "k")
		testkit.Must(t, err)
		if got, err := o.Format(); err == nil && string(got) != want || err != nil && want != "" {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	is("{plan: gold}")
	testkit.Must(t, n.Override(ctx, "api", "k", rules.Override{Limits: map[string]core.Limit{"r": core.PerHour(20)}, Until: until}))
	is("{limits: {r: 20/h}, until: '" + until.Format(time.RFC3339Nano) + "'}")
	testkit.Must(t, n.Override(ctx, "api", "k", rules.Override{Limits: map[string]core.Limit{"r": core.PerHour(20)}})) // shares its rules with the one before
	is("{limits: {r: 20/h}}")
	testkit.Must(t, n.Block(ctx, "api", "k", time.Time{}))
	is("{blocked: true}")
	testkit.Must(t, n.Remove(ctx, "api", "k"))
	is("{plan: gold}")
	if _, err := n.OverrideOf(ctx, "apis", "k"); err == nil {
		t.Error("got no error for an unknown policy")
	}
	for _, key := range []string{"a", "b"} {
		testkit.Must(t, n.Override(ctx, "api", key, rules.Override{Limits: map[string]core.Limit{"r": core.PerHour(20)}}))
	}
	changed, err := n.OverrideOf(ctx, "api", "a")
	testkit.Must(t, err)
	changed.Limits["r"] = core.PerHour(30) // as a program does that writes it again
	want(t, "another key with an equal override", limiter(t, n, "api"), "b", `fixed_window "api.r" 20/h`)
}

// Changes that a process has missed invalidate its whole cache.
func TestRedisSource_Gap(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for name, lose := range map[string]func(p redis.Pipeliner, prefix string){
		"trimmed": func(p redis.Pipeliner, prefix string) {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []string{"member", "glTDKakoUPbVOd03b0gW7g:api"}})
			p.XTrimMaxLen(t.Context(), prefix+"test:{rules:test}changes", 1)
		},
		"removed": func(p redis.Pipeliner, prefix string) { p.Del(t.Context(), prefix+"test:{rules:test}changes") },
		"foreign": func(p redis.Pipeliner, prefix string) {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []string{"a", "b"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, prefix := t.Context(), newPrefix()
			a, b := newNode(t, rdb, rules.Prefix(prefix)), newNode(t, rdb, rules.Prefix(prefix))
			for _, plan := range []string{"gold", "free", "gold"} { // b has then read a change
				testkit.Must(t, a.Override(ctx, "api", "0", rules.Override{Plan: plan}))
				becomes(t, "before", map[string]string{"gold": "100/h", "free": "50/h"}[plan], func() string { return b.limit(t, "0") })
			}
			pipe := rdb.TxPipeline() // removes the override, and blocks another key, without a notice
			pipe.Del(ctx, prefix+"test:{X-zrZv_IbzjZUnhsbWlseQ}override:api")
			pipe.ZAdd(ctx, prefix+"test:{rules:test}blocks", redis.Z{Score: math.Inf(1), Member: "glTDKakoUPbVOd03b0gW7g:api"})
			lose(pipe, prefix)
			_, err := pipe.Exec(ctx)
			testkit.Must(t, err)
			becomes(t, "after", "10/h", func() string { return b.limit(t, "0") })
			becomes(t, "a block", "blocked", func() string { return b.limit(t, "k") })
		})
	}
}

// The first changes of all can be lost, too.
func TestRedisSource_GapAtTheBeginning(t *testing.T) {
	t.Parallel()
	rdb, ctx, prefix := redistest.Shared(t).Client(), t.Context(), newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	becomes(t, "polled", "true", func() string { return fmt.Sprint(n.source.Stats().Age >= 0) })
	becomes(t, "before", "10/h", func() string { return n.limit(t, "k") })
	pipe := rdb.TxPipeline()
	pipe.ZAdd(ctx, prefix+"test:{rules:test}overrides", redis.Z{Score: math.Inf(1), Member: "glTDKakoUPbVOd03b0gW7g:api"})
	pipe.Set(ctx, prefix+"test:{glTDKakoUPbVOd03b0gW7g}override:api", "{plan: gold}", 0)
	for _, tag := range []string{"glTDKakoUPbVOd03b0gW7g", "X-zrZv_IbzjZUnhsbWlseQ"} {
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []string{"member", tag + ":api"}})
	}
	pipe.XTrimMaxLen(ctx, prefix+"test:{rules:test}changes", 1)
	_, err := pipe.Exec(ctx)
	testkit.Must(t, err)
	becomes(t, "after", "100/h", func() string { return n.limit(t, "k") })
}

// A value that is no override, or not for this policy, has no effect and is reported.
func TestSet_Override_InvalidValues(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	for _, c := range []struct{ value, want, reported string }{
		{"{plan: gold}", "100/h", ""},
		{"{plan: ", "100/h", "flow node"}, // the last good one
		{"{plan: silver}", "10/h", `no rule of the policy has the plan "silver"`},
		{"{limits: {q: 5/h}}", "10/h", `no rule "q"`},
		{"{limits: {q: 5/h, r: 6/h}}", "6/h", ""},
		{"{limits: {r: 5/h burst 9}}", "10/h", "burst"},
		{strings.Repeat("#", 100_000), "10/h", "64 KiB"},
		{"", "10/h", "override"},
		{`{"blocked": true, "until": "2001-01-01T00:00:00Z"}`, "10/h", ""},
		{`{"blocked": true}`, "blocked", ""},
	} {
		before := len(n.errs())
		writeText(t, rdb, prefix, "k", c.value)
		becomes(t, fmt.Sprintf("%.40q", c.value), c.want, func() string { return n.limit(t, "k") })
		if c.reported != "" {
			becomes(t, fmt.Sprintf("%.40q", c.value), "reported", func() string {
				n.limit(t, "k")
				if slices.ContainsFunc(n.errs()[before:], func(s string) bool { return strings.Contains(s, c.reported) }) {
					return "reported"
				}
				return fmt.Sprint(n.errs())
			})
		}
	}
}

// Long values do not stay in memory.
func TestSet_Override_LongValues(t *testing.T) {
	testkit.WithoutRace(t)
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix), rules.Timeout(10*time.Second))
	before := testkit.Heap()
	for i := range 60 {
		for length, want := range map[int]string{60_000: "100/h", 100_000: "10/h"} {
			key := fmt.Sprint(length, "-", i)
			value := "{plan: gold} #" + strings.Repeat("x", length) + key
			writeText(t, rdb, prefix, key, value)
			becomes(t, key, want, func() string { return n.limit(t, key) })
		}
	}
	if grown := testkit.Heap() - before; grown > 4<<20 {
		t.Errorf("got %d MiB more memory after 9 MiB of values", grown>>20)
	}
}

// Several calls of Watch share a source.
func TestSet_Watch_Twice(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := rules.Prefix(newPrefix())
	a, b := newNode(t, rdb, prefix), newNode(t, rdb, prefix)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wg.Go(func() { _ = b.Watch(ctx, b.source) })
	for i := range 20 {
		plan := []string{"gold", "free"}[i%2]
		testkit.Must(t, a.Override(ctx, "api", "k", rules.Override{Plan: plan}))
		becomes(t, "elsewhere", map[string]string{"gold": "100/h", "free": "50/h"}[plan], func() string { return b.limit(t, "k") })
	}
}

// A plan that the policy does not have hides neither the plan of the event nor other limits.
func TestSet_Override_RemovedPlan(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	writeText(t, rdb, prefix, "k", "{plan: silver}")
	d, err := limiter(t, n.Set, "api").Plan("gold").Peek(t.Context(), "k")
	testkit.Must(t, err)
	if got := d.State(0).Limit(); got != core.PerHour(100) {
		t.Errorf("got %v, want the limit of the plan gold", got)
	}
}

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

// A write is in force at once, also when reads are paused after an outage.
func TestSet_Override_AfterOutage(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	n := newNode(t, server.Client(), rules.Timeout(rules.DefaultTimeout))
	testkit.Must(t, server.Stop())
	begin := time.Now()
	for i := 0; n.source.Stats().Reads == uint64(i); i++ { // until a lookup reads nothing
		if n.limit(t, fmt.Sprint(i)); time.Since(begin) > 10*time.Second {
			t.Fatal("reads are not paused")
		}
	}
	testkit.Must(t, server.Start())
	for n.Override(t.Context(), "api", "k", rules.Override{Plan: "gold"}) != nil {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the server does not start")
		}
	}
	if got := n.limit(t, "k"); got != "100/h" {
		t.Errorf("got %s at once, want 100/h", got)
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

// Several calls of Watch read the changes, one of them while the reply to an earlier call is late.
func TestSet_Watch_Several(t *testing.T) {
	t.Parallel()
	o := *redistest.Shared(t).Client().Options()
	rdb := redis.NewClient(&o)
	rdb.AddHook(latePolls{})
	t.Cleanup(func() { _ = rdb.Close() })
	n := newNode(t, rdb, rules.Prefix(newPrefix()))
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = n.Watch(ctx, n.source)
		cancel()
	}
	becomes(t, "polled", "true", func() string { return fmt.Sprint(n.source.Stats().Age >= 0) })
}

// latePolls delays the replies to reads of changes, and ignores contexts.
type latePolls struct{}

func (latePolls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (latePolls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (latePolls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "xr") {
			<-time.After(100 * time.Millisecond)
		}
		return next(context.WithoutCancel(ctx), cmd)
	}
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
