package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules"
)

// timeout is the time for all commands of Redis about one policy, and for opening a file. Tests shorten it.
var timeout = 10 * time.Second

// commands returns the subcommands of weir rules.
func (r *remote) commands() []command {
	return []command{
		{"rules why", "POLICY|ROUTE KEY", "tell why a key is denied or admitted", 2, 2, r.run("config plan", r.why)},
		{"rules usage", "POLICY KEY", "print how much of its limits a key has used", 2, 2, r.run("config rule plan", r.ofStates(nil))},
		{"rules reset", "POLICY KEY", "forget the events of a key", 2, 2, r.write("config rule", r.ofStates(reset))},
		{"rules credit", "POLICY KEY N", "free N events of a key", 3, 3, r.write("config rule plan", r.ofStates(credit))},
		{"rules list", "", "list the overrides and blocks, newest first", 0, 0, r.run("config n", r.list)},
		{"rules get", "POLICY KEY", "print the override of a key", 2, 2, r.run("config", r.ofKey(nil))},
		{"rules override", "POLICY KEY OVERRIDE", "give a key other limits", 3, 3, r.write("config note text wait", r.ofKey(override))},
		{"rules block", "POLICY KEY [UNTIL]", "deny the events of a key, also until a time or for 24h or 7d", 2, 3, r.write("config note text wait", r.ofKey(block))},
		{"rules unblock", "POLICY KEY", "end the block of a key", 2, 2, r.write("config wait", r.ofKey(unblock))},
		{"rules remove", "POLICY KEY", "remove the override and the block of a key", 2, 2, r.write("config wait", r.ofKey(remove))},
		{"rules get", "", "print the configuration in Redis", 0, 0, r.run("", r.getConfig)},
		{"rules put", "FILE", "list the changes that a file makes, and write it", 1, 1, r.write("remove if-version", r.putConfig)},
	}
}

// runRules runs weir rules with args, and returns the exit status.
func runRules(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("weir", flag.ContinueOnError)
	r := &remote{stdout: stdout, stderr: stderr, flags: flags}
	r.defineFlags()
	return dispatch(flags, r.commands(), "rules ", args, stdout, stderr)
}

// defineFlags defines the flags of all commands about limits in Redis: each accepts some of them.
func (r *remote) defineFlags() {
	flags := r.flags
	r.define(flags)
	flags.StringVar(&r.file, "config", "", "a `FILE` with the policies, instead of the configuration in Redis")
	flags.StringVar(&r.rule, "rule", "", "of usage, near, reset and credit: only the rule with this `NAME`")
	flags.StringVar(&r.plan, "plan", "", "of why, usage, near and credit: the plan of the key has this `NAME`")
	flags.StringVar(&r.about, "note", "", "of override and block: a `TEXT` for list and why, such as the reason; the user and the machine follow")
	flags.BoolVar(&r.text, "text", false, "of override and block: write the key as text, for list, and not its hash alone")
	r.defineWait("of override, block, unblock and remove: ")
	flags.BoolVar(&r.removes, "remove", false, "of put: remove the policies that the file does not have")
	flags.Func("if-version", "of put: write only if the configuration in Redis has this `VERSION`, none if there is no configuration", func(v string) error {
		if r.version = v; v == "" {
			return errors.New("the version is empty; without a configuration it is " + noVersion)
		}
		return nil
	})
	flags.IntVar(&r.most, "n", 100, "of list and near: at most this `NUMBER` of entries")
}

// defineWait defines the flag -wait.
func (r *remote) defineWait(of string) {
	r.wait = waitTime
	r.flags.Func("wait", of+"wait for at most this `DURATION` (default 15s) until it is in force in all processes, and fail otherwise; 0 does neither", func(text string) (err error) {
		if r.wait, err = time.ParseDuration(text); err == nil && r.wait < 0 {
			err = errors.New("it is negative")
		}
		return err
	})
}

// run returns a command that runs f. It accepts the flags that have names in accepted, and those about Redis.
func (r *remote) run(accepted string, f func(ctx context.Context, args []string) error) func(args []string, _, _ io.Writer) error {
	return func(args []string, _, _ io.Writer) error {
		known, unknown := strings.Fields("redis cluster app prefix "+accepted), ""
		r.flags.Visit(func(f *flag.Flag) {
			if !slices.Contains(known, f.Name) {
				unknown = f.Name
			}
		})
		if unknown != "" {
			fmt.Fprintf(r.stderr, "weir: the command does not use the flag -%s\n", unknown)
			return errUsage
		}
		return r.connect(func(ctx context.Context) error { return f(ctx, args) })
	}
}

// write is run for a command that changes something.
func (r *remote) write(accepted string, f func(ctx context.Context, args []string) error) func(args []string, _, _ io.Writer) error {
	run := r.run(accepted, f)
	return func(args []string, stdout, stderr io.Writer) error {
		r.writes = true
		return run(args, stdout, stderr)
	}
}

// connect runs f with a client of Redis, for at most the timeout.
func (r *remote) connect(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r.now = time.Now()
	err := r.open(ctx)
	if r.rdb != nil {
		defer r.rdb.Close()
	}
	if err == nil {
		err = f(ctx)
	}
	if _, moved := redis.IsMovedError(err); moved {
		return fmt.Errorf("%w; a Redis Cluster needs the flag -cluster", err)
	}
	return err
}

// longer returns a context without the deadline of ctx, and with a fiftieth more of the timeout for each of n policies.
func longer(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeout+time.Duration(n)*timeout/50)
}

// getConfig prints the configuration in Redis.
func (r *remote) getConfig(ctx context.Context, _ []string) error {
	text, err := r.source.Load(ctx)
	if errors.Is(err, rules.ErrNoConfig) {
		r.hintPrefix(ctx)
	}
	if err != nil {
		return fmt.Errorf("configuration of %v: %w", r.source, err)
	}
	r.note("version %s", r.source.Version())
	_, err = r.stdout.Write(text)
	return err
}

// noVersion is the version of a Redis without a configuration in arguments.
const noVersion = "none"

// putConfig prints the changes that a file makes in Redis, and writes it unless another operator has written meanwhile.
// On a terminal, it asks before.
func (r *remote) putConfig(ctx context.Context, args []string) error {
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
	case errors.As(err, &invalid) && !r.removes:
		report(r.stderr, err)
		return errors.New("the configuration in Redis is invalid for this command, which cannot show what is removed; nothing is written, and -remove replaces it")
	case errors.As(err, &invalid):
		fmt.Fprintln(r.stderr, "weir: the configuration in Redis was invalid; it is replaced")
	case err != nil && !errors.Is(err, rules.ErrNoConfig):
		return err
	}
	version := r.source.Version()
	if present := cmp.Or(version, noVersion); r.version != "" && r.version != present {
		return fmt.Errorf("%w: %s, not %s; nothing is written", rules.ErrVersion, present, r.version)
	}
	warn(r.stderr, args[0], text)
	for _, line := range rules.Diff(old, config) {
		fmt.Fprintln(r.stdout, line)
	}
	if removed := removedPolicies(old, config); len(removed) > 0 && !r.removes {
		return fmt.Errorf("the file does not have the policies %s of the application %q, which -remove removes; nothing is written", quotedAll(removed), r.app)
	}
	if terminal() && !confirmed(r.stderr, fmt.Sprintf("write this for the application %q?", r.app)) {
		return errors.New("nothing is written")
	}
	ctx, cancel := longer(ctx, 0) // an answer may take long
	defer cancel()
	err = r.source.Put(ctx, text, rules.IfVersion(version))
	switch {
	case err == nil:
		r.note("version %s", r.source.Version())
	case errors.Is(err, rules.ErrVersion):
		err = fmt.Errorf("%w; nothing is written", err)
	default:
		err = fmt.Errorf("%w; weir rules get shows whether it was written", err)
	}
	return err
}

// removedPolicies returns the names of the policies of old, which may be nil, that config does not have.
func removedPolicies(old, config *rules.Config) (names []string) {
	if old == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(old.Policies)) {
		if _, ok := config.Policies[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// The terminal of a command that asks. Tests replace both.
var (
	stdin    io.Reader = os.Stdin
	terminal           = func() bool { return isTerminal(os.Stdin) && isTerminal(os.Stdout) }
)

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	null, _ := os.Stat(os.DevNull)
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && !os.SameFile(info, null)
}

// confirmed asks a question, and reports whether the answer is y or yes.
func confirmed(stderr io.Writer, question string) bool {
	fmt.Fprintf(stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(stdin).ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// ofKey returns a command that changes the override of a key, unless change is nil, and prints the
// override that is then in force, in a policy or in all of them. args of change follow the policy and the key.
func (r *remote) ofKey(change func(ctx context.Context, r *remote, policy, key string, args []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		name, key := args[0], args[1]
		if err := r.load(ctx); err != nil {
			return err
		}
		key = r.resolve(key)
		policies, err := r.selected(name)
		if key == "" {
			err = core.ErrEmptyKey
		}
		if err != nil {
			return err
		}
		var code []string
		if name == every { // those that have overrides
			policies = slices.DeleteFunc(policies, func(policy string) bool {
				_, ok := r.code[policy]
				if ok {
					code = append(code, policy)
				}
				return ok
			})
		}
		for _, policy := range policies {
			if _, err := r.subject(policy, key); err != nil {
				return err
			}
			if _, ok := r.code[policy]; ok && change == nil {
				return fmt.Errorf("the rule %q is in code, and %w", policy, errInCode)
			}
		}
		if len(policies) == 0 {
			return fmt.Errorf("nothing is written: %s are in code, and %w", quotedAll(code), errInCode)
		}
		if len(code) > 0 && change != nil {
			r.note("not in %s, which are rules in code", list(code))
		}
		ctx, cancel := longer(ctx, len(policies))
		defer cancel()
		if r.brief {
			if err := r.mistaken(ctx, key); err != nil {
				return err
			}
		}
		hint := r.hint(ctx, key, slices.Concat(policies, code)...)
		var result error
		for _, policy := range policies {
			text, failed, err := r.changed(ctx, change, policy, key, args[2:])
			switch {
			case name != every && err == nil:
				fmt.Fprintln(r.stdout, text)
			case name != every:
				hint()
				return err
			case err == nil:
				fmt.Fprintf(r.stdout, "%s: %s\n", policy, text)
			default:
				report(r.stderr, fmt.Errorf("the policy %q%s: %s", policy, failed, strings.TrimPrefix(err.Error(), "weir: ")))
				result = errReported
			}
		}
		hint()
		policies = slices.DeleteFunc(policies, func(policy string) bool { _, ok := r.code[policy]; return ok })
		if result == nil && change != nil && len(policies) > 0 {
			result = r.await(ctx, policies)
		}
		return result
	}
}

// changed calls change, unless it is nil, and returns the text of the override that is then in force. If change has
// changed nothing, failed says so.
func (r *remote) changed(ctx context.Context, change func(ctx context.Context, r *remote, policy, key string, args []string) error, policy, key string, args []string) (text, failed string, err error) {
	if change != nil {
		err = change(ctx, r, policy, key, args)
	}
	if _, ok := r.code[policy]; ok && err == nil {
		return r.pauseOf(ctx, policy, key)
	}
	switch {
	case errors.Is(err, errDenied):
		return "", "", err
	case err != nil:
		return "", " is not changed", err
	}
	o, err := r.overrideOf(ctx, policy, key)
	return textOf(o), "", err
}

// none is the text of no override.
const none = "{}"

// textOf returns the text of an override.
func textOf(o rules.Override) string {
	if !o.Blocked && o.Plan == "" && len(o.Limits) == 0 {
		return none
	}
	text, err := o.Format()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// information returns the options for an entry.
func (r *remote) information() []rules.WriteOption {
	note := r.about
	if by := operator(); by != "" && len(note)+len(", by ")+len(by) <= 200 {
		note = strings.TrimPrefix(note+", by "+by, ", ")
	}
	opts := []rules.WriteOption{rules.Note(note)}
	if r.text {
		opts = append(opts, rules.KeyText())
	}
	return opts
}

// list prints the latest overrides and blocks.
func (r *remote) list(ctx context.Context, _ []string) error {
	if r.most < 1 {
		return fmt.Errorf("-n is not 1 or more: %d", r.most)
	}
	n := min(r.most, math.MaxInt-1) + 1
	all, err := r.source.List(context.WithoutCancel(ctx), n) // each of its commands has a timeout
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(r.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WRITTEN\tPOLICY\tKEY\tOVERRIDE\tNOTE")
	for _, e := range all[:min(len(all), r.most)] {
		at, key := "-", "#"+e.Tag
		if !e.At.IsZero() {
			at = e.At.UTC().Format(time.RFC3339)
		}
		if e.Key != "" {
			key = e.Key
		}
		text := textOf(e.Override)
		if text == none {
			text = "invalid"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", at, escaped(e.Policy), escaped(key), text, escaped(e.Note))
	}
	if len(all) > r.most {
		r.note("there are more; -n sets the number")
	}
	if len(all) == 0 {
		r.hintPrefix(ctx)
	}
	r.hintSecret(ctx)
	return w.Flush()
}

func override(ctx context.Context, r *remote, policy, key string, args []string) error {
	r.limits = true
	o, err := rules.ParseOverride("OVERRIDE", []byte(args[0]))
	if err != nil {
		return err
	}
	if _, ok := r.code[policy]; ok {
		return fmt.Errorf("the rule %q is in code, and %w", policy, errInCode)
	}
	return r.set.Override(ctx, policy, key, o, r.information()...)
}

func block(ctx context.Context, r *remote, policy, key string, args []string) error {
	var until time.Time
	if len(args) > 0 {
		var err error
		if until, err = parseUntil(strings.TrimSpace(args[0]), r.now); err != nil {
			return err
		}
	}
	if _, ok := r.code[policy]; ok {
		if r.about != "" || r.text {
			return errors.New("a pause has no note and no text: the flags -note and -text are for blocks")
		}
		if until.IsZero() {
			until = r.now.Add(longestPause - time.Minute)
		}
		return r.pauseInCode(ctx, policy, key, until)
	}
	return r.set.Block(ctx, policy, key, until, r.information()...)
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

func unblock(ctx context.Context, r *remote, policy, key string, _ []string) error {
	r.ends = true
	if _, ok := r.code[policy]; ok {
		return r.pauseInCode(ctx, policy, key, time.Time{})
	}
	if err := r.set.Unblock(ctx, policy, key); err != nil {
		return err
	}
	if o, err := r.set.OverrideOf(ctx, policy, key); err == nil && o.Blocked {
		return errDenied
	}
	if l, err := r.limiter(policy, ""); err == nil {
		s := &subject{name: policy}
		if d, err := l.Peek(ctx, key); err == nil {
			if bans, left := s.bans(d); left > 0 {
				r.note("the key is banned by %s, which is no block of an operator: weir reset KEY %s ends it", bans, policy)
			}
		}
	}
	return nil // the caller reads the override again
}

// errDenied is an error after a change.
var errDenied = errors.New("the block has ended, but an override of the key denies its events, too")

func remove(ctx context.Context, r *remote, policy, key string, args []string) error {
	r.ends = true
	if _, ok := r.code[policy]; ok {
		return unblock(ctx, r, policy, key, args)
	}
	return r.set.Remove(ctx, policy, key)
}
