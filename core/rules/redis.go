package rules

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/call"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/internal/memo"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/internal/sampler"
)

// A RedisSource keeps a configuration in Redis, and overrides of any number of keys beside it. Use
// [Redis] to make one. It is a [Source] for [Load] and [Set.Watch]. The overrides are in force for
// a Set with the option [Overrides]. A RedisSource is safe for concurrent use, and belongs to one
// Set.
type RedisSource struct {
	rdb    redis.UniversalClient
	prefix string
	hasher keyhash.Hasher
	cache  *cache
	parsed memo.Map[string, parsedOverride] // by text
	known  memo.Map[string, *selections]    // by Override.id
	report atomic.Pointer[func(error)]      // of the Set
	errors *sampler.Sampler                 // of overrides

	loaded atomic.Pointer[loadedConfig] // the result of the last Load; nil if there is none

	interval time.Duration // between two polls of changes
	polling  chan struct{} // holds an element while changes are polled
	last     string        // the ID of the latest change in the indexes; empty if they have to be read
	from     int64         // members that have ended before are not in the indexes
}

// Redis returns a RedisSource that uses rdb, a client of a single server, a Sentinel group or a
// Cluster, of Redis or Valkey (tested: Redis 7.0). It must read from masters, because replicas may have
// old overrides. Redis sends no command before the first call of a method, and neither closes nor
// reconfigures rdb. Redis panics if rdb or an option is nil.
func Redis(rdb redis.UniversalClient, opts ...RedisOption) *RedisSource {
	argument.NotNil("rules: Redis", "the client", rdb)
	c := redisConfig{prefix: DefaultPrefix, cache: cacheOptions{parts: 1, size: DefaultMaxKeys, timeout: DefaultTimeout, maxAge: DefaultMaxAge}}
	argument.Apply("rules: Redis", &c, opts)
	if _, ok := rdb.(*redis.ClusterClient); ok {
		c.cache.parts = 16
	}
	s := &RedisSource{rdb: rdb, prefix: c.prefix, hasher: keyhash.New(c.secret), interval: WatchInterval, polling: make(chan struct{}, 1), errors: sampler.New(maxInvalid, time.Second)}
	s.parsed.Max, s.known.Max = maxViews, maxViews
	s.cache = newCache(c.cache, s.hasher)
	s.cache.read, s.cache.report = s.read, s.failed
	return s
}

// String returns the name of the source in errors.
func (s *RedisSource) String() string { return "Redis" }

// configKey returns the key of the configuration: a hash with the fields text and version.
func (s *RedisSource) configKey() string { return s.prefix + "rules" }

// ErrNoConfig is the error of [RedisSource.Load] before the first [RedisSource.Put]. Use
// [errors.Is].
var ErrNoConfig = errors.New("there is no configuration; RedisSource.Put or the command weir rules put writes one")

// errClient names the client in the errors of package call: it panics after a malformed reply, and
// a hook may do anything.
var errClient = errors.New("the client")

// await calls f, and returns its result, or the error of ctx if ctx ends first. By default,
// go-redis ignores the deadline of a context.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	return call.Detached(ctx, errClient, nil, f)
}

// Load implements [Source]. It reads the version, and the text if the version has changed. It
// returns when ctx ends, whatever the options of the client are.
func (s *RedisSource) Load(ctx context.Context) ([]byte, error) {
	return await(ctx, func() ([]byte, error) { return s.load(ctx) })
}

func (s *RedisSource) load(ctx context.Context) ([]byte, error) {
	version, err := s.rdb.HGet(ctx, s.configKey(), "version").Result()
	switch old := s.loaded.Load(); {
	case errors.Is(err, redis.Nil):
		return nil, fmt.Errorf("%w (key %s)", ErrNoConfig, s.configKey())
	case err != nil:
		return nil, err
	case old != nil && old.version == version:
		return old.text, nil
	}
	fields, err := s.rdb.HGetAll(ctx, s.configKey()).Result()
	if err != nil {
		return nil, err
	}
	c := &loadedConfig{fields["version"], []byte(fields["text"])}
	s.loaded.Store(c)
	return c.text, nil
}

// A loadedConfig is a configuration in Redis.
type loadedConfig struct {
	version string
	text    []byte
}

// Put writes a configuration, in the format of [Parse]. Every process that watches the source
// applies it within two seconds. Errors in the text are those of Parse; nothing is then written.
// The rules for an update of a file apply: see [Set.Apply].
func (s *RedisSource) Put(ctx context.Context, text []byte) error {
	if _, err := Parse("configuration", text); err != nil {
		return err
	}
	_, err := await(ctx, func() (int64, error) {
		return s.rdb.HSet(ctx, s.configKey(), "text", text, "version", hashOf(text)).Result()
	})
	if err != nil {
		return fmt.Errorf("weir: configuration of %v: %w", s, err)
	}
	return nil
}

// RedisStats describe the overrides of a [RedisSource].
type RedisStats struct {
	Reads   uint64 // of the overrides of single keys, since the source was made
	Stale   uint64 // lookups that used old knowledge, because the key could not be read again
	Missing uint64 // lookups that found no override because nothing was known about the key
	Keys    int    // in the cache; an estimate

	// Overrides and Blocks are the numbers of keys that have one that has not ended, in all policies, at the
	// time before Age. They are -1 if Set.Watch has not read these keys, or if there are too many for the
	// memory of a process.
	Overrides, Blocks int

	// Age is the time since Set.Watch has read the changes of overrides and blocks. Age grows while
	// Redis is down, and is negative before the first time. If it is less than MaxAge, a key
	// without an override is not read.
	Age time.Duration
}

// Stats returns the present numbers.
func (s *RedisSource) Stats() RedisStats {
	c := s.cache
	x, age := c.indexes.Load(), time.Duration(-1)
	if x.confirmed != unconfirmed {
		age = c.since() - x.confirmed.at
	}
	return RedisStats{
		Reads: c.count.Load(), Stale: c.stale.Load(), Missing: c.missing.Load(), Keys: c.with.EstimatedSize() + c.without.EstimatedSize(),
		Overrides: x.counts.overrides, Blocks: x.counts.blocks, Age: age,
	}
}

// failed passes an error to the Set.
func (s *RedisSource) failed(err error) {
	if f := s.report.Load(); f != nil {
		(*f)(err)
	}
}

// maxInvalid is the number of errors of overrides that are reported in a second. There may be as many
// as keys.
const maxInvalid = 10

// invalid passes an error of one override to report, or counts it if there were many.
func (s *RedisSource) invalid(err error, report func(error)) {
	suppressed, ok := s.errors.Pass()
	switch {
	case ok && suppressed > 0:
		report(fmt.Errorf("%w (and %d errors of overrides before it)", err, suppressed))
	case ok:
		report(err)
	}
}
