package main

import (
	"cmp"
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

// settleTime is the time after which a process that does not follow changes is none that has just started. Tests change it.
var settleTime = 3 * time.Second

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
	change, err := r.source.LastChange(ctx)
	if err != nil {
		return err
	}
	has := func(p *rules.Process) bool {
		return slices.ContainsFunc(policiesIn(p, policies), func(policy string) bool {
			s := p.Set(policy)
			return !r.ends || s != nil && s.Follows
		})
	}
	return r.awaitProcesses(ctx, quotedAll(policies), has, func(p *rules.Process) reason { return reasonOf(p, policies, change) }, func(all []rules.Process) error {
		if differ := r.otherConfigs(all, policies); differ != "" && r.limits {
			return fmt.Errorf("it is written, and may not be in force: %s", differ)
		}
		return nil
	})
}

// A reason says why a change is not in force in a process.
type reason struct {
	text  string // empty if it is in force
	lasts bool   // the process will not apply it
}

// awaitProcesses waits until each process that has returns true for has no reason, notes it, and returns the result of then.
// name names the limits that these processes have.
func (r *remote) awaitProcesses(ctx context.Context, name string, has func(*rules.Process) bool, of func(*rules.Process) reason, then func([]rules.Process) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.wait+timeout)
	defer cancel()
	for begun := time.Now(); ; {
		all, err := r.processesWith(ctx, has)
		if err != nil {
			return err
		}
		text, done, hopeless := inForceIn(all, of)
		settled := time.Since(begun) >= min(r.wait, settleTime)
		switch {
		case done:
			if err := then(all); err != nil {
				return err
			}
			r.note("%s", text)
			return nil
		case len(all) == 0 && settled && r.ends:
			return nil
		case len(all) == 0 && settled:
			return fmt.Errorf("it is written, and no process of the application %q is known that has %s: %s", r.app, name, invisible)
		case len(all) > 0 && (time.Since(begun) >= r.wait || hopeless && settled):
			return fmt.Errorf("it is written, and after %v %s", time.Since(begun).Round(time.Second), text)
		}
		time.Sleep(pollTime)
	}
}

// processesWith returns the processes for which has returns true.
func (r *remote) processesWith(ctx context.Context, has func(*rules.Process) bool) ([]rules.Process, error) {
	all, err := r.source.Fleet().Processes(ctx)
	if len(all) == 0 && err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p rules.Process) bool { return !has(&p) }), nil
}

// withPolicies returns the processes that have a rule of one of the policies, or too many rules to be listed, or a Set with
// one of them.
func (r *remote) withPolicies(ctx context.Context, policies []string) ([]rules.Process, error) {
	return r.processesWith(ctx, func(p *rules.Process) bool { return len(policiesIn(p, policies)) > 0 })
}

// policiesIn returns those of policies that p has.
func policiesIn(p *rules.Process, policies []string) (all []string) {
	for _, policy := range policies {
		if p.AllRules || p.Set(policy) != nil || slices.ContainsFunc(p.Rules, rules.Switch{Rule: policy}.Has) {
			all = append(all, policy)
		}
	}
	return all
}

// inForceIn says in how many processes a change is in force, and why not in the others. done says that it is in all of them,
// and there is one, and hopeless that all reasons last.
func inForceIn(all []rules.Process, of func(*rules.Process) reason) (text string, done, hopeless bool) {
	var others []string
	hopeless = true
	for i := range all {
		if why := of(&all[i]); why.text != "" {
			others = append(others, nameOf(all[i])+" "+why.text)
			hopeless = hopeless && why.lasts
		}
	}
	text = fmt.Sprintf("in force in %d of %d processes", len(all)-len(others), len(all))
	if n := len(others); n > 0 {
		if text += ": " + strings.Join(others[:min(n, maxNames)], "; "); n > maxNames {
			text += fmt.Sprintf("; and %d more", n-maxNames)
		}
	}
	return text, len(others) == 0 && len(all) > 0, hopeless && len(others) > 0
}

// reasonOf returns the reason why a change of policies is not in force in p.
func reasonOf(p *rules.Process, policies []string, change string) reason {
	for _, policy := range policiesIn(p, policies) {
		if why := reasonIn(p, policy, change); why.text != "" {
			return why
		}
	}
	return reason{}
}

// reasonIn returns the reason why a change of a policy is not in force in p.
func reasonIn(p *rules.Process, policy, change string) reason {
	s := p.Set(policy)
	switch {
	case s == nil || !s.Follows:
		return reason{"does not watch overrides (rules.Overrides and Set.Watch), or those of another Redis or prefix", true}
	case s.OtherSecret:
		return reason{"has another key secret", true}
	case slices.Contains(s.Disabled, policy):
		return reason{fmt.Sprintf("has disabled the policy %q", policy), true}
	case s.Changes == "":
		return reason{"has not read the overrides", false}
	case !s.InForce(change):
		return reason{notYet(p), false}
	}
	return reason{}
}

// notYet says that a process has not read a change, and when it was seen: it may have crashed.
func notYet(p *rules.Process) string {
	text := "has not read the change yet"
	if ago := time.Since(p.Seen).Round(time.Second); ago > 12*time.Second {
		text += fmt.Sprintf(", and was seen %v ago", ago)
	}
	return text
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
			text, _, _ := inForceIn(all, func(p *rules.Process) reason { return reasonIn(p, policy, change) })
			if len(all) == 0 {
				text = "it is not known whether this is in force, because no process that has the policy is known"
			}
			lines = append(lines, asSentence(text))
		}
	}
	if differ := r.otherConfigs(all, []string{policy}); differ != "" {
		lines = append(lines, differ+".")
	}
	return lines
}

// otherConfigs says how many processes have policies in another configuration than that of the command or, if it has none,
// than the process that started last.
func (r *remote) otherConfigs(all []rules.Process, policies []string) string {
	const name, version = 0, 1
	of := make(map[string][2]string) // by policy: the configuration that is compared
	if r.loaded != nil {
		set, err := rules.New(memstore.New(), r.loaded)
		if err != nil {
			return ""
		}
		for _, policy := range policies {
			of[policy] = [2]string{r.name(), set.Version()}
		}
	}
	var differ string
	others := 0
	for i := range all {
		for _, policy := range policiesIn(&all[i], policies) {
			s := all[i].Set(policy)
			if s == nil {
				continue
			}
			if _, ok := of[policy]; !ok {
				of[policy] = [2]string{"that of " + nameOf(all[i]), escaped(s.Config)}
			}
			if want := of[policy]; s.Config != want[version] {
				others++
				differ = cmp.Or(differ, fmt.Sprintf("%s, version %s: that of %s has the version %s", want[name], want[version], nameOf(all[i]), escaped(s.Config)))
				break
			}
		}
	}
	if others == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d processes have another configuration than %s", others, len(all), differ)
}
