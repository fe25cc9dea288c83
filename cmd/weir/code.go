package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/similar"
)

// addPublished adds the rules that the processes of the application have published to the policies: each rule of a limiter in
// code as a policy of its own, and those of Sets as the policies that the configuration does not have.
func (r *remote) addPublished(ctx context.Context) error {
	published, err := r.source.Fleet().Published(ctx)
	if len(published) == 0 {
		return err
	}
	if err != nil {
		r.note("%v", err)
	}
	all, err := r.source.Fleet().Processes(ctx)
	if err != nil {
		r.note("%v", err)
	}
	merged := *r.config
	merged.Policies = maps.Clone(merged.Policies)
	if merged.Policies == nil {
		merged.Policies = make(map[string]rules.Policy)
	}
	r.published, r.code, r.sets = published, make(map[string]rules.PublishedRule), make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(published)) { // a candidate follows its rule
		p := published[name]
		policy, rule, _ := strings.Cut(name, ".")
		_, known := r.config.Policies[policy]
		switch {
		case !p.InSet && r.config.Policies[name].Rules == nil:
			r.code[name] = p
			merged.Policies[name] = p.Policy
		case p.InSet && !known:
			r.sets[policy] = sourceOf(all, policy)
			merged.Policies[policy] = withRule(merged.Policies[policy], rule, p.Policy.Rules[0])
		}
	}
	for policy := range r.sets {
		p := merged.Policies[policy]
		p.Enforce, p.Disabled = 100, disabledIn(all, policy)
		merged.Policies[policy] = p
	}
	for _, p := range all {
		for _, s := range p.Sets {
			for _, policy := range s.Policies {
				if _, ok := merged.Policies[policy]; !ok {
					r.elsewhere = fmt.Sprintf("the policy %q is in %s of the processes: the flag -config names a file with it", policy, escaped(s.Source))
				}
			}
		}
	}
	r.config = &merged
	return nil
}

// withRule returns p with one rule more, or a candidate of one.
func withRule(p rules.Policy, name string, of rules.Rule) rules.Policy {
	if parent, ok := strings.CutSuffix(name, ".candidate"); ok {
		i := slices.IndexFunc(p.Rules, func(r rules.Rule) bool { return r.Name == parent })
		if i >= 0 {
			p.Rules[i].Candidate = &of
		}
		return p
	}
	of.Name = name
	p.Rules = append(p.Rules, of)
	return p
}

// sourceOf returns the name of the configuration in which a process has a policy.
func sourceOf(all []rules.Process, policy string) string {
	for i := range all {
		if s := all[i].Set(policy); s != nil {
			return escaped(s.Source)
		}
	}
	return "the configuration"
}

// disabledIn reports whether all processes that have a policy have disabled it.
func disabledIn(all []rules.Process, policy string) bool {
	disabled := false
	for i := range all {
		if s := all[i].Set(policy); s != nil {
			if !slices.Contains(s.Disabled, policy) {
				return false
			}
			disabled = true
		}
	}
	return disabled
}

// aboutPublished says which facts about the limits of a policy are not known, because only the processes have it.
func (r *remote) aboutPublished(policy string) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if source, ok := r.sets[policy]; ok {
		add("The rules are those of the processes. Other properties in %s, such as the timezone of a quota and enforce, are unknown.", source)
		for _, rule := range r.config.Policies[policy].Rules {
			lines = append(lines, others(r.published[policy+"."+rule.Name])...)
		}
		return lines
	}
	p, ok := r.code[policy]
	if !ok {
		return nil
	}
	kind := core.NewRule(p.Policy.Rules[0].Spec).Kind()
	if p.Elastic != 0 {
		add("The rule is elastic, up to %v: its present limit is unknown, and the table has its base.", p.Elastic)
	}
	if kind.Calendar {
		add("The time zone and the anchor of the quota are unknown, and the table is that of UTC.")
	}
	if p.MorePlans > 0 {
		add("The rule has %d more plans.", p.MorePlans)
	}
	return append(lines, others(p)...)
}

// others says that other processes describe a rule otherwise.
func others(p rules.PublishedRule) (lines []string) {
	rule := p.Policy.Rules[0]
	for _, o := range p.Others {
		differs := "other plans or properties"
		if other := o.Policy.Rules[0]; other.Limit != rule.Limit || other.Algorithm != rule.Algorithm {
			differs = fmt.Sprintf("another limit, %s %v,", other.Algorithm, other.Limit)
		}
		lines = append(lines, fmt.Sprintf("Another process has, or had at %s, %s of the rule %s.", o.At.UTC().Format(time.RFC3339), differs, p.Name))
	}
	return lines
}

// title names a policy, or a rule in code.
func (r *remote) title(policy string) string {
	if _, ok := r.code[policy]; ok {
		return fmt.Sprintf("The rule %q in code", policy)
	}
	return fmt.Sprintf("The policy %q", policy)
}

// selected returns the policies that a text stands for: a policy, a rule in code, a route, or all for every one.
func (r *remote) selected(text string) ([]string, error) {
	if !strings.Contains(text, "/") {
		return policiesOf(r.config, text), nil
	}
	if _, ok := r.config.Policies[text]; ok {
		return []string{text}, nil
	}
	route, err := routeOf(r.config, text)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, policy := range []string{r.config.Routes[route], r.config.AllRoutes} {
		if policy != "" && !slices.Contains(all, policy) {
			all = append(all, policy)
		}
	}
	if all == nil {
		return nil, fmt.Errorf("%s has no policy for %s, which has the limiter of the middleware", r.name(), text)
	}
	return all, nil
}

// errInCode is the error of a command about overrides for a rule in code.
var errInCode = errors.New("limits in code have no overrides: only policies of a rules.Set have them, and a rule that is a core.Pause can close for a key; weir reset ends a ban")

// pauseInCode sets or ends the pause of a key by a rule in code, which must be a core.Pause.
func (r *remote) pauseInCode(ctx context.Context, rule, key string, until time.Time) error {
	if of := r.code[rule].Policy.Rules[0]; !core.NewRule(of.Spec).Kind().Closes {
		return fmt.Errorf("the rule %q is in code, and %w", rule, errInCode)
	}
	l, err := r.limiter(rule, "")
	if err != nil {
		return err
	}
	d := time.Duration(0)
	if !until.IsZero() {
		if d = time.Until(until); d > longestPause {
			return fmt.Errorf("the pause %q ends after at most 366 days", rule)
		}
	}
	return l.Pause(ctx, key, d)
}

// pauseOf returns the text of the pause of a key that is in force.
func (r *remote) pauseOf(ctx context.Context, rule, key string) (text, failed string, err error) {
	l, err := r.limiter(rule, "")
	if err != nil {
		return "", "", err
	}
	d, err := l.Peek(ctx, key)
	if err != nil || d.Allowed {
		return none, "", err
	}
	return fmt.Sprintf("{paused: true, until: '%s'}", time.Now().Add(d.RetryAfter).UTC().Format(time.RFC3339)), "", nil
}

const longestPause = 366 * 24 * time.Hour

// ofEvery runs f for every policy, and prints its name before. Those in which the key has no event and no override are left
// out, unless all is true. If reads is true and the key is in none, similar keys that are in use take its place.
func (r *remote) ofEvery(ctx context.Context, key string, all, reads bool, f func(ctx context.Context, policy, key string) error) error {
	policies, hints := policiesOf(r.config, every), r.hints
	if r.rule != "" {
		policies = slices.DeleteFunc(policies, func(policy string) bool {
			_, ok := r.code[policy]
			return ok && policy != r.rule || !ok && !slices.ContainsFunc(r.config.Policies[policy].Rules, func(of rules.Rule) bool { return of.Name == r.rule })
		})
	}
	ctx, cancel := longer(ctx, len(policies))
	defer cancel()
	shown := 0
	show := func(key string) error {
		for _, policy := range policies {
			known, err := all, error(nil)
			if !known {
				known, err = r.knows(ctx, hints, key, []string{policy})
			}
			if err == nil && known {
				if shown > 0 {
					fmt.Fprintln(r.stdout)
				}
				shown++
				fmt.Fprintf(r.stdout, "%s:\n", r.title(policy))
				err = f(ctx, policy, key)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := show(key); err != nil || shown > 0 {
		return err
	}
	if reads {
		for _, other := range similar.Keys(key) {
			if known, err := r.knows(ctx, hints, other, policies); err != nil || !known {
				continue
			}
			fmt.Fprintf(r.stdout, "%sThe key %q:\n", strings.Repeat("\n", min(shown, 1)), other)
			if err := show(other); err != nil {
				return err
			}
		}
	}
	if shown == 0 {
		fmt.Fprintf(r.stdout, "No event and no override of the key is in Redis. The limits are %s.\n", list(policies))
		for _, s := range r.switches.Off {
			fmt.Fprintln(r.stdout, asSentence(offText(s)))
		}
		r.hints = hints
		r.hintUnknown(ctx, key, policies)
	}
	return nil
}

// mistaken returns the error of a command that would write an entry for a key that is not in use, while the key that an
// address or a name can mean is.
func (r *remote) mistaken(ctx context.Context, key string) error {
	policies := policiesOf(r.config, every)
	ctx, cancel := context.WithTimeout(ctx, hintTime/2)
	defer cancel()
	if known, err := r.knows(ctx, r.hints, key, policies); known || err != nil {
		return nil
	}
	for _, other := range similar.Keys(key) {
		if known, err := r.knows(ctx, r.hints, other, policies); known && err == nil {
			return fmt.Errorf("nothing is written: no event of the key %q is known, and there are some of %q; if it is the right one, use the hash that weir key prints", key, other)
		}
	}
	return nil
}
