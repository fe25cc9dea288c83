package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/weir-go/weir/core"
)

const (
	nearScans    = 1000    // calls of SCAN of weir near: a million keys
	nearKeys     = 100_000 // keys of a policy whose states it reads
	nearTogether = 16      // of them at the same time
)

// A use is the used share of a limit by a key.
type use struct {
	tag   string
	share float64
	state core.State
}

// near prints the keys that use more than a share of a limit, those with the largest share first.
func (r *remote) near(ctx context.Context, args []string) error {
	share, err := parseShare(args[0])
	if err != nil {
		return err
	}
	if r.most < 1 {
		return fmt.Errorf("-n is not 1 or more: %d", r.most)
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	where := every
	if len(args) > 1 {
		where = args[1]
	}
	policies, err := r.selected(where)
	if err != nil {
		return err
	}
	for _, policy := range policies {
		if _, err := r.subject(policy, "any"); err != nil {
			return err
		}
	}
	ctx, cancel := longer(ctx, 50*len(policies))
	defer cancel()
	tags, err := r.tagsOf(ctx, policies)
	if err != nil {
		return err
	}
	var all []use
	for _, policy := range policies {
		found, err := r.usesOf(ctx, policy, tags[policy], share)
		if err != nil {
			return fmt.Errorf("the policy %q: %w", policy, err)
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b use) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.state.Rule.Name(), b.state.Rule.Name()), cmp.Compare(a.tag, b.tag))
	})
	w := tabwriter.NewWriter(r.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tRULE\tLIMIT\tUSED\tSHARE\tUNUSED")
	for _, u := range all[:min(len(all), r.most)] {
		used := strconv.Itoa(u.state.Used())
		if u.state.Ban > 0 {
			used = "banned"
		}
		fmt.Fprintf(w, "#%s\t%s\t%s\t%s\t%.0f %%\t%s\n", u.tag, escaped(u.state.Rule.Name()), inForce(u.state, ""), used, 100*u.share, waitOf(u.state, u.state.ResetAfter))
	}
	if n := len(all) - r.most; n > 0 {
		r.note("%s more: see -n", plural(n, "key"))
	}
	for _, policy := range policies {
		if names := slices.Compact(plans(r.config.Policies[policy])); len(names) > 0 && r.plan == "" {
			r.note("the limits of %q are those without a plan, except for keys with an override; the policy has %s: see -plan", policy, list(names))
		}
	}
	return w.Flush()
}

// parseShare reads a share such as 80% or 0.8.
func parseShare(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if isPercent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share < 1) {
		return 0, fmt.Errorf("SHARE is not from 0%% to below 100%%: %q", text)
	}
	return share, nil
}

// tagsOf returns the hashes of the keys with states of policies, at most nearKeys of each.
func (r *remote) tagsOf(ctx context.Context, policies []string) (map[string]map[string]bool, error) {
	ofRule, tags := make(map[string]string), make(map[string]map[string]bool)
	for _, policy := range policies {
		l, err := r.limiter(policy, "")
		if err != nil {
			return nil, err
		}
		tags[policy] = make(map[string]bool)
		for _, rule := range l.Rules() {
			ofRule[rule.Name()] = policy
			if rule.Spec().BlockFor > 0 { // the only state of a banned key may be that of the ban: see core.Spec.BlockFor
				ofRule[rule.Name()+".ban"] = policy
			}
		}
	}
	prefix, full := r.keyPrefix()+"{", false
	all, err := r.scan(ctx, globEscaper.Replace(prefix)+"*", nearScans, func(keys []string) {
		for _, key := range keys {
			tag, rest, ok := strings.Cut(strings.TrimPrefix(key, prefix), "}")
			for i := 0; ok && i < len(rest); i++ { // the name of a rule may have colons
				policy, isRule := ofRule[rest[i:]]
				if !isRule || i == 0 || rest[i-1] != ':' {
					continue
				}
				if full = full || len(tags[policy]) == nearKeys; !full || tags[policy][tag] {
					tags[policy][tag] = true
				}
				break
			}
		}
	})
	if !all || full {
		r.note("not all keys were looked at: at most %d of Redis, and %d of a policy", nearScans*scanCount, nearKeys)
	}
	return tags, err
}

var globEscaper = strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, `\`, `\\`)

// usesOf returns the limits of a policy of which keys use more than a share.
func (r *remote) usesOf(ctx context.Context, policy string, tags map[string]bool, share float64) (all []use, err error) {
	l, err := r.limiter(policy, r.plan)
	if err != nil {
		return nil, err
	}
	work := make(chan string)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range nearTogether {
		workers.Go(func() {
			for tag := range work {
				d, failed := l.Peek(ctx, "#"+tag)
				mu.Lock()
				if err = cmp.Or(err, failed); failed == nil {
					all = append(all, usesIn(d, tag, share)...)
				}
				mu.Unlock()
			}
		})
	}
	for tag := range tags {
		mu.Lock()
		failed := err
		mu.Unlock()
		if failed != nil {
			break
		}
		work <- tag
	}
	close(work)
	workers.Wait()
	if r.rule != "" {
		all = slices.DeleteFunc(all, func(u use) bool { return strings.TrimPrefix(u.state.Rule.Name(), policy+".") != r.rule })
	}
	return all, err
}

// usesIn returns the States of d of which more than a share is used.
func usesIn(d core.Decision, tag string, share float64) (all []use) {
	for _, s := range d.States() {
		capacity := s.Rule.Capacity()
		if s.Unknown || s.Rule.Kind().Closes || capacity == 0 || capacity == math.MaxInt {
			continue
		}
		if used := float64(capacity-s.Remaining) / float64(capacity); used > share {
			all = append(all, use{tag, used, s})
		}
	}
	return all
}
