package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	keys = 24
	// between is the number of operations between two checks. With fewer operations, fewer of one account fail, so
	// that fewer sums are possible.
	between = 2000
)

// An audit makes operations on a system, and compares the accounts with the states.
type audit struct {
	config     config
	system     *system
	rules      []rule
	targets    []*target
	names      [keys]string     // of the keys
	accounts   [keys][]*account // of each key and rule
	faults     []int            // that happened, of each kind
	checks     int              // so far
	exact      int              // the checks of an account for which one sum was possible only
	left       atomic.Int64     // the operations until the next check
	violations violations
}

func newAudit(ctx context.Context, c config, s *system) (*audit, error) {
	a := &audit{config: c, system: s, faults: make([]int, len(faults))}
	a.rules = append(rules("open", open), rules("limited", limited)...)
	var err error
	if a.targets, err = newTargets(s, a.rules); err != nil {
		return nil, err
	}
	for key := range a.names {
		a.names[key] = fmt.Sprintf("user-%d", key)
		for i, r := range a.rules {
			account := &account{rule: r, key: a.names[key]}
			account.begin(0)
			if account.redisKey, err = a.find(ctx, i, a.names[key]); err != nil {
				return nil, err
			}
			a.accounts[key] = append(a.accounts[key], account)
		}
	}
	return a, nil
}

// find returns the key of a state in Redis, which has no other keys: the key that a charge makes.
func (a *audit) find(ctx context.Context, rule int, key string) (string, error) {
	if _, err := of(a.targets, rule).healthy.AllowN(ctx, key, 1); err != nil {
		return "", err
	}
	found, err := a.stateKeys(ctx)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("after one charge, Redis has the keys %q", found)
	}
	return found[0], a.system.direct.FlushDB(ctx).Err()
}

// stateKeys returns the keys in Redis. Those that end with a question mark belong to tests of the stores.
func (a *audit) stateKeys(ctx context.Context) (found []string, err error) {
	all, err := a.system.direct.Keys(ctx, "*").Result()
	for _, key := range all {
		if !strings.HasSuffix(key, "?") {
			found = append(found, key)
		}
	}
	return found, err
}

// run makes all operations, and a check after some of them.
func (a *audit) run(ctx context.Context) error {
	for left := a.config.operations; left > 0; left -= between {
		if err := a.operate(ctx, min(left, between)); err != nil {
			return err
		}
		if err := a.system.quiet(ctx); err != nil {
			return err
		}
		if a.config.meddle != nil {
			if err := a.config.meddle(ctx, a); err != nil {
				return err
			}
		}
		if err := a.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// operate makes n operations, with faults. It returns when all callers have returned and the faults have ended.
func (a *audit) operate(ctx context.Context, n int) error {
	random := func(stream int) *rand.Rand {
		return rand.New(rand.NewPCG(a.config.seed, uint64(a.checks)<<32|uint64(stream)))
	}
	a.left.Store(int64(n))
	during, stop := context.WithCancel(ctx)
	defer stop()
	var callers, injector sync.WaitGroup
	var failed error
	if !a.config.calm {
		injector.Go(func() { failed = a.inject(during, random(a.config.callers)) })
	}
	for i := range a.config.callers {
		c := &caller{audit: a, store: i % stores, rand: random(i)}
		callers.Go(func() {
			for a.left.Add(-1) >= 0 {
				c.operate(ctx)
			}
		})
	}
	callers.Wait()
	stop()
	injector.Wait()
	return failed
}

// add adds an operation to the account of each rule of t.
func (a *audit) add(t *target, key int, e entry) {
	for _, i := range t.rules {
		a.accounts[key][i].add(e)
	}
}
