package redisstore

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/argument"
)

// An Option configures the Store that [New] returns.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	prefix    string // of all keys; as an option, its beginning before app
	secret    []byte
	hashes    bool // OrHash
	timeout   time.Duration
	unbatched bool
	clock     func() string // see Store
}

// newConfig returns the config of opts for an application, with the prefix of all its keys.
func newConfig(caller string, rdb redis.UniversalClient, app string, opts []Option) config {
	argument.NotNil(caller, "the client", rdb)
	c := config{prefix: DefaultPrefix, timeout: DefaultTimeout}
	argument.Apply(caller, &c, opts)
	c.prefix = keyhash.Prefix(caller, c.prefix, app)
	return c
}

// DefaultPrefix is the beginning of every key when [Prefix] is not given.
const DefaultPrefix = "weir:"

// Prefix sets the beginning of every key, before the name of the application, in place of [DefaultPrefix]: for a Redis
// where each tenant has a prefix. A colon follows p, unless it ends with one or is empty. p and the name have at most 31
// bytes. Prefix panics if p is longer than 32 bytes or
// contains a brace.
func Prefix(p string) Option {
	keyhash.CheckPrefix("redisstore: Prefix", p)
	return option(func(c *config) { c.prefix = p })
}

// DefaultTimeout is the deadline of a decision when [Timeout] is not given.
const DefaultTimeout = 100 * time.Millisecond

// Timeout sets the deadline of a decision, by default [DefaultTimeout]. The timeouts and retries of
// the client do not affect the deadline. The client's ReadTimeout should be longer than d, because a
// read timeout closes the connection. Timeout panics if d is not
// positive.
//
// The decisions that wait in a process must be made in about half of d: with a Redis on the same machine, which makes a
// decision in 7 us when they share round trips, 7000 callers at once with the default. Further ones fail with
// [ErrOverloaded].
func Timeout(d time.Duration) Option {
	if d <= 0 {
		panic("redisstore: Timeout: not positive")
	}
	return option(func(c *config) { c.timeout = d })
}

// KeySecret makes the Store hash identities with HMAC-SHA-256 and secret, instead of SHA-256.
// Addresses and names are few enough to be guessed from a plain hash. A reader of Redis who does
// not know the secret cannot guess them. All instances must use the same secret. If the secret
// changes, all limits begin unused. KeySecret panics if secret is shorter than 16 bytes.
func KeySecret(secret []byte) Option {
	secret = keyhash.CopySecret("redisstore: KeySecret", secret)
	return option(func(c *config) { c.secret = secret })
}

// OrHash makes a key that is # and a hash, as in the keys of Redis and in the lists of overrides, stand for the key with
// this hash. It is for programs of operators, such as the command weir: with keys that clients choose, a client could use
// the states of another one.
func OrHash() Option { return option(func(c *config) { c.hashes = true }) }

// hasher returns the Hasher of identities.
func (c *config) hasher() keyhash.Hasher {
	h := keyhash.New(c.secret)
	if c.hashes {
		h = h.OrHash()
	}
	return h
}

// Unbatched makes the Store send each decision in a script and a round trip of its own, over as many
// connections as the client has. By default, concurrent decisions share them (see Batches in the
// documentation of the package), which takes less CPU time of Redis and of the application.
func Unbatched() Option { return option(func(c *config) { c.unbatched = true }) }
