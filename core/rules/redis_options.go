package rules

import (
	"time"

	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/rules/internal/overrides"
	"github.com/weir-go/weir/internal/argument"
)

// A RedisOption configures a [RedisSource].
type RedisOption interface{ argument.Option[redisConfig] }

type redisOption = argument.OptionFunc[redisConfig]

type redisConfig struct {
	prefix *string // nil if it is not given
	secret []byte
	hashes bool // OrHash
	lookup overrides.Options
}

// DefaultPrefix is the beginning of all keys when [Prefix] is not given. It is that of package
// redisstore, whose keys are different.
const DefaultPrefix = "weir:"

// Prefix sets the beginning of all keys in Redis, before the name of the application, in place of [DefaultPrefix]. It is
// for [Redis]; [RedisOf] has that of the store. Prefix panics if p is longer than 32 bytes or contains a brace.
func Prefix(p string) RedisOption {
	keyhash.CheckPrefix("rules: Prefix", p)
	return redisOption(func(c *redisConfig) { c.prefix = &p })
}

// KeySecret hides keys from readers of Redis, like the option of the same name of package redisstore. It is for
// [Redis]; [RedisOf] has that of the store. All programs and commands that use the overrides need the same secret, as
// the same bytes. With another secret, overrides and blocks are not found. KeySecret panics if secret is shorter than
// 16 bytes.
func KeySecret(secret []byte) RedisOption {
	secret = keyhash.CopySecret("rules: KeySecret", secret)
	return redisOption(func(c *redisConfig) { c.secret = secret })
}

// OrHash makes a key that is # and a hash, as in [Entry.Tag], stand for the key with this hash. It is for [Redis] in
// programs of operators, as redisstore.OrHash is.
func OrHash() RedisOption { return redisOption(func(c *redisConfig) { c.hashes = true }) }

// DefaultMaxKeys is the size of the cache when [MaxKeys] is not given.
const DefaultMaxKeys = 100_000

// MaxKeys sets the number of pairs of a policy and a key whose overrides are cached. The default is
// [DefaultMaxKeys]. A pair takes about 250 bytes, so 100 000 pairs take 25 MB. Keys without an
// override are cached only while they have to be read (see the package comment), as many
// again. MaxKeys panics if n < 1.
func MaxKeys(n int) RedisOption {
	if n < 1 {
		panic("rules: MaxKeys: n is less than 1")
	}
	return redisOption(func(c *redisConfig) { c.lookup.MaxKeys = n })
}

// DefaultMaxAge is the age when [MaxAge] is not given.
const DefaultMaxAge = time.Minute

// MaxAge bounds the age of overrides and blocks if [Set.Watch] does not run, and if a change was lost
// in a failover of Redis. After d, a cached override is read again, and hashes of keys are not used
// unless Watch has confirmed them. The default is [DefaultMaxAge]. It should be some seconds at least.
// MaxAge panics if d is not positive.
func MaxAge(d time.Duration) RedisOption {
	if d <= 0 {
		panic("rules: MaxAge: not positive")
	}
	return redisOption(func(c *redisConfig) { c.lookup.MaxAge = d })
}

// DefaultTimeout is the time when [Timeout] is not given.
const DefaultTimeout = 100 * time.Millisecond

// Timeout sets the time for which a decision waits for the override of its key. The default is
// [DefaultTimeout]. It should be longer than Redis takes to reply, or decisions use the
// configuration alone. Timeout panics if d is not positive.
func Timeout(d time.Duration) RedisOption {
	if d <= 0 {
		panic("rules: Timeout: not positive")
	}
	return redisOption(func(c *redisConfig) { c.lookup.Timeout = d })
}

// FailClosed makes a decision fail with [core.ErrFailClosed], which gates answer with 503, if a key has to be read,
// Redis fails, and the process knows nothing about the key: the key was not read before, and either it has an
// override, or [Set.Watch] has not read the hashes of keys, because it has never reached Redis or there are too many.
// After a start without Redis, all decisions fail. By default, a decision then uses the configuration alone, which
// admits blocked keys after such a start.
func FailClosed() RedisOption {
	return redisOption(func(c *redisConfig) { c.lookup.FailClosed = true })
}
