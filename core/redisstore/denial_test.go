package redisstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A denial writes nothing: there is nothing to replicate, and no TTL becomes longer.
func TestStore_Take_denialWrites(t *testing.T) {
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
				s := newStore(rdb, mode.opts...)
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
	ends    []expiry
	changes string // of the server's data since it started
}

func traceOf(t *testing.T, rdb *redis.Client, s *redisstore.Store, rules []core.Rule) trace {
	t.Helper()
	var out trace
	for i := range rules {
		key := s.Key("k", rules[i])
		dump, err := rdb.Dump(t.Context(), key).Result()
		testkit.Must(t, err)
		out.dumps = append(out.dumps, dump)
		out.ends = append(out.ends, expiryOf(t, rdb, key))
	}
	if err := rdb.Dump(t.Context(), s.Key("new", rules[0])).Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("a key that was only denied exists: %v", err)
	}
	_, rest, found := strings.Cut(rdb.Info(t.Context(), "persistence").Val(), "rdb_changes_since_last_save:")
	if !found {
		t.Error("the server does not count its changes")
	}
	out.changes, _, _ = strings.Cut(rest, "\r")
	return out
}

func (before trace) compare(t *testing.T, after trace) {
	t.Helper()
	if !slices.Equal(before.dumps, after.dumps) {
		t.Errorf("denials have turned %q into %q", before.dumps, after.dumps)
	}
	for i, was := range before.ends {
		if is := after.ends[i]; is.earliest.After(was.latest) || is.latest.Before(was.earliest) {
			t.Errorf("denials have moved the expiry of a key from %v to %v", was, is)
		}
	}
	if before.changes != after.changes {
		t.Errorf("denials have raised the changes of the server from %q to %q", before.changes, after.changes)
	}
}
