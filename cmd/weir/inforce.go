package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
)

// waitTime is the time for which a command that writes an override waits until it is in force. Tests change it.
var waitTime = 15 * time.Second

// pollTime is the time between two looks at the processes.
const pollTime = 250 * time.Millisecond

// invisible says which processes are known.
const invisible = "a process is known if its store is that of resilient.New, or if its rules.Set has the option Overrides and Watch runs"

// await waits until the latest change of overrides in Redis is in force in all processes that have a policy, and notes it.
// Its error says in which processes the change is not in force, and why.
func (r *remote) await(ctx context.Context, policies []string) error {
	if r.wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.wait+timeout)
	defer cancel()
	change, err := r.source.LastChange(ctx)
	if err != nil {
		return err
	}
	for until := time.Now().Add(r.wait); ; {
		all, err := r.withPolicies(ctx, policies)
		if err != nil {
			return err
		}
		text, done := inForceIn(all, change)
		switch {
		case done:
			r.note("%s", text)
			return nil
		case len(all) == 0:
			return fmt.Errorf("it is written, and no process of the application %q is known that has %s: %s", r.app, quotedAll(policies), invisible)
		case !time.Now().Before(until):
			return fmt.Errorf("it is written, and after %v %s", r.wait, text)
		}
		time.Sleep(pollTime)
	}
}

// withPolicies returns the processes that have a rule of one of the policies, or too many rules to be listed, or that
// follow the overrides without telling their rules.
func (r *remote) withPolicies(ctx context.Context, policies []string) ([]rules.Process, error) {
	all, err := r.source.Processes(ctx)
	if all == nil && err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p rules.Process) bool {
		return !p.AllRules && !(p.Follows && len(p.Rules) == 0) && !slices.ContainsFunc(p.Rules, func(rule string) bool {
			return slices.ContainsFunc(policies, func(policy string) bool { return strings.HasPrefix(rule, policy+".") })
		})
	}), nil
}

// inForceIn says in how many processes a change is in force, and why not in the others. done says that it is in all of
// them, and there is one.
func inForceIn(all []rules.Process, change string) (text string, done bool) {
	var others []string
	for _, p := range all {
		reason := ""
		switch {
		case p.InForce(change):
			continue
		case !p.Follows:
			reason = "does not watch overrides (rules.Overrides and Set.Watch), or those of another prefix"
		case p.OtherSecret:
			reason = "has another key secret"
		case p.Changes == "":
			reason = "has not read the overrides"
		default:
			reason = "has not read the change yet"
		}
		others = append(others, fmt.Sprintf("%s %s", nameOf(p), reason))
	}
	text = fmt.Sprintf("in force in %d of %d processes", len(all)-len(others), len(all))
	if n := len(others); n > 0 {
		if text += ": " + strings.Join(others[:min(n, maxNames)], "; "); n > maxNames {
			text += fmt.Sprintf("; and %d more", n-maxNames)
		}
	}
	return text, len(others) == 0 && len(all) > 0
}

// nameOf returns the name of a process for messages.
func nameOf(p rules.Process) string {
	return fmt.Sprintf("process %d of %s", p.PID, escaped(p.Host))
}

// agreement says in which processes the overrides of a policy are in force, and whether they have the configuration of r.
func (r *remote) agreement(ctx context.Context, policy string, overridden bool) (lines []string) {
	all, err := r.withPolicies(ctx, []string{policy})
	if err != nil || len(all) == 0 && !overridden {
		return nil
	}
	if overridden {
		if change, err := r.source.LastChange(ctx); err == nil {
			text, _ := inForceIn(all, change)
			if len(all) == 0 {
				text = "it is not known whether this is in force, because no process that has the policy is known"
			}
			lines = append(lines, strings.ToUpper(text[:1])+text[1:]+".")
		}
	}
	if r.loaded == nil {
		return lines
	}
	if set, err := rules.New(memstore.New(), r.loaded); err == nil {
		others := slices.DeleteFunc(slices.Clone(all), func(p rules.Process) bool { return p.Config == "" || p.Config == set.Version() })
		if n := len(others); n > 0 {
			lines = append(lines, fmt.Sprintf("%d of %d processes have another configuration than %s, version %s: that of %s has the version %s.",
				n, len(all), r.name(), set.Version(), nameOf(others[0]), escaped(others[0].Config)))
		}
	}
	return lines
}
