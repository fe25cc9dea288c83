package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/rules/internal/overrides"
)

// A Process is a process of an application, as it has described itself in Redis within the last 30 seconds. A process does
// that if its store is that of package resilient, or if its [Set] watches overrides.
type Process struct {
	ID      string // a random number of the store
	Host    string
	PID     int
	Version string    // of the main module of the program, or the revision of its repository; empty if the build has none
	Started time.Time // by the clock of the process
	Seen    time.Time // by the clock of Redis

	Rules    []string // the names of the rules of its limiters on the store, in order; nil if they are not known
	AllRules bool     // there are too many rules to be listed

	Source string // that of the configuration of its Set, such as the name of a file; empty without a Set that watches overrides
	Config string // the version of that: see Set.Version

	// Follows says that a Set watches the overrides in Redis, and Changes is the latest of them that is in force in the
	// process: see LastChange. OtherSecret says that its KeySecret is another one than that of the RedisSource, so it does
	// not find the entries that this one writes.
	Follows     bool
	Changes     string
	OtherSecret bool
}

// InForce reports whether the overrides and blocks until change are in force in p: see [RedisSource.LastChange].
func (p *Process) InForce(change string) bool {
	return p.Follows && !p.OtherSecret && p.Changes != "" && overrides.CompareIDs(p.Changes, change) >= 0
}

// Processes returns the processes of the application, the latest first. The error is one of Redis, or says that a part of
// the record in Redis is not well formed; the result then has the rest.
func (s *RedisSource) Processes(ctx context.Context) ([]Process, error) {
	return processesOf(ctx, &s.overrides.App)
}

// ProcessesOf is [RedisSource.Processes] for the application whose limits are in store, as in [RedisOf]. It returns none if
// store has no states in Redis.
func ProcessesOf(ctx context.Context, store core.Store) ([]Process, error) {
	of := inRedis(store)
	if of == nil {
		return nil, nil
	}
	rdb, prefix, app, h := of.Redis()
	return processesOf(ctx, &overrides.App{Client: rdb, Prefix: prefix, Name: app, Hasher: h})
}

func processesOf(ctx context.Context, app *overrides.App) ([]Process, error) {
	type result struct {
		all   []processes.Process
		rules map[string][]string
		err   error
	}
	r, err := overrides.Await(ctx, func() (r result, _ error) {
		r.all, r.rules, r.err = recordOf(app).Processes(ctx)
		return r, nil
	})
	if err = errors.Join(err, r.err); err != nil {
		err = fmt.Errorf("weir: processes in Redis: %w", err)
	}
	all := make([]Process, len(r.all))
	for i, p := range r.all {
		all[i] = Process{
			ID: p.ID, Host: p.Host, PID: p.PID, Version: p.Version, Started: time.UnixMilli(p.Started), Seen: p.Seen,
			Rules: slices.Clone(r.rules[p.Group]), AllRules: p.Group == processes.All,
			Source: p.Source, Config: p.Config, Follows: p.Follows, Changes: p.Changes, OtherSecret: p.Follows && p.Secret != app.SecretCheck(),
		}
	}
	return all, err
}

// Tag returns the hash of a key, as in [Entry.Tag] and in the keys of Redis.
func (s *RedisSource) Tag(key string) string { return s.overrides.Hasher.Tag(key) }

// LastChange returns the ID of the latest change of overrides and blocks in Redis. See [Process.InForce].
func (s *RedisSource) LastChange(ctx context.Context) (string, error) {
	id, err := s.overrides.LastChange(ctx)
	if err != nil {
		err = fmt.Errorf("weir: changes of overrides in Redis: %w", err)
	}
	return id, err
}

// record returns the record of the processes of the application.
func (s *RedisSource) record() processes.Record { return recordOf(&s.overrides.App) }

func recordOf(app *overrides.App) processes.Record {
	return processes.NewRecord(func(ctx context.Context, args ...any) (any, error) {
		reply, err := app.Client.Do(ctx, args...).Result()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return reply, err
	}, app.Prefix, app.Name)
}

// A heart makes heartbeats of a process: that of its store, or one of a Set.
type heart interface {
	Tell(about func(*processes.About))
	Changed()
}

// heartOf returns the heart of s or of a store behind it, the primary first, or nil.
func heartOf(s driver.Store) heart {
	if h, ok := s.(heart); ok {
		return h
	}
	behind := driver.Describe(s).Behind
	for _, role := range slices.Backward(slices.Sorted(maps.Keys(behind))) {
		if h := heartOf(behind[role]); h != nil {
			return h
		}
	}
	return nil
}

// tell makes the heartbeats of the process describe s, until the result is called. The heartbeats are those of
// the store, if the overrides are those of its application, and otherwise ones of s, which count for no rule.
func (s *Set) tell() (end func()) {
	h, stop := heartOf(s.store), func() {}
	of := inRedis(s.store)
	if h == nil || of == nil || !s.source.isOf(of) {
		c := processes.New(s.source.record(), processes.Config{
			Timeout: time.Second, Log: slog.Default, Unknown: func() {}, Refused: func(error) string { return "" },
		})
		h, stop = c, c.Close
	}
	s.source.heart.Store(&h)
	h.Tell(func(a *processes.About) {
		now := s.applied.Load()
		a.Source, a.Config, a.Follows = now.config.Name, now.version, true
		a.Changes, a.Secret = s.source.overrides.Changes(), s.source.overrides.SecretCheck()
	})
	return func() {
		s.source.heart.Store(nil)
		h.Tell(nil)
		stop()
	}
}

// isOf reports whether the overrides of s belong to the application of a store.
func (s *RedisSource) isOf(of redisStore) bool {
	_, prefix, app, _ := of.Redis()
	return prefix == s.overrides.Prefix && app == s.overrides.Name
}

// changed makes a heartbeat soon.
func (s *RedisSource) changed() {
	if h := s.heart.Load(); h != nil {
		(*h).Changed()
	}
}
