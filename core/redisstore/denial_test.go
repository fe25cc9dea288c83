package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A denial leaves no trace: nothing to replicate, no TTL made longer.
func TestKeysOfDenials(t *testing.T) {
	t.Parallel()
	const denials = 100
	rdb := redistest.NewServer(t).Client()
	for _, mode := range modes {
		sets := [][]core.Rule{
			{core.TokenBucket("spent bucket", core.PerDay(10)), core.SlidingLog("free log", core.PerDay(20))},
			{core.SlidingLog("spent log", core.PerDay(10)), core.SlidingWindow("free window", core.PerDay(20))},
			{core.SlidingWindow("spent window", core.PerDay(10)), core.LeakyBucket("free queue", core.PerDay(20))},
		}
		for _, a := range testkit.Algorithms {
			sets = append(sets, []core.Rule{a.Rule(a.Name, core.Per(10, century))})
		}
		for _, rules := range sets {
			t.Run(mode.name+"/"+rules[0].Name(), func(t *testing.T) {
				opts := append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)
				s := redisstore.New(rdb, opts...)
				l := testkit.Limiter(t, s, rules...)
				testkit.Admit(t, l, "k", 7)
				testkit.Admit(t, l, "k", 3)
				before := traceOf(t, rdb, s, rules)
				for range denials {
					if d := testkit.Ask(t, l, "k", 1); d.Allowed {
						t.Fatalf("%+v", d)
					}
				}
				for _, key := range []string{"k", "new"} {
					if d := testkit.Ask(t, l, key, 11); d.RetryAfter != core.Never {
						t.Errorf("more than the limit: %+v", d)
					}
					testkit.Used(t, l, key)
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
		key := s.Key("k", rules[i])
		dump, err := rdb.Dump(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		out.dumps = append(out.dumps, dump)
		out.ends = append(out.ends, expiry(t, rdb, key))
	}
	if err := rdb.Dump(t.Context(), s.Key("new", rules[0])).Err(); !errors.Is(err, redis.Nil) {
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
