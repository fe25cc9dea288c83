package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// A server forgets its scripts while 64 goroutines use them.
func TestStore_Take_scriptFlush(t *testing.T) {
	t.Parallel()
	const goroutines, calls, limit = 64, 10, 250
	server := redistest.NewServer(t)
	admin := server.Client()
	for _, mode := range modes {
		for _, rules := range [][]core.Rule{
			{core.TokenBucket("bucket", core.PerDay(limit))},
			{core.SlidingLog("log", core.PerDay(limit))},
			{core.TokenBucket("both bucket", core.PerDay(limit)), core.SlidingLog("both log", core.PerDay(2*limit))},
		} {
			t.Run(mode.name+"/"+rules[0].Name(), func(t *testing.T) {
				rdb := server.Client()
				s := newStore(rdb, mode.opts...)
				l := testkit.Limiter(t, s, rules...)
				var made atomic.Int64
				admitted := concurrently(t, goroutines, calls, func(int) (core.Decision, error) {
					if made.Add(1)%25 == 1 {
						if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
							return core.Decision{}, err
						}
					}
					return l.Allow(t.Context(), "k")
				})
				if admitted != limit {
					t.Errorf("%d of %d were admitted, want %d", admitted, goroutines*calls, limit)
				}
				for i, n := range testkit.Used(t, l, "k") {
					if n != limit {
						t.Errorf("rule %d has used %d, want %d", i, n, limit)
					}
				}
				if s.Stats().Retried == 0 {
					t.Error("no command was repeated, want some because of NOSCRIPT")
				}
			})
		}
	}
}

// Four clients, as of four processes, make decisions on one key with four rules from 64 goroutines.
// The smallest limit is admitted, and every rule has used as much.
func TestStore_Take_manyClients(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 64, 20
	rules := []core.Rule{
		core.TokenBucket("bucket", core.Per(900, century)),
		core.SlidingLog("log", core.Per(700, century)),
		core.SlidingWindow("counter", core.Per(800, century)),
		core.FixedWindow("window", core.Per(1000, century)),
	}
	server, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	for name, client := range map[string]func() redis.UniversalClient{
		"single":  func() redis.UniversalClient { return server.Client() },
		"cluster": func() redis.UniversalClient { return cluster.Client() },
	} {
		for _, mode := range modes {
			t.Run(name+"/"+mode.name, func(t *testing.T) {
				namespace := prefix()
				var limiters []*core.Limiter
				for range 4 {
					limiters = append(limiters, testkit.Limiter(t, newStore(client(), append(mode.opts, namespace)...), rules...))
				}
				admitted := concurrently(t, goroutines, calls, func(g int) (core.Decision, error) {
					return limiters[g%len(limiters)].Allow(t.Context(), "k")
				})
				if admitted != 700 {
					t.Errorf("%d of %d were admitted, want 700", admitted, goroutines*calls)
				}
				if got := fmt.Sprint(testkit.Used(t, limiters[0], "k")); got != "[700 700 700 700]" {
					t.Errorf("the rules have used %s, want 700 each", got)
				}
			})
		}
	}
}

// concurrently makes calls from goroutines and returns the number of admitted events.
func concurrently(t *testing.T, goroutines, calls int, call func(goroutine int) (core.Decision, error)) int64 {
	t.Helper()
	var admitted atomic.Int64
	testkit.Concurrently(goroutines, func(g int) {
		for range calls {
			d, err := call(g)
			if err != nil {
				t.Error(err)
			}
			if d.Allowed {
				admitted.Add(1)
			}
		}
	})
	return admitted.Load()
}

// A denial writes no state and changes no TTL.
func TestStore_Take_denialWrites(t *testing.T) {
	testkit.WithoutRace(t)
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
						t.Fatalf("the decision is %+v, want a denial", d)
					}
				}
				for _, key := range []string{"k", "new"} {
					if d := testkit.Ask(t, l, key, 11); d.RetryAfter != core.Never {
						t.Errorf("the decision on a cost above the limit is %+v, want RetryAfter Never", d)
					}
					testkit.Used(t, l, key)
				}
				before.compare(t, traceOf(t, rdb, s, rules))
			})
		}
	}
}

// A trace is the data that a write would change.
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
		t.Errorf("DUMP of a key that was only denied returned %v, want redis.Nil", err)
	}
	_, rest, found := strings.Cut(rdb.Info(t.Context(), "persistence").Val(), "rdb_changes_since_last_save:")
	if !found {
		t.Error("INFO has no rdb_changes_since_last_save")
	}
	out.changes, _, _ = strings.Cut(rest, "\r")
	return out
}

func (before trace) compare(t *testing.T, after trace) {
	t.Helper()
	if !slices.Equal(before.dumps, after.dumps) {
		t.Errorf("the states after denials are %q, want %q", after.dumps, before.dumps)
	}
	for i, was := range before.ends {
		if is := after.ends[i]; is.earliest.After(was.latest) || is.latest.Before(was.earliest) {
			t.Errorf("the expiry of a key after denials is %v, want %v", is, was)
		}
	}
	if before.changes != after.changes {
		t.Errorf("the server has counted %s changes after denials, want %s", after.changes, before.changes)
	}
}

// TestStore_Undo_otherRate undoes charges with receipts whose fractions belong to another rate, and
// compares the verdicts with those of the reference store.
func TestStore_Undo_otherRate(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range testkit.Algorithms[:2] { // buckets
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			rule := a.Rule("r", core.Per(3, 7*time.Second)) // an event is 2333333 1/3 us
			rng := rand.New(rand.NewPCG(1, 1))
			for range 300 {
				p := newPair(t, rdb, rule)
				advance := func() { p.Advance(time.Duration(rng.IntN(2)*rng.IntN(3_000_000)) * time.Microsecond) }
				p.do(driver.Charge{Op: driver.Debit, Cost: 1 + rng.IntN(6)})
				advance()
				c := p.do(driver.Charge{Op: driver.Debit, Cost: 1})
				advance()
				c.Receipt.Used.Frac = []int64{2, 3, 10, 1 << 40}[rng.IntN(4)]
				p.do(driver.Charge{Op: driver.Undo, Cost: 1, Receipt: c.Receipt})
			}
		})
	}
}

// TestStore_unknownAlgorithm calls the methods with a rule of an unknown algorithm.
func TestStore_unknownAlgorithm(t *testing.T) {
	t.Parallel()
	s := redisstore.New(redistest.Shared(t).Client(), "test", prefix())
	rule := new(driver.Compiled)
	want := "weir: algorithm 0 has no script"
	charges := func(op driver.Op) []driver.Charge {
		return []driver.Charge{{Key: "k", Rule: rule, Op: op, Cost: 1}}
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Declare", func() error { return s.Declare(driver.Change{New: []driver.Definition{rule.Definition}}) }},
		{"Take", func() error { return s.Take(t.Context(), charges(driver.Spend)) }},
		{"Adjust", func() error { return s.Adjust(t.Context(), charges(driver.Reset)) }},
		{"Probe", func() error { return s.Probe(t.Context(), charges(driver.Peek)) }},
	} {
		t.Run(c.name, func(t *testing.T) { testkit.Panics(t, want, func() { _ = c.call() }) })
	}
}

// The options of a client, and the errors of its own commands, are as before New.
func TestNew_keepsOptions(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	before := *rdb.Options()
	l := testkit.Limiter(t, newStore(rdb), dailyRules()...)
	for range 3 {
		testkit.Admit(t, l, "k", 1)
	}
	after := *rdb.Options()
	if after.ContextTimeoutEnabled != before.ContextTimeoutEnabled || after.ReadTimeout != before.ReadTimeout || after.WriteTimeout != before.WriteTimeout {
		t.Errorf("the options are %+v, want %+v", after, before)
	}
}

// A countingHook counts scripts and connections.
type countingHook struct{ scripts, dials *atomic.Int64 }

func (h countingHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.dials.Add(1)
		return next(ctx, network, addr)
	}
}

func (h countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			h.scripts.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (h countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The hooks of a client are called for each script, and all scripts use its connections.
func TestNew_hooks(t *testing.T) {
	t.Parallel()
	const calls = 50
	single, cluster := redistest.Shared(t).Client(), redistest.SharedCluster(t).Client()
	for name, rdb := range map[string]redis.UniversalClient{"single": single, "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			hook := countingHook{new(atomic.Int64), new(atomic.Int64)}
			if rdb == single {
				single.AddHook(hook)
			} else {
				cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
			}
			s := newStore(rdb)
			l := testkit.Limiter(t, s, core.TokenBucket("r", core.Per(calls, century)))
			testkit.Admit(t, l, "k", 1)
			loaded := hook.scripts.Load() // with EVAL if the server did not know the script
			for range calls - 1 {
				testkit.Admit(t, l, "k", 1)
			}
			if n := hook.scripts.Load() - loaded; n != calls-1 {
				t.Errorf("the hook saw %d scripts, want %d", n, calls-1)
			}
			if n := hook.dials.Load(); n > 8 {
				t.Errorf("there were %d connections, want at most 8", n)
			}
		})
	}
}
