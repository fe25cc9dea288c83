package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/similar"
)

// note prints a note beside the output of a command.
func (r *remote) note(format string, args ...any) {
	fmt.Fprintf(r.stderr, "weir: note: %s\n", printable(fmt.Sprintf(format, args...), false))
}

// hintTime is the time for notes: half of it before a change, to find out whether the key is known. Tests lengthen it.
var hintTime = time.Second

// hint returns a function that notes that no event of a key and no override is known in policies, with the causes that
// Redis shows. Call the function after a change. It does nothing if the key was known before, if Redis has not replied in
// time or failed, or if the user lacks a permission.
func (r *remote) hint(ctx context.Context, key string, policies ...string) func() {
	early, cancel := context.WithTimeout(ctx, hintTime/2)
	defer cancel()
	if known, err := r.knows(early, r.hints, key, policies); known || err != nil {
		return func() {}
	}
	return func() { r.hintUnknown(ctx, key, policies) }
}

// hintUnknown notes that no event of a key and no override is known in policies, with the causes that Redis shows.
func (r *remote) hintUnknown(ctx context.Context, key string, policies []string) {
	ctx, cancel := context.WithTimeout(ctx, hintTime/2)
	defer cancel()
	in := fmt.Sprintf("no event and no override of the key %q was found in Redis", key)
	if len(policies) == 1 {
		in += fmt.Sprintf(" for the policy %q", policies[0])
	}
	if r.rule != "" {
		in += fmt.Sprintf(" and the rule %q", r.rule)
	}
	var others []string
	for _, other := range similar.Keys(key) {
		if known, err := r.knows(ctx, r.hints, other, policies); known && err == nil {
			others = append(others, other)
		}
	}
	if similar.IsHash(key) && r.secret == nil {
		r.note("a hash in a log is that of one process, unless the programs have a key secret: the page of that process finds its key")
	}
	if len(others) > 0 {
		r.note("%s; there is the key %s", in, quotedAll(others))
		return
	}
	r.note("%s; the key is the text that the key function of the program returns, such as user:ann or 203.0.113.7", in)
	r.hintSecret(ctx)
	if without := r.connection; r.secret != nil {
		without.secret = nil
		if r.knownBy(ctx, without, key, policies) {
			r.note("the key has events of programs without a secret, and WEIR_KEY_SECRET is set")
		}
	}
	found := r.hintPrefix(ctx)
	for _, prefix := range found[:min(len(found), maxNames)] {
		other := r.connection
		other.prefix, other.app = r.split(prefix)
		if prefix == r.keyPrefix() || other.app == "" || !r.knownBy(ctx, other, key, policies) {
			continue
		}
		if other.app != r.app {
			r.note("the key has events of the application %q: see -app", other.app)
		}
		if other.prefix != r.prefix {
			r.note("the key has events with the prefix %q: see -prefix", other.prefix)
		}
	}
}

// split splits a prefix, which ends with a colon, into its beginning, that of r or one that is empty or ends with a colon,
// and the name of an application, which is empty if it is none.
func (r *remote) split(prefix string) (beginning, app string) {
	prefix = strings.TrimSuffix(prefix, ":")
	i := strings.LastIndexByte(prefix, ':') + 1
	if app, ok := strings.CutPrefix(prefix, r.prefix); ok && appName.MatchString(app) {
		i = len(r.prefix)
	}
	if app = prefix[i:]; !appName.MatchString(app) {
		app = ""
	}
	return prefix[:i], app
}

// knownBy reports whether a key has events of programs with another prefix or secret.
func (r *remote) knownBy(ctx context.Context, other connection, key string, policies []string) bool {
	set, err := newSet(other, r.config.Policies, nil)
	if err != nil {
		return false
	}
	known, err := r.knows(ctx, set, key, policies)
	return known && err == nil
}

// quotedAll returns names between quotes.
func quotedAll(names []string) string {
	text := fmt.Sprintf("%q", names)
	return strings.ReplaceAll(text[1:len(text)-1], `" "`, `" and "`)
}

// knows reports whether a key has an event or an override in one of policies.
func (r *remote) knows(ctx context.Context, set *rules.Set, key string, policies []string) (bool, error) {
	for _, policy := range policies {
		l, err := set.Limiter(policy)
		if err != nil {
			return false, err
		}
		o, err := set.OverrideOf(ctx, policy, key)
		if err != nil || textOf(o) != none {
			return true, err
		}
		if used, err := r.uses(ctx, l, policy, key); used || err != nil {
			return used, err
		}
	}
	return false, nil
}

// uses reports whether a key has an event in a policy, with any of its plans: the state of a limit depends on its period.
func (r *remote) uses(ctx context.Context, l *core.Limiter, policy, key string) (bool, error) {
	names := slices.Compact(append([]string{r.plan, ""}, plans(r.config.Policies[policy])...))
	for _, plan := range names[:min(len(names), maxPlans+2)] {
		d, err := l.Plan(plan).Peek(ctx, key)
		if err != nil || inUse(d) {
			return err == nil, err
		}
	}
	return false, nil
}

// inUse reports whether a key has events, or is paused.
func inUse(d core.Decision) bool {
	for _, s := range d.States() {
		if s.Used() > 0 && !s.Unknown || paused(d, s) {
			return true
		}
	}
	return false
}

// hintSecret notes that the secret is not that of the latest override or block.
func (r *remote) hintSecret(ctx context.Context) {
	switch err := r.source.CheckSecret(ctx); {
	case !errors.Is(err, rules.ErrKeySecret):
	case r.secret == nil:
		r.note("WEIR_KEY_SECRET is not set, and the latest override or block was written with a secret")
	default:
		r.note("the latest override or block was written without WEIR_KEY_SECRET, or with another one")
	}
}

const (
	maxScans  = 20   // calls of SCAN
	scanCount = 1000 // keys that each of them looks at
	maxNames  = 5
)

// ofWeir matches the keys of overrides, states and configurations. The first group is their prefix.
var ofWeir = regexp.MustCompile(`^([^{}]{1,31}:)(?:\{(?:rules:[A-Za-z0-9._-]+\}|[A-Za-z0-9._-]{1,26}\}processes|[A-Za-z0-9_-]{22}\}(?:override|[a-z][0-9]+[^:]*):)|rules$)`)

// hintPrefix notes that no key with the prefix was found in Redis. It returns the prefixes that were.
func (r *remote) hintPrefix(ctx context.Context) []string {
	found, all, err := r.prefixes(ctx)
	names := slices.Sorted(maps.Keys(found))
	if slices.Contains(names, r.keyPrefix()) || err != nil || !all && len(names) == 0 {
		return names
	}
	text := fmt.Sprintf("no key %s has the prefix %q", among(all), r.keyPrefix())
	if len(names) > 0 {
		text += "; there is " + quotedAll(names[:min(len(names), maxNames)])
	}
	r.note("%s", text)
	return names
}

// among says where keys were looked for.
func among(all bool) string {
	if all {
		return "in Redis"
	}
	return fmt.Sprintf("among some %d keys of Redis", maxScans*scanCount)
}

// prefixes returns the prefixes of applications among some thousand keys of Redis, and whether these were all.
func (r *remote) prefixes(ctx context.Context) (found map[string]struct{}, all bool, err error) {
	found = make(map[string]struct{})
	all, err = r.scan(ctx, "*:*", maxScans, func(keys []string) {
		for _, key := range keys {
			m := ofWeir.FindStringSubmatch(key)
			if m == nil || len(m[1]) > 32 || m[1]+"rules" == key && !strings.HasPrefix(key, r.prefix) { // that may be of another program
				continue
			}
			if _, app := r.split(m[1]); app != "" {
				found[m[1]] = struct{}{}
			}
		}
	})
	return found, all, err
}

// scan calls f with the keys that match a pattern, some of them more than once, for at most that many calls of SCAN. all
// reports whether these were all keys.
func (r *remote) scan(ctx context.Context, match string, calls int, f func(keys []string)) (all bool, err error) {
	scan := func(ctx context.Context, rdb redis.Cmdable) error {
		for cursor := uint64(0); calls > 0; calls-- {
			keys, next, err := rdb.Scan(ctx, cursor, match, scanCount).Result()
			if err != nil {
				return err
			}
			f(keys)
			if cursor = next; cursor == 0 {
				return nil
			}
		}
		return errPart
	}
	if cluster, ok := r.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			r.mu.Lock() // ForEachMaster calls f concurrently
			defer r.mu.Unlock()
			return scan(ctx, node)
		})
	} else {
		err = scan(ctx, r.rdb)
	}
	if errors.Is(err, errPart) {
		return false, nil
	}
	return err == nil, err
}

var errPart = errors.New("a part of the keys")
