package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
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
				admitted := hammer(t, goroutines, calls, func(int) (core.Decision, error) {
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
					t.Error("no script was ever missing, so nothing was tested")
				}
			})
		}
	}
}

// A server that comes back with an empty memory has neither scripts nor state.
func TestStore_Take_serverRestart(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := newStore(server.Client(), mode.opts...)
			l := testkit.Limiter(t, s, dailyRules()...)
			testkit.Admit(t, l, "k", 700)
			testkit.Must(t, server.Stop())
			testkit.Must(t, server.Start())
			eventually(t, func() error {
				_, err := l.Peek(t.Context(), "k")
				return err
			})
			if got := testkit.Used(t, l, "k"); !slices.Equal(got, []int{0, 0}) {
				t.Errorf("an empty server says that %v are used", got)
			}
			testkit.Admit(t, l, "k", 1000)
		})
	}
}

// MaxCharges charges of one key, of one algorithm or of all, can be decided together.
func TestStore_Take_maxCharges(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	choices := map[string]func(int) int{"all": func(i int) int { return i % len(testkit.Algorithms) }}
	for n, a := range testkit.Algorithms {
		choices[a.Name] = func(int) int { return n }
	}
	for name, algorithm := range choices {
		t.Run(name, func(t *testing.T) {
			s := newStore(rdb)
			var rules []core.Rule
			for i := range redisstore.MaxCharges + 1 {
				rules = append(rules, testkit.Algorithms[algorithm(i)].Rule(fmt.Sprint("rule ", i), core.Per(10+i, century)))
			}
			most := testkit.Limiter(t, s, rules[:redisstore.MaxCharges]...)
			testkit.Admit(t, most, "k", 3)
			for i, n := range testkit.Used(t, most, "k") {
				if n != 3 {
					t.Errorf("rule %d has used %d, want 3", i, n)
				}
			}
			if d := testkit.Ask(t, most, "k", 8); d.Allowed || d.State(0).Allowed || !d.State(redisstore.MaxCharges-1).Allowed {
				t.Errorf("%+v", d)
			}
			if _, err := most.Reset(t.Context(), "k"); err != nil {
				t.Error(err)
			}
			testkit.Admit(t, most, "k", 10)
			if _, err := core.New(s, rules...); !errors.Is(err, core.ErrInvalidRule) {
				t.Errorf("a rule more than the most: %v", err)
			}
			d, err := core.AllowTogether(t.Context(),
				core.Ask{Limiter: most, Key: "k", Cost: 1}, core.Ask{Limiter: testkit.Limiter(t, s, rules[redisstore.MaxCharges:]...), Key: "k", Cost: 1})
			if !errors.Is(err, driver.ErrInvalidCharge) || d.Allowed {
				t.Errorf("a charge more than the most: %+v, %v", d, err)
			}
		})
	}
}

// Four clients, as four processes have them, ask for one key under four rules with 64
// goroutines: the smallest limit is admitted, and every rule has used just that.
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
				admitted := hammer(t, goroutines, calls, func(g int) (core.Decision, error) {
					return limiters[g%len(limiters)].Allow(t.Context(), "k")
				})
				if admitted != 700 {
					t.Errorf("%d of %d were admitted, want 700", admitted, goroutines*calls)
				}
				if got := fmt.Sprint(testkit.Used(t, limiters[0], "k")); got != "[700 700 700 700]" {
					t.Errorf("used are %s", got)
				}
			})
		}
	}
}

// hammer makes calls from goroutines and returns how many events were admitted.
func hammer(t *testing.T, goroutines, calls int, call func(goroutine int) (core.Decision, error)) int64 {
	t.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
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
	}
	wg.Wait()
	return admitted.Load()
}
