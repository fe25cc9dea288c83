package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/rules/internal/overrides"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/internal/sampler"
)

// A RedisSource keeps the configuration of an application in Redis, and overrides of any number of keys beside it. Use
// [RedisOf] to make one, or [Redis] without a store. It is a [Source] for [Load] and [Set.Watch]. The overrides are in
// force for a Set with the option [Overrides]. A RedisSource is safe for concurrent use, and belongs to one Set.
type RedisSource struct {
	overrides *overrides.Redis
	report    atomic.Pointer[func(message string, err error)] // of the Set
	errors    *sampler.Sampler                                // of overrides
	loaded    atomic.Pointer[loadedConfig]                    // the result of the last Load; nil if there is none
	interval  time.Duration                                   // between two polls of changes
	onChange  atomic.Pointer[func()]                          // of the Set, after changes that are in force
}

// RedisOf returns the RedisSource of the application whose limits are in store, a Store of package redisstore or a store
// over one, such as that of package resilient: with its client, name, prefix and secret. RedisOf panics if an option is
// nil, [Prefix] or [KeySecret], or if store has no states in Redis.
func RedisOf(store core.Store, opts ...RedisOption) *RedisSource {
	of := processes.StoreOf[redisStore](store)
	if of == nil {
		panic(fmt.Sprintf("rules: RedisOf: a %T has no states in Redis", store))
	}
	c := newRedisConfig("rules: RedisOf", opts)
	if c.prefix != nil || c.secret != nil || c.hashes {
		panic("rules: RedisOf: Prefix, KeySecret and OrHash are those of the store")
	}
	rdb, prefix, app, h := of.Redis()
	return newRedisSource(overrides.App{Client: rdb, Prefix: prefix, Name: app, Hasher: h}, c.lookup)
}

// A redisStore is the Store of package redisstore.
type redisStore interface {
	Redis() (rdb redis.UniversalClient, prefix, app string, h keyhash.Hasher)
}

// Redis returns the RedisSource of an application, for a program without its store, such as one that only writes: app
// is the name that its programs give to redisstore.New or resilient.New. rdb is a client of a single server, a
// Sentinel group or a Cluster, of Redis 6.2 or newer or of Valkey. It must read from masters, because replicas may
// have old overrides. Redis sends no command before the first call of a method, and neither closes nor reconfigures
// rdb. Redis panics if rdb or an option is nil, or if app is no name of letters, digits, '-', '_' and '.'.
func Redis(rdb redis.UniversalClient, app string, opts ...RedisOption) *RedisSource {
	argument.NotNil("rules: Redis", "the client", rdb)
	c := newRedisConfig("rules: Redis", opts)
	beginning := DefaultPrefix
	if c.prefix != nil {
		beginning = *c.prefix
	}
	prefix, hasher := keyhash.Prefix("rules: Redis", beginning, app), keyhash.New(c.secret)
	if c.hashes {
		hasher = hasher.OrHash()
	}
	return newRedisSource(overrides.App{Client: rdb, Prefix: prefix, Name: app, Hasher: hasher}, c.lookup)
}

func newRedisConfig(caller string, opts []RedisOption) redisConfig {
	c := redisConfig{lookup: overrides.Options{MaxKeys: DefaultMaxKeys, Timeout: DefaultTimeout, MaxAge: DefaultMaxAge}}
	argument.Apply(caller, &c, opts)
	return c
}

func newRedisSource(app overrides.App, o overrides.Options) *RedisSource {
	s := &RedisSource{interval: WatchInterval, errors: sampler.New(maxInvalid, time.Second)}
	s.overrides = overrides.New(app, o, overrides.Callbacks{
		Parse: func(text string) (overrides.Content, time.Time, error) {
			o, err := ParseOverride(s.String(), []byte(text))
			return *o.content(), o.Until, err
		},
		Failed:  s.failed,
		Invalid: func(err error) { s.invalid(err, s.failed) },
		Lost:    func(err error) { s.tell(lost, err) },
		Changed: func() {
			if f := s.onChange.Load(); f != nil {
				(*f)()
			}
		},
	})
	return s
}

// watch keeps the knowledge about overrides up to date until ctx ends.
func (s *RedisSource) watch(ctx context.Context) {
	failing := false
	every(ctx, s.interval, func() {
		err := s.overrides.Follow(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			s.failed(fmt.Errorf("weir: changes of overrides in %v: %w", s, err))
		}
		failing = err != nil
	})
}

// String returns the name of the source in errors.
func (s *RedisSource) String() string { return "Redis" }

// configKey returns the key of the configuration: a hash with the fields text and version.
func (s *RedisSource) configKey() string { return s.overrides.Prefix + "rules" }

// ErrNoConfig is the error of [RedisSource.Load] before the first [RedisSource.Put]. Use
// [errors.Is].
var ErrNoConfig = errors.New("there is no configuration; RedisSource.Put or the command weir rules put writes one")

// Load implements [Source]. It reads the version, and the text if the version has changed. It
// returns when ctx ends, whatever the options of the client are.
func (s *RedisSource) Load(ctx context.Context) ([]byte, error) {
	return overrides.Await(ctx, func() ([]byte, error) {
		version, err := s.overrides.Client.HGet(ctx, s.configKey(), "version").Result()
		switch old := s.loaded.Load(); {
		case errors.Is(err, redis.Nil):
			s.loaded.Store(nil)
			return nil, fmt.Errorf("%w (key %s)", ErrNoConfig, s.configKey())
		case err != nil:
			return nil, err
		case old != nil && old.version == version:
			return old.text, nil
		}
		fields, err := s.overrides.Client.HGetAll(ctx, s.configKey()).Result()
		if err != nil {
			return nil, err
		}
		c := &loadedConfig{fields["version"], []byte(fields["text"])}
		s.loaded.Store(c)
		return c.text, nil
	})
}

// A loadedConfig is a configuration in Redis.
type loadedConfig struct {
	version string
	text    []byte
}

// Version returns the version of the configuration that the last [RedisSource.Load] has read or the last
// [RedisSource.Put] has written, a hash of its text, or an empty text if there was none. [Set.Watch] calls Load, so a
// program that edits the configuration needs a source of its own.
func (s *RedisSource) Version() string {
	if c := s.loaded.Load(); c != nil {
		return c.version
	}
	return ""
}

// Put writes a configuration, in the format of [Parse]. Every process that watches the source
// applies it within two seconds. Errors in the text are those of Parse; nothing is then written.
// The rules for an update of a file apply: see [Set.Apply]. Put panics if an option is nil.
func (s *RedisSource) Put(ctx context.Context, text []byte, opts ...PutOption) error {
	var c putConfig
	argument.Apply("rules: Put", &c, opts)
	if _, err := Parse("configuration", text); err != nil {
		return err
	}
	key, version := s.configKey(), hashOf(text)
	_, err := overrides.Await(ctx, func() (struct{}, error) {
		if c.replaces == nil {
			return struct{}{}, s.overrides.Client.HSet(ctx, key, "text", text, "version", version).Err()
		}
		// A server that rejects MULTI would execute the write of a transaction alone.
		if err := s.overrides.Transact(ctx, func(tx redis.Pipeliner) { tx.HGet(ctx, key, "version") }); err != nil && !errors.Is(err, redis.Nil) {
			return struct{}{}, err
		}
		return struct{}{}, s.overrides.Client.Watch(ctx, func(tx *redis.Tx) error {
			present, err := tx.HGet(ctx, key, "version").Result()
			switch {
			case err != nil && !errors.Is(err, redis.Nil):
				return err
			case present == version: // also that of an attempt whose reply was lost
				return nil
			case present != *c.replaces:
				return fmt.Errorf("%w: %q, not %q", ErrVersion, present, *c.replaces)
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				return p.HSet(ctx, key, "text", text, "version", version).Err()
			})
			return err
		}, key)
	})
	if errors.Is(err, redis.TxFailedErr) {
		err = ErrVersion
	}
	if err != nil {
		return fmt.Errorf("weir: configuration of %v: %w", s, err)
	}
	s.loaded.Store(&loadedConfig{version, slices.Clone(text)})
	return nil
}

// A PutOption configures [RedisSource.Put].
type PutOption interface{ argument.Option[putConfig] }

type putConfig struct {
	replaces *string // a version, or nil for any
}

// IfVersion makes [RedisSource.Put] write only if the configuration in Redis has this version (see
// [RedisSource.Version]), or that of the text, or if version is empty and there is none. Otherwise Put returns an
// [ErrVersion], because another writer was first. The user of Redis also needs the permissions +watch, +unwatch,
// +multi and +exec.
func IfVersion(version string) PutOption {
	return argument.OptionFunc[putConfig](func(c *putConfig) { c.replaces = &version })
}

// ErrVersion is the error of [RedisSource.Put] with [IfVersion] for another version. Use [errors.Is].
var ErrVersion = errors.New("the configuration in Redis has another version")

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
func (s *RedisSource) Stats() RedisStats { return RedisStats(s.overrides.Stats()) }

// failed passes an error to the Set.
func (s *RedisSource) failed(err error) { s.tell(cannotRead, err) }

func (s *RedisSource) tell(message string, err error) {
	if f := s.report.Load(); f != nil {
		(*f)(message, err)
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
