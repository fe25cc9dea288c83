package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// check compares the accounts with the states, while no operation runs. Then it resets the states of limited rules,
// so that they admit events again.
func (a *audit) check(ctx context.Context) error {
	a.checks++
	known := make(map[string]bool)
	for key := range a.accounts {
		counts, err := a.counts(ctx, key)
		if err != nil {
			return err
		}
		for i, account := range a.accounts[key] {
			known[account.redisKey] = true
			a.compare(account, counts[i])
		}
		for _, t := range a.targets {
			if err := a.peek(ctx, t, key, counts); err != nil {
				return err
			}
			if !t.limited {
				continue
			}
			if _, err := t.healthy.Reset(ctx, a.names[key]); err != nil {
				return err
			}
			for _, i := range t.rules {
				counts[i] = 0
			}
		}
		for i, account := range a.accounts[key] {
			account.begin(counts[i])
		}
	}
	found, err := a.stateKeys(ctx)
	if err != nil {
		return err
	}
	for _, name := range found {
		if !known[name] {
			a.violations.addf("check %d: Redis has the key %q, which belongs to no account", a.checks, name)
		}
	}
	for i, store := range a.system.stores {
		if n := store.Stats().Corrupt; n > 0 {
			a.violations.addf("check %d: store %d has found %d states that it could not read", a.checks, i, n)
		}
	}
	return nil
}

// counts returns the counts of the states of a key in Redis, in the order of the rules.
func (a *audit) counts(ctx context.Context, key int) (counts []int, err error) {
	for _, account := range a.accounts[key] {
		value, err := a.value(ctx, account.redisKey)
		if err != nil {
			return nil, err
		}
		count, err := account.rule.decode(value)
		if err != nil {
			a.violations.addf("check %d: rule %s, key %s: %v", a.checks, account.rule.Name(), account.key, err)
		}
		counts = append(counts, count)
	}
	return counts, nil
}

// value returns the value of a key in Redis: a string, a map for a hash, or nil if the key does not exist.
func (a *audit) value(ctx context.Context, key string) (value any, err error) {
	kind := a.system.direct.Type(ctx, key)
	ttl := a.system.direct.PTTL(ctx, key)
	if err := errors.Join(kind.Err(), ttl.Err()); err != nil {
		return nil, err
	}
	switch kind.Val() {
	case "none":
		return nil, nil
	case "string":
		value, err = a.system.direct.Get(ctx, key).Result()
	case "hash":
		value, err = a.system.direct.HGetAll(ctx, key).Result()
	default:
		value = kind.Val()
	}
	if errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("the key %q has expired during the check", key)
	}
	if ttl.Val() < time.Minute {
		a.violations.addf("check %d: the key %q has a TTL of %v", a.checks, key, ttl.Val())
	}
	return value, err
}

// compare compares an account with the count of its state.
func (a *audit) compare(account *account, count int) {
	change := count - account.opening
	if account.possible.exact() {
		a.exact++
	}
	where := fmt.Sprintf("check %d: rule %s, key %s", a.checks, account.rule.Name(), account.key)
	if !account.possible.has(change) {
		a.violations.addf("%s: the count in Redis has changed by %d, acknowledged were %d, possible were %v",
			where, change, account.acknowledged, &account.possible)
		account.total.wrong++
	}
	if account.rule.limited() && count > limited {
		a.violations.addf("%s: the count in Redis is %d, and the limit %d", where, count, limited)
		account.total.wrong++
	}
	account.close(count)
}

// peek compares the counts of the states with those that the store reports.
func (a *audit) peek(ctx context.Context, t *target, key int, counts []int) error {
	d, err := t.healthy.Peek(ctx, a.names[key])
	if err != nil {
		return err
	}
	for n, state := range d.States() {
		i := t.rules[n]
		if want := min(counts[i], state.Rule.Capacity()); state.Used() != want {
			a.violations.addf("check %d: rule %s, key %s: the count in Redis is %d, and a Peek reports %d",
				a.checks, state.Rule.Name(), a.names[key], counts[i], state.Used())
			a.accounts[key][i].total.wrong++
		}
	}
	return nil
}
