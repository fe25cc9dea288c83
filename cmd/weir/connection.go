package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/rules"
)

const defaultURL = "redis://127.0.0.1:6379"

// A connection is a client of Redis with the name of an application, the prefix and the secret of its programs.
type connection struct {
	url, app, prefix string // flags
	cluster          bool
	rdb              redis.UniversalClient
	secret           []byte // nil for none
}

// define defines the flags of a connection.
func (c *connection) define(flags *flag.FlagSet) {
	flags.StringVar(&c.url, "redis", "", "the `URL` of Redis (default $WEIR_REDIS_URL, else "+defaultURL+")")
	flags.BoolVar(&c.cluster, "cluster", false, "the URL is that of a Redis Cluster")
	flags.StringVar(&c.app, "app", os.Getenv("WEIR_APP"), "the `NAME` of the application, as of resilient.New (default $WEIR_APP)")
	flags.StringVar(&c.prefix, "prefix", redisstore.DefaultPrefix, "the `TEXT` before the names of applications in Redis")
}

// open sets the client and the secret.
func (c *connection) open() (err error) {
	if secret := os.Getenv("WEIR_KEY_SECRET"); secret != "" {
		c.secret = []byte(secret)
	}
	if c.prefix != "" && !strings.HasSuffix(c.prefix, ":") {
		c.prefix += ":" // as redisstore.New does
	}
	switch {
	case len(c.keyPrefix()) > 32 || strings.ContainsAny(c.prefix, "{}"):
		return errors.New("the prefix and the name of the application are longer than 31 bytes, or contain a brace")
	case !appName.MatchString(c.app):
		return fmt.Errorf("the name of the application is %q: it has letters, digits, '-', '_' and '.'", c.app)
	case c.secret != nil && len(c.secret) < 16:
		return errors.New("WEIR_KEY_SECRET is shorter than 16 bytes")
	}
	c.rdb, err = newClient(cmp.Or(c.url, os.Getenv("WEIR_REDIS_URL"), defaultURL), c.cluster)
	if err != nil {
		// The text of err can contain a part of a password that is not escaped.
		return errors.New("the URL of Redis is invalid, expected redis://USER:PASSWORD@HOST:PORT/DB or rediss:// for TLS; " +
			"in a PASSWORD, characters such as / ? # @ % are written as %2F %3F %23 %40 %25")
	}
	return nil
}

// appName matches names of applications, and none.
var appName = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// keyPrefix returns the prefix of all keys of the application.
func (c *connection) keyPrefix() string { return c.prefix + c.app + ":" }

// storeOptions returns the options of a store whose keys are those of the programs.
func (c *connection) storeOptions() []redisstore.Option {
	opts := []redisstore.Option{redisstore.Prefix(c.prefix), redisstore.OrHash()}
	if c.secret != nil {
		opts = append(opts, redisstore.KeySecret(c.secret))
	}
	return opts
}

// redisSource returns the source of the configuration and the overrides of the application, with the secret of the programs.
func (c *connection) redisSource(opts ...rules.RedisOption) *rules.RedisSource {
	opts = append(opts, rules.Prefix(c.prefix), rules.Timeout(timeout))
	if c.secret != nil {
		opts = append(opts, rules.KeySecret(c.secret))
	}
	return rules.Redis(c.rdb, c.app, opts...)
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
