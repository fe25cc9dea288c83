package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/internal/routes"
	"github.com/weir-go/weir/internal/argument"
)

// A Set holds the limiters of the policies of a [Config], which [Set.Apply] and [Set.Watch] change
// while the limiters are used. It is safe for concurrent use.
//
// A process should have one Set for each store: two Sets with the same policies are in conflict
// when one of them changes. A decision allocates nothing more than that of a plain limiter.
type Set struct {
	store    core.Store
	source   *RedisSource // of overrides; nil if there is none
	onChange func(Change)
	onError  func(error)
	log      *slog.Logger // nil without LogTo

	changes, errors atomic.Uint64 // see Measures

	sender   processes.Sender                 // of the store, or nil
	own      atomic.Pointer[processes.Sender] // of the Set while it watches overrides that are not those of the store
	watching atomic.Int64                     // calls of Watch

	mu      sync.Mutex         // of Apply
	unused  map[string]*policy // policies of configurations whose Apply failed: they are on the store
	applied atomic.Pointer[applied]
}

// applied is the configuration in force.
type applied struct {
	config   *Config
	version  string
	policies map[string]*policy // also those that were removed
	routes   *routes.Table
	all      *core.Limiter // that of all routes; nil if there is none
}

// A Change describes a call of [Set.Apply] that has changed the configuration.
type Change struct {
	Previous, Version string   // see Set.Version
	Diff              []string // the result of Diff, which contains keys
}

// New returns a Set of the policies of c, which keeps its states in store. The error is a
// [core.ErrNoStore], that of [Set.Apply], or about a source of overrides that another Set has. New
// panics if an option is nil.
func New(store core.Store, c *Config, opts ...Option) (*Set, error) {
	if argument.IsNil(store) {
		return nil, fmt.Errorf("%w: it is nil", core.ErrNoStore)
	}
	s := &Set{store: store, unused: make(map[string]*policy)}
	argument.Apply("rules: New", s, opts)
	s.applied.Store(&applied{config: &Config{}})
	if s.source != nil && s.source.report.Load() != nil {
		return nil, errors.New("weir: the source of overrides belongs to another Set")
	}
	if _, err := s.apply(c); err != nil {
		return nil, err
	}
	if s.source != nil {
		report, changed := s.report, s.changed
		s.source.report.Store(&report)
		s.source.onChange.Store(&changed)
	}
	s.tellStore()
	return s, nil
}

// An Option configures a [Set].
type Option interface{ argument.Option[Set] }

// OnChange calls f after every [Set.Apply] that has changed the configuration, one call at a time
// and in the order of the changes. Apply returns after f. f must not call Apply.
func OnChange(f func(Change)) Option {
	argument.NotNil("rules: OnChange", "function", f)
	return argument.OptionFunc[Set](func(s *Set) { s.onChange = f })
}

// OnError calls f, concurrently, with the errors of [Set.Watch] and [Overrides]:
//
//   - an error of the source: once, and again after a success
//   - a text that cannot be applied: once
//   - an outage of the overrides, which Watch or a decision notices: once
//   - an [ErrKeySecret]: when Watch reads all overrides
//   - the loss of all overrides and blocks in Redis, as by a restart without its data: once
//   - an invalid override: each time that it is read, at most ten times in a second
//
// Without OnError, the errors are logged through [log/slog.Default] at level Error.
func OnError(f func(error)) Option {
	argument.NotNil("rules: OnError", "function", f)
	return argument.OptionFunc[Set](func(s *Set) { s.onError = f })
}

// Overrides makes a Set use the overrides of single keys that are in source, in addition to those
// of its configuration, over which they have precedence. [Set.Override] and [Set.Block] write them.
// Run [Set.Watch], which reads their changes every second, whatever source it watches: without it,
// every key is read from Redis once in [MaxAge]. Overrides panics if source is nil.
func Overrides(source *RedisSource) Option {
	argument.NotNil("rules: Overrides", "source", source)
	return argument.OptionFunc[Set](func(s *Set) { s.source = source })
}

// Limiter returns the limiter of a policy. It stays valid for ever: after [Set.Apply], it has the
// rules of the new configuration, for all its views. Its rules must not be changed by other means,
// such as [core.Limiter.Replace], and it must not get another [core.Limiter.Choose].
func (s *Set) Limiter(policy string) (*core.Limiter, error) {
	p := s.applied.Load().policies[policy]
	if p == nil {
		return nil, errNoPolicy(policy)
	}
	return p.limiter, nil
}

func errNoPolicy(name string) error {
	return fmt.Errorf("weir: the configuration has no policy %q", name)
}

// Config returns the configuration in force. It must not be changed.
func (s *Set) Config() *Config { return s.applied.Load().config }

// Version returns a hash of the applied configuration. Sets with equal configurations have equal
// versions, in all processes that run one release of the package.
func (s *Set) Version() string { return s.applied.Load().version }

// Apply changes the limiters of s to the policies of c, which must not be changed afterwards. On an
// error nothing changes. Each decision uses the rules and overrides of one configuration, also if
// it is about several policies.
//
// Changed limits continue with the states of the keys as in [core.Limiter.Replace]; [Diff] tells which begin unused.
// New policies get a limiter. The limiter of a policy that c does not have keeps its last rules and overrides;
// Config.Disabled and a later configuration that has the policy again apply to it.
//
// The error is a [core.RuleError] for an invalid rule, for an override with an invalid limit, and for
// a rule that is in conflict with that of a limiter outside of s. There are other errors:
//
//   - an override of a rule or plan that the policy does not have
//   - an invalid percentage
//   - a route that is invalid, in conflict with another route, or without a policy
//   - a policy of all routes that does not exist, or that has more than 128 rules, candidates and bans together
//     with that of a route
func (s *Set) Apply(c *Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.applied.Load()
	changed, err := s.apply(c)
	if err != nil || !changed {
		return err
	}
	s.changes.Add(1)
	s.changed()
	if s.log == nil && s.onChange == nil {
		return nil
	}
	change := Change{Previous: old.version, Version: s.Version(), Diff: Diff(old.config, c)}
	if s.log != nil {
		args := []any{"previous", change.Previous, "version", change.Version, "changes", len(change.Diff)}
		if unused := change.unused(); len(unused) > 0 {
			args = append(args, "begin_unused", unused)
		}
		s.log.Info("weir: new configuration", args...)
	}
	if s.onChange != nil {
		s.onChange(change)
	}
	return nil
}

// unused returns the rules whose events before c do not count.
func (c *Change) unused() (rules []string) {
	for _, line := range c.Diff {
		if rule, ok := strings.CutSuffix(line, ": "+beginsUnused); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

func (s *Set) apply(c *Config) (changed bool, err error) {
	if c == nil {
		return false, errors.New("weir: the configuration is nil")
	}
	old := s.applied.Load()
	next := &applied{config: c, version: c.version(), policies: make(map[string]*policy)}
	if next.routes, err = newRoutes(c); err != nil {
		return false, err
	}
	policies := make(map[string]Policy) // with those that c does not have
	for name, p := range old.policies {
		policies[name] = *p.current.Load().config
	}
	maps.Copy(policies, c.Policies)
	versions := make(map[string]*version)
	for name, config := range policies {
		off := c.Disabled || config.Disabled
		p := old.policies[name]
		if p != nil {
			if v := p.current.Load(); v.disabled == off && reflect.DeepEqual(*v.config, config) {
				next.policies[name] = p
				continue
			}
		}
		if versions[name], err = newVersion(s, name, &config, off, p); err != nil {
			return false, fmt.Errorf("weir: policy %q: %w", name, err)
		}
	}
	replaced := make(map[*core.Limiter][]core.Rule)
	for name, v := range versions {
		p := cmp.Or(old.policies[name], s.unused[name])
		if p == nil {
			if p, err = newPolicy(s.store, v.rules); err != nil {
				return false, fmt.Errorf("weir: policy %q: %w", name, err)
			}
			s.unused[name] = p
		}
		// A limiter whose overrides alone change is replaced, too: its waiting callers ask again.
		v.root, next.policies[name], replaced[p.root] = p.root, p, v.rules
	}
	if p := next.policies[c.AllRoutes]; p != nil {
		next.all = p.limiter
	}
	err = inner.ReplaceAll(replaced, func() {
		for name, v := range versions {
			next.policies[name].current.Store(v)
		}
		s.applied.Store(next)
	})
	if err != nil {
		return false, err
	}
	for name := range versions {
		delete(s.unused, name)
	}
	return next.version != old.version, nil
}

// The messages of log records.
const (
	notApplied    = "weir: the configuration is not applied; the last good one stays in force"
	cannotRead    = "weir: overrides of keys cannot be read; those in the cache stay in force"
	cannotEnforce = "weir: a part of an override is not in force"
	lost          = "weir: overrides and blocks are lost; those in the configuration stay in force"
)

// report reports an error as OnError describes.
func (s *Set) report(message string, err error) {
	s.errors.Add(1)
	if s.onError != nil {
		s.onError(err)
		return
	}
	cmp.Or(s.log, slog.Default()).Error(message, "version", s.Version(), "error", err)
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Measures returns figures, so that observe.Store.Add accepts a Set. Those of
// overrides are there if the Set has a [RedisSource].
func (s *Set) Measures() []driver.Measure {
	all := []driver.Measure{
		{Name: "weir.rules.policies", Help: "Policies of the configuration in force, and removed ones.", Unit: "{policy}", Value: float64(len(s.applied.Load().policies))},
		{Name: "weir.rules.changes", Help: "Configurations that were applied after the first one.", Unit: "{configuration}", Total: true, Value: float64(s.changes.Load())},
		{Name: "weir.rules.errors", Help: "Configurations and overrides that could not be read or applied.", Unit: "{error}", Total: true, Value: float64(s.errors.Load())},
	}
	if s.source == nil {
		return all
	}
	n := s.source.Stats()
	return append(all,
		driver.Measure{Name: "weir.rules.overrides", Help: "Keys with an override; -1 if unknown.", Unit: "{key}", Value: float64(n.Overrides)},
		driver.Measure{Name: "weir.rules.blocks", Help: "Keys that are blocked, in Redis or the configuration; -1 if unknown.", Unit: "{key}", Value: float64(s.blocked(n.Blocks))},
		driver.Measure{Name: "weir.rules.overrides.age", Help: "Time since the changes of overrides were read; negative before the first time.", Unit: "s", Value: n.Age.Seconds()},
		driver.Measure{Name: "weir.rules.overrides.reads", Help: "Overrides of single keys that were read.", Unit: "{read}", Total: true, Value: float64(n.Reads)},
		driver.Measure{Name: "weir.rules.overrides.stale", Help: "Lookups that used old knowledge about a key.", Unit: "{lookup}", Total: true, Value: float64(n.Stale)},
		driver.Measure{Name: "weir.rules.overrides.missing", Help: "Lookups without any knowledge about a key.", Unit: "{lookup}", Total: true, Value: float64(n.Missing)},
	)
}

// blocked returns the number of blocks, in Redis and of the configuration. Overrides in Redis have precedence over
// the configuration.
func (s *Set) blocked(inRedis int) int {
	if inRedis < 0 {
		return -1
	}
	for name, p := range s.Config().Policies {
		for key, o := range p.Keys {
			if !o.Blocked || p.Disabled || !o.Until.IsZero() && !time.Now().Before(o.Until) {
				continue
			}
			if !s.source.overrides.Has(name, key) {
				inRedis++
			}
		}
	}
	return inRedis
}

// LogTo sets the log, for package observe. Each new configuration is logged at level Info as "weir: new
// configuration", with the attributes previous, version and changes, the number of differences. Errors
// go to this log, in place of slog.Default, unless there is an [OnError]. It must be called before the
// Set is used concurrently.
func (s *Set) LogTo(log *slog.Logger) { s.log = log }
