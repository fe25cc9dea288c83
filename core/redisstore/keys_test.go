package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/redistest"
	"github.com/weir-go/weir/core/redisstore"
)

// hostile are identities that a client could come up with. Every one of them
// says "mallory" as soon as it says anything.
var hostile = []string{
	"", "}", "{", "{}", "}{", "{x}", "{mallory}", "mallory}", "{}mallory", "mallory\x00", "mallory\r\nDEL mallory\r\n", "mallory mallory",
	"mallory:log", "mallory*?[a-z]", "m\u00e4llory mallory", "\xff\xfe\xfdmallory", "%6dallory", "192.0.2.1 mallory",
	strings.Repeat("mallory", 100<<10/7), strings.Repeat("x", 100<<10) + "mallory",
}

// longest are the longest prefix and rule name that there may be.
var (
	longestPrefix = strings.Repeat("p", 32)
	longestName   = strings.Repeat("n", 64)
)

// everyKey are all keys of the server.
func everyKey(t *testing.T, rdb *redis.Client) []string {
	t.Helper()
	var keys []string
	all := rdb.Scan(t.Context(), 0, "*", 1000).Iterator()
	for all.Next(t.Context()) {
		keys = append(keys, all.Val())
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestKeys(t *testing.T) {
	t.Parallel()
	rdb := redistest.Single(t).Client()
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
		l := limiter(t, s, rules...)
		for _, identity := range hostile {
			spend(t, l, identity, 1)
			slot := int64(-1)
			for i := range rules {
				key := s.Key(identity, &rules[i])
				want = append(want, key)
				got, err := slots.ClusterKeySlot(t.Context(), key).Result()
				if err != nil {
					t.Fatal(err)
				}
				if slot >= 0 && got != slot {
					t.Errorf("rules of %.20q have the slots %d and %d", identity, slot, got)
				}
				slot = got
			}
		}
	}
	keys := everyKey(t, rdb)
	if len(keys) < 3*len(hostile) {
		t.Fatalf("only %d keys", len(keys))
	}
	for _, key := range keys {
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
	noneWithout(t, rdb, keys)
}

// noneWithout checks that every key has a TTL.
func noneWithout(t *testing.T, rdb *redis.Client, keys []string) {
	t.Helper()
	for _, key := range keys {
		ttl, err := rdb.PTTL(t.Context(), key).Result()
		switch {
		case err != nil:
			t.Fatal(err)
		case ttl == -1: // of one that has gone meanwhile it is -2
			t.Errorf("%q has no TTL", key)
		}
	}
}

// Prefixes and secrets keep applications apart; the same ones bring them together.
func TestKeysApart(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	own := prefix()
	secret, another := []byte("a secret of sixteen or more"), []byte("a secret of sixteen or less")
	store := func(opts ...redisstore.Option) *redisstore.Store {
		return redisstore.New(rdb, append([]redisstore.Option{own, redisstore.Timeout(patience)}, opts...)...)
	}
	rules := dailyRules()
	plain := store()
	if a, b := plain.Key("k", &rules[0]), store().Key("k", &rules[0]); a != b {
		t.Errorf("one key is %q and %q", a, b)
	}
	seen := make(map[string]string)
	for name, s := range map[string]*redisstore.Store{
		"plain": plain, "prefix": store(prefix()), "secret": store(redisstore.KeySecret(secret)), "other secret": store(redisstore.KeySecret(another)),
	} {
		for i := range rules {
			key := s.Key("k", &rules[i])
			if whose, ok := seen[key]; ok {
				t.Errorf("%s and %s share %q", whose, name, key)
			}
			seen[key] = name
		}
		l := limiter(t, s, rules...)
		if got := used(t, l, "k"); got[0] != 0 {
			t.Errorf("%s sees what others have used: %v", name, got)
		}
		spend(t, l, "k", 10)
	}
	again := append([]byte(nil), secret...)
	s := store(redisstore.KeySecret(again))
	clear(again) // the Store has its own copy
	if got := used(t, limiter(t, s, rules...), "k"); got[0] != 10 {
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
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.HasPrefix(p, strings.TrimRight(name, ": ")+": ") {
					t.Errorf("%s panics with %q", name, p)
				}
			}()
			option()
		}()
	}
}

// State lives at least as long as it means something, by the server's clock.
func TestKeysOutliveTheirMeaning(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range algorithms {
		for _, limit := range []core.Limit{
			core.Per(3, time.Second), core.Per(7, 1100*time.Millisecond), core.Per(1000, time.Second), core.PerMinute(60),
			core.PerHour(500), core.PerDay(10), core.Per(10, 100*365*24*time.Hour),
		} {
			t.Run(a.name+"/"+limit.String(), func(t *testing.T) {
				s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
				rule := a.rule("rule", limit)
				l := limiter(t, s, rule)
				for n := 1; n <= min(limit.Events, 40); n++ {
					identity := fmt.Sprint(n)
					key := s.Key(identity, &rule)
					for _, cost := range []int{n, 1} { // new, and there already
						before := rdb.Time(t.Context()).Val()
						reset := ask(t, l, identity, cost).State(0).ResetAfter
						if expiry := expiry(t, rdb, key); expiry.Before(before.Add(reset)) {
							t.Errorf("cost %d: the key ends %v before its meaning", cost, before.Add(reset).Sub(expiry))
						} else if expiry.After(before.Add(reset).Add(patience)) {
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
	for _, a := range algorithms {
		s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
		rule := a.rule("rule", core.Per(10, 50*time.Millisecond))
		l := limiter(t, s, rule)
		for n := range 10 {
			spend(t, l, fmt.Sprint(n), n+1)
		}
		eventually(t, func() error {
			for n := range 10 {
				if key := s.Key(fmt.Sprint(n), &rule); rdb.Exists(t.Context(), key).Val() != 0 {
					return fmt.Errorf("%s: %q is still there", a.name, key)
				}
			}
			return nil
		})
	}
}

// A denial leaves no trace: nothing to replicate, no TTL made longer.
func TestKeysOfDenials(t *testing.T) {
	t.Parallel()
	const denials = 1000
	rdb := redistest.Single(t).Client()
	for _, mode := range modes {
		for _, rules := range [][]core.Rule{
			{core.TokenBucket("bucket", core.PerDay(10))},
			{core.SlidingLog("log", core.PerDay(10))},
			{core.TokenBucket("spent bucket", core.PerDay(10)), core.SlidingLog("free log", core.PerDay(20))},
			{core.SlidingLog("spent log", core.PerDay(10)), core.TokenBucket("free bucket", core.PerDay(20))},
		} {
			t.Run(mode.name+"/"+rules[0].Name(), func(t *testing.T) {
				opts := append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)
				s := redisstore.New(rdb, opts...)
				l := limiter(t, s, rules...)
				spend(t, l, "k", 7)
				spend(t, l, "k", 3)
				before := traceOf(t, rdb, s, rules)
				for range denials {
					if d := ask(t, l, "k", 1); d.Allowed {
						t.Fatalf("%+v", d)
					}
				}
				for _, key := range []string{"k", "new"} {
					if d := ask(t, l, key, 11); d.RetryAfter != core.Never {
						t.Errorf("more than the limit: %+v", d)
					}
					used(t, l, key)
				}
				before.compare(t, traceOf(t, rdb, s, rules))
			})
		}
	}
}

// A trace is all that a write would change.
type trace struct {
	dumps   []string
	ends    []time.Time
	changes string
}

func traceOf(t *testing.T, rdb *redis.Client, s *redisstore.Store, rules []core.Rule) trace {
	t.Helper()
	var out trace
	for i := range rules {
		key := s.Key("k", &rules[i])
		dump, err := rdb.Dump(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		out.dumps = append(out.dumps, dump)
		out.ends = append(out.ends, expiry(t, rdb, key))
	}
	if err := rdb.Dump(t.Context(), s.Key("new", &rules[0])).Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("a key that was only denied is there: %v", err)
	}
	out.changes = changes(t.Context(), rdb)
	return out
}

func (before trace) compare(t *testing.T, after trace) {
	t.Helper()
	if !slices.Equal(before.dumps, after.dumps) {
		t.Errorf("denials have turned %q into %q", before.dumps, after.dumps)
	}
	for i := range before.ends {
		const grid = 10 * time.Millisecond // a moment is computed from a TTL; the denials took far longer
		if moved := after.ends[i].Sub(before.ends[i]); moved.Abs() > grid {
			t.Errorf("denials have moved the end of a key by %v", moved)
		}
	}
	if before.changes != after.changes || before.changes == "" {
		t.Errorf("denials have raised the changes of the server from %q to %q", before.changes, after.changes)
	}
}

// changes is how often the server's data were changed since it started.
func changes(ctx context.Context, rdb *redis.Client) string {
	for line := range strings.Lines(rdb.Info(ctx, "persistence").Val()) {
		if n, ok := strings.CutPrefix(line, "rdb_changes_since_last_save:"); ok {
			return strings.TrimSpace(n)
		}
	}
	return ""
}
