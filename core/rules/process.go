package rules

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

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

	// SwitchChange is the last change of switches that is in force: see Switches.Change. It is -1 if the process follows
	// none, because its store is not that of package resilient, or has not read them yet.
	SwitchChange int64

	Sets []ProcessSet // with the store, or over any other one and watching overrides of the application
}

// A ProcessSet is a [Set] of a [Process].
type ProcessSet struct {
	Source, Config string   // the name of its configuration, such as that of a file, and its version: see Set.Version
	Policies       []string // in order
	Disabled       []string // those of them that are disabled
	MorePolicies   bool     // there are too many to be listed: Policies and Disabled are empty

	// Follows says that the Set watches the overrides in Redis, and Changes is the latest of them that is in force: see
	// LastChange. OtherSecret says that its KeySecret is another one than that of the reader, whose entries it does not find.
	Follows     bool
	Changes     string
	OtherSecret bool

	// Lost is the time when the Set found that Redis had lost all overrides and blocks. It is zero if Redis has not, or if
	// there was a change since then.
	Lost time.Time
}

// InForce reports whether the overrides and blocks until change are in force in s: see [RedisSource.LastChange]. A
// disabled policy has none, and an override has only the parts that the policy can have in the configuration of s.
func (s *ProcessSet) InForce(change string) bool {
	return s.Follows && !s.OtherSecret && s.Changes != "" && overrides.CompareIDs(s.Changes, change) >= 0
}

// Set returns the Set of p that has a policy, or may have it, or nil.
func (p *Process) Set(policy string) *ProcessSet {
	for i := range p.Sets {
		if s := &p.Sets[i]; s.MorePolicies || slices.Contains(s.Policies, policy) {
			return s
		}
	}
	return nil
}

// LastChange returns the ID of the latest change of overrides and blocks in Redis. See [Process.InForce].
func (s *RedisSource) LastChange(ctx context.Context) (string, error) {
	id, err := s.overrides.LastChange(ctx)
	if err != nil {
		err = fmt.Errorf("weir: changes of overrides in Redis: %w", err)
	}
	return id, err
}

// describe describes s. follows says that it watches the overrides of the application that reads the description.
func (s *Set) describe(a *processes.About, follows bool) {
	now := s.applied.Load()
	d := processes.Set{Source: now.config.Name, Config: now.version, Follows: follows, Policies: slices.Sorted(maps.Keys(now.config.Policies))}
	for _, name := range d.Policies {
		if now.config.Disabled || now.config.Policies[name].Disabled {
			d.Disabled = append(d.Disabled, name)
		}
	}
	if follows {
		o := s.source.overrides
		d.Changes, d.Secret, d.Lost = o.Changes(), o.SecretCheck(), o.LostAt()
	}
	a.Sets = append(a.Sets, d)
}

// tellStore makes the heartbeats of the store describe s for ever, if it has any.
func (s *Set) tellStore() {
	s.sender = processes.StoreOf[processes.Sender](s.store)
	if s.sender != nil {
		s.sender.Tell(func(a *processes.About) { s.describe(a, s.watching.Load() > 0 && s.followsStore()) })
	}
}

// followsStore reports whether the overrides of s are those of the application of its store.
func (s *Set) followsStore() bool {
	of := processes.StoreOf[redisStore](s.store)
	return s.source != nil && of != nil && s.source.isOf(of)
}

// begin makes heartbeats tell that s watches overrides, until the result is called. If they are not those of the application
// of the store, or the store has no heartbeats, s has ones of its own, which count for no rule.
func (s *Set) begin() (end func()) {
	s.watching.Add(1)
	stopped := func() { s.watching.Add(-1); s.changed() }
	if s.sender != nil && s.followsStore() {
		s.changed()
		return stopped
	}
	c := processes.New(recordOf(&s.source.overrides.App), processes.Config{
		Timeout: time.Second, Log: slog.Default, Unknown: func() {}, Refused: func(error) string { return "" },
	})
	c.Tell(func(a *processes.About) { s.describe(a, true) })
	own := processes.Sender(c)
	s.own.Store(&own)
	return func() {
		s.own.Store(nil)
		stopped()
		c.Close()
	}
}

// changed makes a heartbeat soon.
func (s *Set) changed() {
	if s.sender != nil {
		s.sender.Changed()
	}
	if h := s.own.Load(); h != nil {
		(*h).Changed()
	}
}

// isOf reports whether the overrides of s belong to the application of a store, in the same Redis.
func (s *RedisSource) isOf(of redisStore) bool {
	rdb, prefix, app, _ := of.Redis()
	return prefix == s.overrides.Prefix && app == s.overrides.Name && sameServer(rdb, s.overrides.Client)
}

// sameServer reports whether two clients are of one server or Cluster.
func sameServer(a, b redis.UniversalClient) bool {
	switch a := a.(type) {
	case *redis.Client:
		if b, ok := b.(*redis.Client); ok {
			return a == b || a.Options().Addr == b.Options().Addr && a.Options().DB == b.Options().DB && a.Options().Addr != "FailoverClient"
		}
	case *redis.ClusterClient:
		if b, ok := b.(*redis.ClusterClient); ok {
			return a == b || slices.ContainsFunc(a.Options().Addrs, func(addr string) bool { return slices.Contains(b.Options().Addrs, addr) })
		}
	}
	return a == b
}
