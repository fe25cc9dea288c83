package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/rules"
)

// A remote is a configuration and overrides in Redis.
type remote struct {
	connection
	stdout, stderr io.Writer
	flags          *flag.FlagSet
	file           string // flags
	rule, plan     string // flags of the commands about states
	brief          bool   // of all policies, those without the key are left out
	text           bool   // flags of the commands that write an entry
	about          string
	most           int           // flag of list
	limits         bool          // the command gives a key other limits, which need the configuration
	wait           time.Duration // flag of the commands that write an entry
	now            time.Time     // when the command began
	writes         bool          // the command changes something
	ends           bool          // it ends an override or a block, which processes that do not follow overrides do not have
	removes        bool          // flags of put
	version        string
	source         *rules.RedisSource
	config         *rules.Config // with the rules that only processes have
	loaded         *rules.Config // without these; nil if there is none
	published      map[string]rules.PublishedRule
	code           map[string]rules.PublishedRule // those in code, which are policies in config
	sets           map[string]string              // the policies in config that only processes have, and the names of their configurations
	elsewhere      string                         // names a policy of the processes that config does not have; empty if there is none
	switches       rules.Switches
	following      bool       // off is in force for set, as for the programs
	set            *rules.Set // of config, with the overrides in Redis; no policy is off
	hints          *rules.Set // the same for notes, whose errors do not change set
	invalid        error      // of a value in Redis
	mu             sync.Mutex // of a scan
}

// open sets the client, the secret, the application and the source.
func (r *remote) open(ctx context.Context) error {
	if err := r.connection.open(); err != nil {
		return err
	}
	if r.app == "" {
		if err := r.chooseApp(ctx); err != nil {
			return err
		}
	}
	r.source = r.newSource()
	return nil
}

// errNoApp is the error of a command that needs the name of the application.
var errNoApp = errors.New("the flag -app or WEIR_APP has to name the application, as its programs do in resilient.New or redisstore.New")

// chooseApp sets the application of a command that only reads to the one that has keys in Redis, and returns an error if
// there are others, or none, or if the command writes.
func (r *remote) chooseApp(ctx context.Context) error {
	found, all, err := r.prefixes(ctx)
	if err != nil {
		return fmt.Errorf("%w; the applications in Redis are not known: %w", errNoApp, err)
	}
	var apps []string
	for prefix := range found {
		if beginning, app := r.split(prefix); beginning == r.prefix && app != "" {
			apps = append(apps, app)
		}
	}
	slices.Sort(apps)
	switch {
	case len(apps) == 0:
		return fmt.Errorf("%w; none was found %s", errNoApp, among(all))
	case len(apps) > 1 || r.writes:
		return fmt.Errorf("%w; %s there is %s", errNoApp, among(all), quotedAll(apps[:min(len(apps), maxNames)]))
	}
	r.app = apps[0]
	r.note("the application is %q, the only one %s", r.app, among(all))
	return nil
}

func (r *remote) newSource() *rules.RedisSource {
	return r.redisSource(rules.FailClosed(), rules.OrHash())
}

// load reads the policies, and makes the Set.
func (r *remote) load(ctx context.Context) error {
	if err := r.configure(ctx); err != nil {
		return err
	}
	return r.start(r.config.Policies)
}

// configure reads the policies.
func (r *remote) configure(ctx context.Context) (err error) {
	if r.file != "" {
		r.config, err = load(r.file)
	} else {
		r.config, err = rules.Load(ctx, r.source)
	}
	r.loaded = r.config
	absent := errors.Is(err, rules.ErrNoConfig)
	if err != nil && !absent {
		return err
	}
	if absent {
		r.config, r.loaded = new(rules.Config), nil
	}
	switch err := r.source.CheckSecret(ctx); {
	case errors.Is(err, rules.ErrKeySecret) && r.secret == nil:
		return errors.New("WEIR_KEY_SECRET is not set, and the latest override or block was written with a secret, without which no key is found")
	case err != nil && !errors.Is(err, rules.ErrKeySecret): // the command itself reports that of Redis
	default:
		if err := r.addPublished(ctx); err != nil {
			r.note("limits in code are not known: %v", err)
		}
		if r.switches, err = r.source.Fleet().Switches(ctx); err != nil {
			r.note("whether limits are off is not known: %v", err)
		}
	}
	if r.elsewhere != "" && len(r.config.Policies) > 0 {
		r.note("%s", r.elsewhere)
	}
	if absent && len(r.config.Policies) == 0 {
		if r.elsewhere != "" {
			return errors.New(r.elsewhere)
		}
		r.hintPrefix(ctx)
		return fmt.Errorf("%w; if the policies are in a file, the flag -config names it; limits in code are known while a process with the store of resilient.New runs, and for a day after it", err)
	}
	return nil
}

// start makes the Sets of policies.
func (r *remote) start(policies map[string]rules.Policy) (err error) {
	if r.set != nil {
		r.source = r.newSource() // one belongs to one Set
	}
	if r.hints, err = newSet(r.connection, policies, nil, rules.Overrides(r.newSource())); err != nil {
		return err
	}
	r.set, err = newSet(r.connection, policies, r.isOff, rules.Overrides(r.source), rules.OnError(func(err error) { r.invalid = err }))
	return err
}

// A switched is a store whose limits are off while off says so, or never if it is nil.
type switched struct {
	*redisstore.Store
	off func(rule string) bool
}

// Describe returns the [driver.Description] of the Store, with off.
func (s *switched) Describe() driver.Description {
	d := s.Store.Describe()
	d.Off = s.off
	return d
}

// isOff reports whether a rule is off, while the command asks as the programs do.
func (r *remote) isOff(rule string) bool {
	return r.following && slices.ContainsFunc(r.switches.Off, func(s rules.Switch) bool { return s.Has(rule) })
}

// newSet returns a Set on Redis that shows the limits of disabled policies, too. off says which rules are off.
func newSet(c connection, policies map[string]rules.Policy, off func(rule string) bool, opts ...rules.Option) (*rules.Set, error) {
	on := make(map[string]rules.Policy)
	for name, p := range policies {
		p.Disabled = false
		on[name] = p
	}
	store := redisstore.New(c.rdb, c.app, append(c.storeOptions(), redisstore.Timeout(timeout))...)
	return rules.New(&switched{store, off}, &rules.Config{Policies: on}, opts...)
}

// limiter returns the limiter of a policy on Redis, for a plan.
func (r *remote) limiter(policy, plan string) (*core.Limiter, error) {
	l, err := r.set.Limiter(policy)
	if err != nil {
		return nil, err
	}
	return l.Plan(plan), nil
}

// name returns the name of the source of the policies.
func (r *remote) name() string {
	if r.loaded == nil && r.code != nil {
		return "the application"
	}
	return cmp.Or(r.file, r.source.String())
}

// subject returns the subject for a key of a policy, without its override.
func (r *remote) subject(policy, key string) (*subject, error) {
	s, err := newSubject(r.config, r.name(), policy, key, r.plan)
	if err != nil && key != "" && r.elsewhere != "" {
		err = fmt.Errorf("%w; %s", err, r.elsewhere)
	}
	return s, err
}

// overrideOf returns the override of a key. A value in Redis that is no override is an error, unless
// a block hides it.
func (r *remote) overrideOf(ctx context.Context, policy, key string) (rules.Override, error) {
	r.invalid = nil
	o, err := r.set.OverrideOf(ctx, policy, key)
	if err == nil && !o.Blocked {
		err = r.invalid
	}
	return o, err
}
