package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
)

// A remote is a configuration and overrides in Redis.
type remote struct {
	connection
	stdout, stderr io.Writer
	file           string // flags
	rule, plan     string // flags of the commands about states
	source         *rules.RedisSource
	invalid        error // of a value in Redis
}

// open sets the client, the secret and the source.
func (r *remote) open() error {
	if err := r.connection.open(); err != nil {
		return err
	}
	opts := []rules.RedisOption{rules.Prefix(r.prefix)}
	if r.secret != nil {
		opts = append(opts, rules.KeySecret(r.secret))
	}
	r.source = rules.Redis(r.rdb, opts...)
	return nil
}

// load returns the policies, and a Set of them with the overrides in Redis.
func (r *remote) load(ctx context.Context) (set *rules.Set, c *rules.Config, err error) {
	if c, err = r.config(ctx); err == nil {
		set, err = rules.New(memstore.New(), c, rules.Overrides(r.source), rules.OnError(func(err error) { r.invalid = err }))
	}
	return set, c, err
}

// config returns the policies.
func (r *remote) config(ctx context.Context) (*rules.Config, error) {
	if r.file != "" {
		return load(r.file)
	}
	c, err := rules.Load(ctx, r.source)
	if errors.Is(err, rules.ErrNoConfig) {
		err = fmt.Errorf("%w; if the policies are in a file, the flag -config names it", err)
	}
	return c, err
}

// name returns the name of the source of the policies.
func (r *remote) name() string { return cmp.Or(r.file, r.source.String()) }

// overrideOf returns the override of a key. A value in Redis that is no override is an error, unless
// a block hides it.
func (r *remote) overrideOf(ctx context.Context, set *rules.Set, policy, key string) (rules.Override, error) {
	o, err := set.OverrideOf(ctx, policy, key)
	if err == nil && !o.Blocked {
		err = r.invalid
	}
	return o, err
}
