package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules"
)

// why prints whether the next event of a key is admitted, and the reasons, in a policy, for a route or in all policies.
func (r *remote) why(ctx context.Context, args []string) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	args = []string{args[0], r.resolve(args[1])}
	if p, ok := r.config.Policies[args[0]]; ok {
		if err := checkPlan(p, r.plan); err != nil {
			return err
		}
	}
	if args[0] == every {
		return r.ofEvery(ctx, args[1], !r.brief, r.brief, func(ctx context.Context, policy, key string) error {
			_, err := r.whyIn(ctx, policy, key)
			return err
		})
	}
	ctx, cancel := longer(ctx, len(policiesOf(r.config, args[0])))
	defer cancel()
	if _, ok := r.config.Policies[args[0]]; ok { // also one with a slash in its name
		known, err := r.whyIn(ctx, args[0], args[1])
		if err == nil && !known {
			r.hintUnknown(ctx, args[1], args[:1])
		}
		return err
	}
	key, asked, known := args[1], []string(nil), false
	err := eachPolicy(r.config, r.name(), args[0], r.stdout, func(policy string) error {
		asked = append(asked, policy)
		here, err := r.whyIn(ctx, policy, key)
		known = known || here
		return err
	})
	if err == nil && !known {
		r.hintUnknown(ctx, key, asked)
	}
	return err
}

// whyIn is why for one policy. It reports whether the key has an event or an override.
func (r *remote) whyIn(ctx context.Context, policy, key string) (known bool, err error) {
	s, err := r.subject(policy, key)
	if err != nil {
		return false, err
	}
	if s.override, err = r.overrideOf(ctx, policy, key); err != nil {
		return false, err
	}
	entries, err := r.set.EntriesOf(ctx, policy, key)
	if err != nil {
		return false, err
	}
	known = textOf(s.override) != none
	lines := append(s.lines(), r.aboutPublished(policy)...)
	l, err := r.limiter(policy, s.plan)
	if err != nil {
		return known, err
	}
	d, err := l.Peek(ctx, key)
	if known = known || inUse(d); err == nil && !known {
		known, err = r.uses(ctx, l, policy, key)
	}
	if err != nil {
		return known, err
	}
	sentence, err := r.sentence(ctx, s, l, key, d)
	if err != nil {
		return known, err
	}
	if sentence == "Admitted." && !s.off() && !known {
		sentence = "Admitted: no event and no override of the key is in Redis."
	}
	if source, ok := r.sets[policy]; ok && len(entries) == 0 && !s.off() {
		sentence = strings.TrimSuffix(sentence, ".") + fmt.Sprintf(", unless %s has an entry for the key: see -config.", source)
	}
	fmt.Fprintln(r.stdout, sentence)
	if bans, _ := s.bans(d); bans != "" {
		lines = append(lines, "weir reset KEY "+policy+" ends the ban.")
	}
	lines = append(lines, r.origin(s, entries)...)
	lines = append(lines, r.agreement(ctx, policy, len(entries) > 0)...)
	if names := s.otherPlans(); len(names) > 0 {
		lines = append(lines, fmt.Sprintf("The limits are those without a plan; the policy has %s: see -plan.", list(names)))
		var admitted []string
		if d.Allowed {
			names = nil
		}
		for _, name := range names[:min(len(names), maxPlans)] {
			if of, err := l.Plan(name).Peek(ctx, key); err == nil && of.Allowed {
				admitted = append(admitted, name)
			}
		}
		if len(admitted) > 0 {
			lines = append(lines, "A caller with the plan "+strings.Join(admitted, " or ")+" is admitted.")
		}
	}
	for _, line := range lines {
		fmt.Fprintln(r.stdout, line)
	}
	return known, s.table(r.stdout, "RULE ALGORITHM LIMIT SOURCE USED LEFT NEXT MODE", d)
}

// sentence says whether the next event of l is admitted, and otherwise when it is. d is the decision with the limits that
// are off.
func (r *remote) sentence(ctx context.Context, s *subject, l *core.Limiter, key string, d core.Decision) (string, error) {
	var off []string
	r.following = true
	for _, rule := range l.Rules() {
		if r.isOff(rule.Name()) {
			off = append(off, rule.Name())
		}
	}
	inForce, err := d, error(nil)
	if off != nil {
		inForce, err = l.Peek(ctx, key)
	}
	r.following = false
	if err != nil || off == nil {
		return s.sentence(d), err
	}
	sentence := s.sentence(inForce)
	for _, of := range r.switches.Off {
		if !slices.ContainsFunc(off, of.Has) {
			continue
		}
		if sentence == "Admitted." {
			sentence = "Admitted: " + offText(of) + "."
		} else {
			sentence += " " + asSentence(offText(of))
		}
		break
	}
	sentence += " The table has the states that count again when they are on."
	if all, err := r.withPolicies(ctx, []string{s.name}); err == nil && len(all) > 0 {
		text, _, _ := inForceIn(all, func(p *rules.Process) reason { return switchReason(p, r.switches.Change) })
		sentence += "\n" + asSentence("off is "+text)
	}
	return sentence, nil
}

// sentence says whether the next event is admitted, and otherwise when it is.
func (s *subject) sentence(d core.Decision) string {
	var denied []string
	isPaused, running, alone := false, false, true
	for _, state := range d.States() {
		if !state.Allowed && !state.Rule.IsShadow() {
			denied = append(denied, s.ruleOf(state))
			isPaused = isPaused || paused(d, state)
			running, alone = running || state.Estimate, alone && state.Estimate
		}
	}
	by := " by " + strings.Join(denied, ", ")
	bans, left := s.bans(d)
	again := " until " + time.Now().Add(d.RetryAfter).UTC().Format(time.RFC3339) + ": admitted again " + d.Retry() + "."
	switch {
	case s.off():
		return "Admitted."
	case d.Blocked() && d.RetryAfter == core.Never:
		return "Blocked: every event is denied."
	case d.Blocked():
		return "Blocked" + again
	case left > 0:
		return fmt.Sprintf("Banned by %s until %s: admitted again %s.", bans, time.Now().Add(left).UTC().Format(time.RFC3339), d.Retry())
	case isPaused:
		return "Paused" + by + again
	case !d.Allowed && d.RetryAfter == core.Never:
		return "Denied" + by + ": the limit is smaller than one event."
	case running && alone:
		return "Denied" + by + ": admitted again when a running event ends."
	case !d.Allowed:
		return "Denied" + by + ": admitted again " + d.Retry() + "."
	case d.Delay > 0:
		return "Admitted, after a delay of " + strings.TrimPrefix(wait(d.Delay), "in ") + "."
	case d.Soft():
		return "Admitted, beyond the limit itself."
	}
	return "Admitted."
}

// maxPlans is the number of plans that are tried for a key.
const maxPlans = 16

// otherPlans returns the plans that the limits of the key can depend on, if its plan is not known.
func (s *subject) otherPlans() (names []string) {
	if s.plan != "" || s.override.Plan != "" || s.override.Blocked {
		return nil
	}
	for _, r := range s.policy.Rules {
		if _, isOwn := s.override.Limits[r.Name]; !isOwn {
			names = append(names, plansOf(r)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// origin tells where the block and the override of the key are from.
func (r *remote) origin(s *subject, entries []rules.Entry) (lines []string) {
	for _, e := range entries {
		text := entryName(e) + " is in Redis"
		if !e.At.IsZero() {
			text += ", written at " + e.At.UTC().Format(time.RFC3339)
		}
		if e.Note != "" {
			text += fmt.Sprintf(", with the note %q", e.Note)
		}
		lines = append(lines, asSentence(text))
	}
	if len(entries) == 0 && textOf(s.override) != none {
		from := r.name()
		if textOf(s.policy.Keys[s.key]) != textOf(s.override) {
			from = "Redis, and the list of overrides does not have it"
		}
		lines = append(lines, "The override "+textOf(s.override)+" is in "+from+".")
	}
	return lines
}
