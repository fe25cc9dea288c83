package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules/internal/overrides"
)

// A Fleet is the processes of an application, as far as they have told Redis about themselves: those with the store of
// package resilient, and those with a [Set] that watches overrides. Each error of its methods is one of Redis, or says that
// a part of the record in Redis is not well formed; the result then has the rest. It is safe for concurrent use.
type Fleet struct{ app *overrides.App }

// Fleet returns the Fleet of the application of s.
func (s *RedisSource) Fleet() *Fleet { return &Fleet{&s.overrides.App} }

// FleetOf returns the Fleet of the application whose limits are in store, as in [RedisOf], or nil, whose methods panic, if
// store has no states in Redis.
func FleetOf(store core.Store) *Fleet {
	of := processes.StoreOf[redisStore](store)
	if of == nil {
		return nil
	}
	rdb, prefix, app, h := of.Redis()
	return &Fleet{&overrides.App{Client: rdb, Prefix: prefix, Name: app, Hasher: h}}
}

// Forget removes the hash of a key from the keys with the most denials. Processes add it again with the next denials.
func (f *Fleet) Forget(ctx context.Context, key string) error {
	_, err := read(ctx, f, "figures", func(r processes.Record) (struct{}, error) { return struct{}{}, r.Forget(ctx, f.Tag(key)) })
	return err
}

// Tag returns the hash of a key, as in [Entry.Tag], in a [DeniedKey] and in the keys of Redis.
func (f *Fleet) Tag(key string) string { return f.app.Hasher.Tag(key) }

// recordOf returns the record of the processes of an application.
func recordOf(app *overrides.App) processes.Record {
	return processes.NewRecord(func(ctx context.Context, args ...any) (any, error) {
		reply, err := app.Client.Do(ctx, args...).Result()
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return reply, err
	}, app.Prefix, app.Name)
}

// read calls from, whose result may be a part of the record beside an error.
func read[T any](ctx context.Context, f *Fleet, what string, from func(processes.Record) (T, error)) (T, error) {
	result, err := overrides.Await(ctx, func() (T, error) { return from(recordOf(f.app)) })
	if err != nil {
		err = fmt.Errorf("weir: %s in Redis: %w", what, err)
	}
	return result, err
}

// Processes returns the processes, the latest first.
func (f *Fleet) Processes(ctx context.Context) ([]Process, error) {
	type result struct {
		all   []processes.Process
		rules map[string][]string
	}
	r, err := read(ctx, f, "processes", func(of processes.Record) (r result, err error) {
		r.all, r.rules, err = of.Processes(ctx)
		return r, err
	})
	all := make([]Process, len(r.all))
	for i, p := range r.all {
		all[i] = Process{
			ID: p.ID, Host: p.Host, PID: p.PID, Version: p.Version, Started: time.UnixMilli(p.Started), Seen: p.Seen,
			Rules: slices.Clone(r.rules[p.Group]), AllRules: p.Group == processes.All, SwitchChange: p.Switches - 1,
		}
		for _, s := range p.Sets {
			of := ProcessSet{
				Source: s.Source, Config: s.Config, Policies: s.Policies, Disabled: s.Disabled, MorePolicies: s.More, Follows: s.Follows, Changes: s.Changes,
				OtherSecret: s.Follows && s.Secret != f.app.SecretCheck(),
			}
			if s.Lost > 0 {
				of.Lost = time.UnixMilli(s.Lost)
			}
			all[i].Sets = append(all[i].Sets, of)
		}
	}
	return all, err
}

// Published returns the rules that the processes have on their stores, by name.
func (f *Fleet) Published(ctx context.Context) (map[string]PublishedRule, error) {
	all, err := read(ctx, f, "rules", func(r processes.Record) ([]processes.Rule, error) { return r.Published(ctx) })
	rules := make(map[string]PublishedRule)
	for _, r := range all {
		p := published(r)
		latest, ok := rules[p.Name]
		switch {
		case !ok:
			rules[p.Name] = p
		case latest.At.Sub(p.At) <= processes.Current:
			latest.Others = append(latest.Others, p)
			rules[p.Name] = latest
		}
	}
	return rules, err
}

// Figures are decisions of the processes of an application.
type Figures struct {
	Requests observe.Counts            // all decisions, by their results
	Rules    map[string]observe.Counts // those that contained the rule of a name, by the results of the rule
	Denied   []DeniedKey               // the keys with the most denials, at most 1000 an hour
}

// A DeniedKey is a key that a rule has denied.
type DeniedKey struct {
	Tag     string // the hash of the key: see [Fleet.Tag]
	Rule    string
	Denials uint64 // at least, in this hour and the one before, by the clock of Redis
}

// MaxFiguresPeriod is the longest period of [Fleet.Figures].
const MaxFiguresPeriod = processes.FiguresLifetime

// Figures returns the decisions in a period up to now, which is rounded up to whole minutes. A process tells its
// decisions every 60 to 71 s, so those of its last minute are missing, and those of a message that was lost in an outage; those of
// two minutes or longer are a better view. Keys are those of stores with the option observe.TopKeys, shorter than 256
// bytes, in complete minutes. period is from one minute to MaxFiguresPeriod, and other ones are the nearest of these.
func (f *Fleet) Figures(ctx context.Context, period time.Duration) (all Figures, err error) {
	minutes := int((min(max(period, time.Minute), MaxFiguresPeriod) + time.Minute - 1) / time.Minute)
	r, err := read(ctx, f, "figures", func(r processes.Record) (processes.Figures, error) { return r.Figures(ctx, minutes) })
	all.Rules = make(map[string]observe.Counts, len(r.Rules))
	for rule, counts := range r.Rules {
		if rule == "" {
			all.Requests = counts
		} else {
			all.Rules[rule] = counts
		}
	}
	for k, n := range r.Denied {
		all.Denied = append(all.Denied, DeniedKey{k.Tag, k.Rule, n})
	}
	slices.SortFunc(all.Denied, func(a, b DeniedKey) int {
		return cmp.Or(cmp.Compare(b.Denials, a.Denials), cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Rule, b.Rule))
	})
	return all, err
}
