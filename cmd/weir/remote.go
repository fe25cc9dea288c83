package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/rules"
)

const defaultURL = "redis://127.0.0.1:6379"

// A remote is a configuration and overrides in Redis.
type remote struct {
	stdout, stderr    io.Writer
	flags             *flag.FlagSet
	url, prefix, file string // flags
	rule, plan        string // flags of the commands about states
	text              bool   // flags of the commands that write an entry
	about             string
	most              int // flag of list
	cluster           bool
	now               time.Time // when the command began
	rdb               redis.UniversalClient
	secret            []byte // nil for none
	source            *rules.RedisSource
	config            *rules.Config
	set               *rules.Set // of config, with the overrides in Redis; no policy is off
	invalid           error      // of a value in Redis
	mu                sync.Mutex // of a scan
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
	opts := []rules.RedisOption{rules.Prefix(r.prefix), rules.Timeout(timeout), rules.FailClosed()}
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

// load reads the policies, and makes the Set.
func (r *remote) load(ctx context.Context) error {
	if err := r.configure(ctx); err != nil {
		return err
	}
	return r.start(r.config.Policies)
}

// configure reads the policies.
func (r *remote) configure(ctx context.Context) (err error) {
	if r.file != "" {
		r.config, err = load(r.file)
		return err
	}
	r.config, err = rules.Load(ctx, r.source)
	if errors.Is(err, rules.ErrNoConfig) {
		r.hintPrefix(ctx)
		err = fmt.Errorf("%w; if the policies are in a file, the flag -config names it", err)
	}
	return err
}

// start makes the Set of policies.
func (r *remote) start(policies map[string]rules.Policy) (err error) {
	r.set, err = r.newSet(policies, r.secret, rules.Overrides(r.source), rules.OnError(func(err error) { r.invalid = err }))
	return err
}

// newSet returns a Set on Redis that shows the limits of policies that are off, too.
func (r *remote) newSet(policies map[string]rules.Policy, secret []byte, opts ...rules.Option) (*rules.Set, error) {
	on := make(map[string]rules.Policy)
	for name, p := range policies {
		p.Disabled = false
		on[name] = p
	}
	to := []redisstore.Option{redisstore.Prefix(r.prefix), redisstore.Timeout(timeout)}
	if secret != nil {
		to = append(to, redisstore.KeySecret(secret))
	}
	return rules.New(redisstore.New(r.rdb, to...), &rules.Config{Policies: on}, opts...)
}

// limiter returns the limiter of a policy on Redis, for a plan.
func (r *remote) limiter(policy, plan string) (*core.Limiter, error) {
	l, err := r.set.Limiter(policy)
	if err != nil {
		return nil, err
	}
	return l.Plan(plan), nil
}

// name returns the name of the source of the policies.
func (r *remote) name() string { return cmp.Or(r.file, r.source.String()) }

// subject returns the subject for a key of a policy, without its override.
func (r *remote) subject(policy, key string) (*subject, error) {
	return newSubject(r.config, r.name(), policy, key, r.plan)
}

// overrideOf returns the override of a key. A value in Redis that is no override is an error, unless
// a block hides it.
func (r *remote) overrideOf(ctx context.Context, policy, key string) (rules.Override, error) {
	r.invalid = nil
	o, err := r.set.OverrideOf(ctx, policy, key)
	if err == nil && !o.Blocked {
		err = r.invalid
	}
	return o, err
}
