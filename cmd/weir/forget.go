package main

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules"
)

// forget removes the states, the override, the block and their texts of a key in all policies and limits in code, and its
// hash from the keys with the most denials.
func (r *remote) forget(ctx context.Context, args []string) error {
	if err := r.configure(ctx); err != nil {
		return err
	}
	key := r.resolve(args[0])
	if key == "" {
		return core.ErrEmptyKey
	}
	policies := policiesOf(r.config, every)
	ctx, cancel := longer(ctx, len(policies))
	defer cancel()
	if err := r.start(r.config.Policies); err != nil {
		return err
	}
	known, err := r.knows(ctx, r.hints, key, policies)
	if err != nil {
		return err
	}
	for _, policy := range policies {
		if err := r.forgetIn(ctx, policy, key); err != nil {
			return fmt.Errorf("the policy %q: %w", policy, err)
		}
	}
	if err := r.source.Fleet().Forget(ctx, key); err != nil {
		return err
	}
	if !known {
		r.hintUnknown(ctx, key, policies)
	}
	fmt.Fprintf(r.stdout, "Nothing of the key is left in the states, overrides and blocks of %s.\n", list(policies))
	r.note("its hash may stay in the last 10 000 changes of overrides, and in logs; in memory, processes forget it within an hour. weir top has it again if the key was denied in the last two minutes: repeat the command after these. States of limits that no process has had for a day end by themselves")
	return nil
}

// forgetIn is forget for one policy, or for a rule in code.
func (r *remote) forgetIn(ctx context.Context, policy, key string) error {
	l, err := r.limiter(policy, "")
	if err != nil {
		return err
	}
	var entries []rules.Entry
	if _, ok := r.code[policy]; !ok {
		if entries, err = r.set.EntriesOf(ctx, policy, key); err != nil {
			return err
		}
	}
	found := false
	reset := func() error { // the states of the limits that the key has now
		some, err := l.Reset(ctx, key)
		found = found || some
		return err
	}
	if len(entries) > 0 { // a block hides the limits of the override
		err = r.set.Unblock(ctx, policy, key)
		if err == nil {
			err = reset()
		}
		if err == nil {
			err = r.set.Remove(ctx, policy, key)
		}
	}
	if err == nil {
		err = reset()
	}
	if err != nil {
		return err
	}
	if found {
		fmt.Fprintf(r.stdout, "%s: the events are forgotten.\n", r.title(policy))
	}
	for _, e := range entries {
		fmt.Fprintf(r.stdout, "%s: %s is removed.\n", r.title(policy), entryName(e))
	}
	return nil
}

// entryName names an entry for a sentence.
func entryName(e rules.Entry) string {
	switch text := textOf(e.Override); {
	case e.Override.Blocked:
		return "the block"
	case text == none:
		return "an invalid override"
	default:
		return "the override " + text
	}
}
