package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

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
				s := redisstore.New(rdb, append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)...)
				l := testkit.Limiter(t, s, rules...)
				var made, admitted atomic.Int64
				var wg sync.WaitGroup
				for range goroutines {
					wg.Go(func() {
						for range calls {
							if made.Add(1)%25 == 1 {
								if err := admin.ScriptFlush(context.Background()).Err(); err != nil {
									t.Error(err)
								}
							}
							d, err := l.Allow(t.Context(), "k")
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
				if n := admitted.Load(); n != limit {
					t.Errorf("%d of %d were admitted, want %d", n, goroutines*calls, limit)
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
			s := redisstore.New(server.Client(), append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)...)
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
			s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
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
