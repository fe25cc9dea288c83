package rules_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
)

// numbered returns a configuration of two policies with n in every limit, and in the override of
// the key "vip". The rules of even and odd numbers have different names and algorithms.
func numbered(n int) *rules.Config {
	l := core.PerDay(100_000 + n)
	rule := []rules.Rule{{Spec: core.Spec{Name: "even", Algorithm: driver.FixedWindow, Limit: l}}, {Spec: core.Spec{Name: "odd", Algorithm: driver.TokenBucket, Limit: l}}}[n%2]
	always := rules.Rule{Spec: core.Spec{Name: "always", Algorithm: []driver.Algorithm{driver.SlidingLog, driver.SlidingWindow}[n%2], Limit: l}}
	p := rules.Policy{Rules: []rules.Rule{rule, always}, Enforce: 100, Keys: map[string]rules.Override{
		"vip": {Limits: map[string]core.Limit{rule.Name: core.PerDay(200_000 + n), "always": core.PerDay(200_000 + n)}},
	}}
	if n%3 == 0 {
		p.Enforce = 50
	}
	return &rules.Config{Policies: map[string]rules.Policy{"a": p, "b": p, fmt.Sprint("c", n%5): p}}
}

// Each decision uses one configuration, for all rules, overrides and policies, and none fails.
func TestSet_Apply_Concurrent(t *testing.T) {
	ctx := t.Context()
	s, err := rules.New(memstore.New(), numbered(0))
	if err != nil {
		t.Fatal(err)
	}
	a, b := limiter(t, s, "a"), limiter(t, s, "b")
	decide := []func() (core.Decision, error){
		func() (core.Decision, error) { return a.Allow(ctx, "k") },
		func() (core.Decision, error) { return a.Allow(ctx, "vip") },
		func() (core.Decision, error) {
			return core.AllowTogether(ctx, core.Ask{Limiter: a, Key: "k"}, core.Ask{Limiter: b, Key: "vip"})
		},
		func() (core.Decision, error) {
			return core.AllowTogether(ctx, core.Ask{Limiter: a, Key: "vip"}, core.Ask{Limiter: a, Key: "vip"})
		},
		func() (core.Decision, error) {
			r, err := core.ReserveTogether(ctx, core.Ask{Limiter: b, Key: "vip"}, core.Ask{Limiter: b, Key: "k"})
			if err == nil {
				err = r.Settle(ctx, 2)
			}
			return r.Decision(), err
		},
		func() (core.Decision, error) {
			if err := a.Debit(ctx, "vip", 1); err != nil {
				return core.Decision{}, err
			}
			_, err := a.Reset(ctx, "vip")
			return core.Decision{}, err
		},
		func() (core.Decision, error) { return core.Decision{}, b.Wait(ctx, "vip") },
		func() (core.Decision, error) { _, err := s.Limiter("a"); return core.Decision{}, err },
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for !done.Load() {
				d, err := decide[i%len(decide)]()
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				for _, state := range d.States() {
					if state.Limit().Events%100_000 != d.State(0).Limit().Events%100_000 {
						t.Errorf("caller %d: got rules of two configurations: %v", i, d)
						return
					}
				}
			}
		})
	}
	for i := range 300 {
		if err := s.Apply(numbered(i)); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
}

// While a limit changes between 100 and 10 an hour, and for one key between 200 and 20, a key is
// never admitted more often than the larger limit.
func TestSet_Apply_Bound(t *testing.T) {
	configs := []*rules.Config{
		parse(t, "api: {rules: [{name: r, algorithm: sliding_log, limit: 100/h}], keys: {vip: {limits: {r: 200/h}}}}"),
		parse(t, "api: {rules: [{name: r, algorithm: sliding_log, limit: 10/h}], keys: {vip: {limits: {r: 20/h}}}}"),
	}
	s, err := rules.New(memstore.New(), configs[1])
	if err != nil {
		t.Fatal(err)
	}
	l := limiter(t, s, "api")
	admitted := map[string]*atomic.Int64{"k": new(atomic.Int64), "vip": new(atomic.Int64)}
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 16 {
		key := []string{"k", "vip"}[i%2]
		wg.Go(func() {
			for !done.Load() {
				d, err := l.Allow(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted[key].Add(1)
				}
			}
		})
	}
	for i := range 301 {
		if err := s.Apply(configs[i%2]); err != nil {
			t.Error(err)
		}
	}
	for admitted["k"].Load() < 100 || admitted["vip"].Load() < 200 {
		if _, err := l.Peek(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	wg.Wait()
	if k, vip := admitted["k"].Load(), admitted["vip"].Load(); k != 100 || vip != 200 {
		t.Errorf("got %d and %d admitted, want 100 and 200", k, vip)
	}
}
