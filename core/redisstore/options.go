package redisstore

import (
	"strings"
	"time"

	"github.com/weir-go/weir/core/internal/argument"
)

// An Option changes what New makes. The options are the functions of this package that
// return one.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

// DefaultTimeout is the deadline of a decision when [Timeout] is not given.
const DefaultTimeout = 100 * time.Millisecond

type config struct {
	prefix    string
	secret    []byte
	timeout   time.Duration
	pipelined bool
	clock     func() string // see executor
}

// DefaultPrefix begins every key when [Prefix] is not given.
const DefaultPrefix = "weir:"

// maxPrefix keeps keys within 128 bytes.
const maxPrefix = 32

// Prefix begins every key with p, [DefaultPrefix] by default, so that several
// applications can share a Redis. It panics if p is longer than 32 bytes or
// holds a brace, which would decide the hash slot.
func Prefix(p string) Option {
	switch {
	case len(p) > maxPrefix:
		panic("redisstore: Prefix: longer than 32 bytes")
	case strings.ContainsAny(p, "{}"):
		panic("redisstore: Prefix: holds a brace")
	}
	return option(func(c *config) { c.prefix = p })
}

// Timeout bounds a decision, [DefaultTimeout] by default. It holds whatever
// the timeouts and retries of the client are, and it does not close connections;
// keep the client's own ReadTimeout above it. It panics if d is not positive.
func Timeout(d time.Duration) Option {
	if d <= 0 {
		panic("redisstore: Timeout: not positive")
	}
	return option(func(c *config) { c.timeout = d })
}

// KeySecret hashes identities with HMAC-SHA-256 under secret instead of
// SHA-256. Addresses and names are few enough to be guessed from a plain hash;
// with a secret, a reader of Redis cannot guess them. All instances need the same secret,
// and another secret starts all limits afresh. It panics if secret is shorter
// than 16 bytes.
func KeySecret(secret []byte) Option {
	if len(secret) < 16 {
		panic("redisstore: KeySecret: shorter than 16 bytes")
	}
	secret = append([]byte(nil), secret...)
	return option(func(c *config) { c.secret = secret })
}

// Pipelined sends decisions that are made at the same time together, over the
// client's automatic pipeline, which go-redis calls experimental. It saves CPU
// on both sides under load and costs little without. Decisions are the same,
// and so is the deadline.
//
// Give the Stores of an application a client that the application does not use for
// anything else. go-redis has one asynchronous automatic pipeline for each client, with
// the options of the first caller. An application that calls AsyncAutoPipeline after
// New gets that of the Store, which keeps no order and rejects commands while 10 000
// wait. A Store whose pipeline the application closes opens another one. If the
// application has opened one with other options by then, every decision is a
// core.ErrUnavailable that says so.
//
// New panics if the client is neither a *redis.Client nor a *redis.ClusterClient, if
// the client is closed, or if the application has opened its asynchronous automatic
// pipeline with other options. Several Stores may share a client.
func Pipelined() Option { return option(func(c *config) { c.pipelined = true }) }
