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

// addCode adds the rules of limiters in code to the policies, each as a policy of its own, as the processes of the
// application have published them. Rules of the policies and names of policies are left out.
func (r *remote) addCode(ctx context.Context) error {
	published, err := r.source.Fleet().Rules(ctx)
	if len(published) == 0 {
		return err
	}
	if err != nil {
		r.note("%v", err)
	}
	r.code = published
	all, err := r.source.Fleet().Processes(ctx)
	if err != nil {
		r.note("%v", err)
	}
	of := make(map[string]string) // the policies of Sets, with the sources
	for _, p := range all {
		for _, s := range p.Sets {
			for _, policy := range s.Policies {
				of[policy] = s.Source
			}
		}
	}
	maps.DeleteFunc(r.code, func(name string, _ rules.PublishedRule) bool {
		if _, ok := r.config.Policies[name]; ok {
			return true
		}
		policy, rule, _ := strings.Cut(name, ".")
		rule = strings.TrimSuffix(rule, ".candidate")
		if source, ok := of[policy]; ok && len(r.config.Policies[policy].Rules) == 0 {
			r.elsewhere = fmt.Sprintf("the policy %q is in %s of the processes: the flag -config names a file with it", policy, escaped(source))
			return true
		}
		return slices.ContainsFunc(r.config.Policies[policy].Rules, func(of rules.Rule) bool { return of.Name == rule })
	})
	merged := *r.config
	merged.Policies = maps.Clone(merged.Policies)
	if merged.Policies == nil {
		merged.Policies = make(map[string]rules.Policy)
	}
	for name, p := range r.code {
		merged.Policies[name] = p.Policy
	}
	r.config = &merged
	return nil
}

// aboutCode says which facts about the limits of a policy are not known, because it is a rule in code.
func (r *remote) aboutCode(policy string) (lines []string) {
	p, ok := r.code[policy]
	if !ok {
		return nil
	}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	rule := p.Policy.Rules[0]
	kind := core.NewRule(rule.Spec).Kind()
	if p.Elastic != 0 {
		add("The rule is elastic, up to %v: its present limit is unknown, and the table has its base.", p.Elastic)
	}
	if kind.Calendar {
		add("The time zone and the anchor of the quota are unknown, and the table is that of UTC.")
	}
	if p.MorePlans > 0 {
		add("The rule has %d more plans.", p.MorePlans)
	}
	for _, o := range p.Others {
		if other := o.Policy.Rules[0]; other.Limit != rule.Limit || other.Algorithm != rule.Algorithm {
			add("A process has another limit of the rule, or had it until %s: %s %v.", o.At.UTC().Format(time.RFC3339), other.Algorithm, other.Limit)
		} else {
			add("A process has other plans or properties of the rule, or had them until %s.", o.At.UTC().Format(time.RFC3339))
		}
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
var errInCode = errors.New("limits in code have no overrides: only policies of a rules.Set have them, and a rule that is a core.Pause can close for a key")

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
