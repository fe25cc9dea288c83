package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable()
	m.Run()
}

func TestRun(t *testing.T) {
	t.Parallel()
	redistest.Require(t)
	var out strings.Builder
	if err := run(t.Context(), &out, config{operations: 3000, callers: 32, seed: 1}); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, name := range []string{"quota-open", "fixed-open", "sliding-open", "quota-limited", "fixed-limited", "sliding-limited"} {
		if !strings.Contains(out.String(), "\n| "+name+" | ") {
			t.Errorf("got no row of %s:\n%s", name, &out)
		}
	}
}

// An operation that is not in the accounts is a violation, and so is a state that operations cannot leave.
func TestRun_Violations(t *testing.T) {
	redistest.Require(t)
	for _, c := range []struct {
		name   string
		calm   bool
		rule   int // 0 to 2 are open, 3 to 5 are limited
		change func(context.Context, *audit, *account, *target) error
		want   string
	}{
		{"one charge more, quota", false, 0, oneMore, "has changed by"},
		{"one charge more, fixed window", false, 1, oneMore, "has changed by"},
		{"one charge more, sliding window", false, 2, oneMore, "has changed by"},
		{"one charge less, quota", true, 0, oneLess, "has changed by"},
		{"one charge less, fixed window", true, 1, oneLess, "has changed by"},
		{"one charge less, sliding window", true, 2, oneLess, "has changed by"},
		{"above the limit, quota", true, 3, tooMuch, "and the limit 12"},
		{"above the limit, fixed window", true, 4, tooMuch, "and the limit 12"},
		{"above the limit, sliding window", true, 5, tooMuch, "and the limit 12"},
		{"a lost state", true, 0, func(ctx context.Context, a *audit, account *account, _ *target) error {
			return a.system.direct.Del(ctx, account.redisKey).Err()
		}, "has changed by"},
		{"a state without a TTL", true, 0, func(ctx context.Context, a *audit, account *account, _ *target) error {
			return a.system.direct.Persist(ctx, account.redisKey).Err()
		}, "has a TTL of"},
		{"a state in a wrong format", true, 0, func(ctx context.Context, a *audit, account *account, _ *target) error {
			return a.system.direct.Set(ctx, account.redisKey, "x", time.Hour).Err()
		}, "has a wrong format"},
		{"another total of a sliding window", true, 2, func(ctx context.Context, a *audit, account *account, _ *target) error {
			return a.system.direct.HIncrBy(ctx, account.redisKey, "t", 1).Err()
		}, "and the total is"},
		{"another key", true, 0, func(ctx context.Context, a *audit, account *account, _ *target) error {
			return a.system.direct.Set(ctx, account.redisKey+"2", "x", time.Hour).Err()
		}, "belongs to no account"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			done := false
			err := run(t.Context(), io.Discard, config{operations: 3000, callers: 32, seed: 1, calm: c.calm,
				meddle: func(ctx context.Context, a *audit) error {
					account := used(a, c.rule)
					if done || account == nil {
						return nil
					}
					done = true
					return c.change(ctx, a, account, of(a.targets, c.rule))
				}})
			if !done || err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "violation: ") {
				t.Errorf("got %v, want a violation with %q", err, c.want)
			}
		})
	}
}

// used returns an account of a rule with a used state, for which one sum is possible only. It returns nil if there
// is none.
func used(a *audit, rule int) *account {
	for key := range a.accounts {
		if account := a.accounts[key][rule]; account.possible.exact() && account.opening+account.possible.low > 0 {
			return account
		}
	}
	return nil
}

func oneMore(ctx context.Context, _ *audit, account *account, t *target) error {
	d, err := t.healthy.AllowN(ctx, account.key, 1)
	if err == nil && !d.Allowed {
		err = fmt.Errorf("the event was denied: %v", d)
	}
	return err
}

func oneLess(ctx context.Context, _ *audit, account *account, t *target) error {
	return t.healthy.Credit(ctx, account.key, 1)
}

func tooMuch(ctx context.Context, _ *audit, account *account, t *target) error {
	return t.healthy.Debit(ctx, account.key, limited)
}

func TestRun_Cancelled(t *testing.T) {
	t.Parallel()
	redistest.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := run(ctx, io.Discard, config{operations: 1_000_000, callers: 4, seed: 1}); err == nil {
		t.Error("got no error of a run that was cancelled")
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-operations", "0"}, {"-callers", "0"}, {"-seed", "-1"}, {"-x"}} {
		if c, err := parse(args); err == nil {
			t.Errorf("%q: got %+v, want an error", args, c)
		}
	}
}
