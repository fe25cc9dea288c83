package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/rules"
)

// timeout is the time for all commands of Redis, and for opening a file. Tests shorten it.
var timeout = 10 * time.Second

// commands returns the subcommands of weir rules.
func (r *remote) commands() []command {
	return []command{
		{"rules get", "", "print the configuration in Redis", 0, 0, r.run(getConfig)},
		{"rules get", "POLICY KEY", "print the override of a key", 2, 2, r.run(ofKey(nil))},
		{"rules explain", "POLICY KEY [PLAN]", "list the limits of a key, with its override", 2, 3, r.run(explainRemote)},
		{"rules usage", "POLICY KEY", "print how much of its limits a key has used", 2, 2, r.ofStates(nil)},
		{"rules reset", "POLICY KEY", "forget the events of a key", 2, 2, r.ofStates(reset)},
		{"rules credit", "POLICY KEY N", "free N events of a key", 3, 3, r.ofStates(credit)},
		{"rules put", "FILE", "write a configuration, and list the changes", 1, 1, r.run(putConfig)},
		{"rules override", "POLICY KEY OVERRIDE", "give a key other limits", 3, 3, r.run(ofKey(override))},
		{"rules block", "POLICY KEY [UNTIL]", "deny the events of a key, also until a time or for 24h or 7d", 2, 3, r.run(ofKey(block))},
		{"rules unblock", "POLICY KEY", "end the block of a key", 2, 2, r.run(ofKey(unblock))},
		{"rules remove", "POLICY KEY", "remove the override and the block of a key", 2, 2, r.run(ofKey(remove))},
	}
}

// runRules runs weir rules with args, and returns the exit status.
func runRules(args []string, stdout, stderr io.Writer) int {
	r := remote{stdout: stdout, stderr: stderr}
	flags := flag.NewFlagSet("weir", flag.ContinueOnError)
	r.define(flags)
	flags.StringVar(&r.file, "config", "", "a `FILE` with the policies, instead of the configuration in Redis")
	flags.StringVar(&r.rule, "rule", "", "of usage, reset and credit: only the rule with this `NAME`")
	flags.StringVar(&r.plan, "plan", "", "of usage and credit: the plan of the key has this `NAME`")
	return dispatch(flags, r.commands(), "rules ", args, stdout, stderr)
}

// run returns a command that runs f.
func (r *remote) run(f func(ctx context.Context, r *remote, args []string) error) func(args []string, _, _ io.Writer) error {
	return func(args []string, _, _ io.Writer) error {
		if r.file != "" && len(args) < 2 || r.rule != "" || r.plan != "" { // a command that needs no policies, or no states
			return errUsage
		}
		return r.connect(func(ctx context.Context) error { return f(ctx, r, args) })
	}
}

// connect runs f with a client of Redis, for at most the timeout.
func (r *remote) connect(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := r.open(); err != nil {
		return err
	}
	defer r.rdb.Close()
	err := f(ctx)
	if _, moved := redis.IsMovedError(err); moved {
		return fmt.Errorf("%w; a Redis Cluster needs the flag -cluster", err)
	}
	return err
}

// getConfig prints the configuration in Redis.
func getConfig(ctx context.Context, r *remote, _ []string) error {
	text, err := r.source.Load(ctx)
	if err != nil {
		return fmt.Errorf("configuration of %v: %w", r.source, err)
	}
	_, err = r.stdout.Write(text)
	return err
}

// putConfig writes a file into Redis, and prints the changes.
func putConfig(ctx context.Context, r *remote, args []string) error {
	text, err := read(args[0])
	if err != nil {
		return err
	}
	config, err := rules.Parse(args[0], text)
	if err != nil {
		return err
	}
	old, err := rules.Load(ctx, r.source)
	var invalid rules.Errors
	switch {
	case errors.As(err, &invalid):
		fmt.Fprintln(r.stderr, "weir: the configuration in Redis was invalid; it is replaced")
	case err != nil && !errors.Is(err, rules.ErrNoConfig):
		return err
	}
	if err := r.source.Put(ctx, text); err != nil {
		return err
	}
	for _, line := range rules.Diff(old, config) {
		fmt.Fprintln(r.stdout, line)
	}
	return nil
}

// ofKey returns a command that changes the override of a key, unless change is nil, and prints the
// override that is then in force. args of change follow the policy and the key.
func ofKey(change func(ctx context.Context, set *rules.Set, policy, key string, args []string) error) func(context.Context, *remote, []string) error {
	return func(ctx context.Context, r *remote, args []string) error {
		policy, key := args[0], args[1]
		set, _, err := r.load(ctx)
		if err == nil && change != nil {
			err = change(ctx, set, policy, key, args[2:])
		}
		if err != nil {
			return err
		}
		o, err := r.overrideOf(ctx, set, policy, key)
		if err != nil {
			return err
		}
		text := []byte("{}")
		if o.Blocked || o.Plan != "" || len(o.Limits) > 0 {
			if text, err = o.Format(); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(r.stdout, "%s\n", text)
		return err
	}
}

func explainRemote(ctx context.Context, r *remote, args []string) error {
	set, config, err := r.load(ctx)
	if err != nil {
		return err
	}
	args = append([]string{r.name()}, args...)
	return explainIn(config, args, func(policy, key string) (rules.Override, error) {
		return r.overrideOf(ctx, set, policy, key)
	}, r.stdout)
}

func override(ctx context.Context, set *rules.Set, policy, key string, args []string) error {
	o, err := rules.ParseOverride("OVERRIDE", []byte(args[0]))
	if err != nil {
		return err
	}
	return set.Override(ctx, policy, key, o)
}

func block(ctx context.Context, set *rules.Set, policy, key string, args []string) error {
	var until time.Time
	if len(args) > 0 {
		var err error
		if until, err = parseUntil(strings.TrimSpace(args[0]), time.Now()); err != nil {
			return err
		}
	}
	return set.Block(ctx, policy, key, until)
}

// parseUntil reads a time after now, or a duration.
func parseUntil(s string, now time.Time) (time.Time, error) {
	until, err := time.Parse(time.RFC3339, s)
	if err != nil {
		d, err := parseDuration(s)
		if err != nil {
			return time.Time{}, fmt.Errorf("UNTIL is neither a time such as 2027-01-01T00:00:00Z nor a duration such as 24h or 7d: %q", s)
		}
		until = now.Add(d)
	}
	if !until.After(now) {
		return time.Time{}, fmt.Errorf("UNTIL is past: %q", s)
	}
	return until, nil
}

// parseDuration reads a duration, also in days.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(s)
}

func unblock(ctx context.Context, set *rules.Set, policy, key string, _ []string) error {
	if err := set.Unblock(ctx, policy, key); err != nil {
		return err
	}
	if o, err := set.OverrideOf(ctx, policy, key); err != nil || !o.Blocked {
		return err
	}
	return errors.New("the block has ended, but an override of the key denies its events, too")
}

func remove(ctx context.Context, set *rules.Set, policy, key string, _ []string) error {
	return set.Remove(ctx, policy, key)
}
