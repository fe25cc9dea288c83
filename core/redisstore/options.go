package redisstore

import (
	"strings"
	"time"

	"github.com/weir-go/weir/core/internal/argument"
)

// An Option configures a Store. The functions of this package that return one are the options.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	prefix    string
	secret    []byte
	timeout   time.Duration
	pipelined bool
	clock     func() string // see executor
}

// DefaultPrefix begins every key when [Prefix] is not given.
const DefaultPrefix = "weir:"

// Prefix begins every key with p instead of [DefaultPrefix], so that applications can share a
// Redis. It panics if p is longer than 32 bytes or contains a brace, which would decide the hash
// slot.
func Prefix(p string) Option {
	switch {
	case len(p) > 32: // keys have at most 128 bytes
		panic("redisstore: Prefix: longer than 32 bytes")
	case strings.ContainsAny(p, "{}"):
		panic("redisstore: Prefix: contains a brace")
	}
	return option(func(c *config) { c.prefix = p })
}

// DefaultTimeout is the deadline of a decision when [Timeout] is not given.
const DefaultTimeout = 100 * time.Millisecond

// Timeout sets the deadline of a decision to d, [DefaultTimeout] by default. The deadline holds
// whatever the timeouts and retries of the client are. A decision that misses it does not close the
// connection; keep the client's own ReadTimeout above d. Timeout panics if d is not positive.
func Timeout(d time.Duration) Option {
	if d <= 0 {
		panic("redisstore: Timeout: not positive")
	}
	return option(func(c *config) { c.timeout = d })
}

// KeySecret hashes identities with HMAC-SHA-256 and secret, instead of SHA-256. Addresses and names
// are few enough to be guessed from a plain hash; without the secret, a reader of Redis cannot
// guess them. All instances need the same secret. With another secret, all limits begin unused.
// KeySecret panics if secret is shorter than 16 bytes.
func KeySecret(secret []byte) Option {
	if len(secret) < 16 {
		panic("redisstore: KeySecret: shorter than 16 bytes")
	}
	secret = append([]byte(nil), secret...)
	return option(func(c *config) { c.secret = secret })
}

// Pipelined sends the commands of concurrent decisions in batches, over the client's automatic
// pipeline, which go-redis calls experimental. It saves CPU time of the application and of Redis
// under load, and costs little at low load. Decisions and their deadline stay the same.
//
// Give the Stores of an application a client that the application does not use for anything else;
// several Stores may share it. go-redis has one asynchronous automatic pipeline for each client,
// with the options of the first caller. An application that calls AsyncAutoPipeline after New gets
// the pipeline of the Store, which keeps no order and rejects commands while 10 000 wait. If the
// application closes that pipeline, the Store opens another one. If the application has opened one
// with other options by then, every decision fails with a core.ErrUnavailable that says so.
//
// New panics if the client is neither a *redis.Client nor a *redis.ClusterClient, if the client is
// closed, or if the application has opened its asynchronous automatic pipeline with other options.
func Pipelined() Option { return option(func(c *config) { c.pipelined = true }) }
