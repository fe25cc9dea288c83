package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
)

const defaultURL = "redis://127.0.0.1:6379"

// A remote is a configuration and overrides in Redis.
type remote struct {
	stdout, stderr    io.Writer
	url, prefix, file string // flags
	rule, plan        string // flags of the commands about states
	cluster           bool
	rdb               redis.UniversalClient
	secret            []byte // nil for none
	source            *rules.RedisSource
	invalid           error // of a value in Redis
}

// open sets the client, the secret and the source.
func (r *remote) open() (err error) {
	secret := os.Getenv("WEIR_KEY_SECRET")
	switch {
	case len(r.prefix) > 32 || strings.ContainsAny(r.prefix, "{}"):
		return errors.New("the prefix is longer than 32 bytes or contains a brace")
	case secret != "" && len(secret) < 16:
		return errors.New("WEIR_KEY_SECRET is shorter than 16 bytes")
	}
	r.rdb, err = newClient(cmp.Or(r.url, os.Getenv("WEIR_REDIS_URL"), defaultURL), r.cluster)
	if err != nil {
		// The text of err can contain a part of a password that is not escaped.
		return errors.New("the URL of Redis is invalid, expected redis://USER:PASSWORD@HOST:PORT/DB or rediss:// for TLS; " +
			"in a PASSWORD, characters such as / ? # @ % are written as %2F %3F %23 %40 %25")
	}
	opts := []rules.RedisOption{rules.Prefix(r.prefix)}
	if secret != "" {
		r.secret = []byte(secret)
		opts = append(opts, rules.KeySecret(r.secret))
	}
	r.source = rules.Redis(r.rdb, opts...)
	return nil
}

// newClient returns a client for a URL: of a Cluster, of Sentinels if it has the parameter
// master_name, or of a single server.
func newClient(text string, cluster bool) (redis.UniversalClient, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Fragment != "", strings.Contains(u.Path, "@"): // of a password that is not escaped
		return nil, errors.New("the URL has a fragment, or @ in its path")
	case u.Query().Has("master_name"):
		o, err := redis.ParseFailoverURL(text)
		if err != nil {
			return nil, err
		}
		o.DialerRetries, o.ContextTimeoutEnabled = 1, true
		return redis.NewFailoverClient(o), nil
	case cluster || u.Query().Has("addr"):
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, err
		}
		o.DialerRetries, o.ContextTimeoutEnabled = 1, true
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, err
	}
	o.DialerRetries, o.ContextTimeoutEnabled = 1, true
	return redis.NewClient(o), nil
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
