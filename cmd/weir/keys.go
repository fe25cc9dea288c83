package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/similar"
)

// ofKeys are the commands about a key, for limits in code and in files. Their first argument is a key.
var ofKeys = []string{"why", "usage", "reset", "block", "unblock", "forget", "near", "list", "key"}

// defineKeys returns the function for flagged that defines a command of ofKeys.
func defineKeys(name string) func(*flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
	return func(flags *flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
		r := &remote{flags: flags}
		r.defineFlags()
		return func(args []string, stdout, stderr io.Writer) error {
			r.stdout, r.stderr = stdout, stderr
			return map[string]func(args []string, stdout, stderr io.Writer) error{
				"why":     r.run("config plan", r.in(r.why)),
				"usage":   r.run("config rule plan", r.in(r.ofStates(nil))),
				"reset":   r.write("config rule", r.in(r.ofStates(reset))),
				"block":   r.write("config note text wait", r.blockIn),
				"unblock": r.write("config wait", r.in(r.ofKey(unblock))),
				"forget":  r.write("config", r.forget),
				"near":    r.run("config rule plan n", r.near),
				"list":    r.run("config n", r.list),
				"key":     r.run("", r.hashes),
			}[name](args, stdout, stderr)
		}
	}
}

// in returns a command with the arguments KEY [IN] for one with IN KEY.
func (r *remote) in(f func(ctx context.Context, args []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		where := every
		if len(args) > 1 {
			where = args[1]
		}
		r.brief = true
		return f(ctx, []string{where, args[0]})
	}
}

// blockIn is the command block with the arguments KEY [IN] [UNTIL].
func (r *remote) blockIn(ctx context.Context, args []string) error {
	where, rest := every, args[1:]
	r.brief = true
	if len(rest) == 1 {
		if err := r.configure(ctx); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		_, isPolicy := r.policyOf(rest[0])
		if _, err := parseUntil(strings.TrimSpace(rest[0]), time.Unix(0, 0)); err != nil || len(rest) == 2 || isPolicy {
			where, rest = rest[0], rest[1:]
		}
	}
	return r.ofKey(block)(ctx, append([]string{where, args[0]}, rest...))
}

// policyOf returns the policy of a name, if the configuration is read.
func (r *remote) policyOf(name string) (p rules.Policy, ok bool) {
	if r.config != nil {
		p, ok = r.config.Policies[name]
	}
	return p, ok
}

// literalTag returns the hash of a key, also of one that begins with #.
func (r *remote) literalTag(key string) string {
	return r.redisSource().Fleet().Tag(key)
}

// resolve returns the key that the configuration has for a key that is a hash, or key. Before a change, it notes that key is
// taken as a hash, because a client can have chosen it as a text.
func (r *remote) resolve(key string) string {
	if !strings.HasPrefix(key, "#") || r.source.Fleet().Tag(key) == r.literalTag(key) {
		return key
	}
	if r.writes {
		r.note("%q is taken as the hash of a key; '#%s' stands for a key with this text", key, r.literalTag(key))
	}
	for _, p := range r.config.Policies {
		for text := range p.Keys {
			if "#"+r.source.Fleet().Tag(text) == key {
				r.note("the configuration has the key %q", text)
				return text
			}
		}
		if p.Enforce < 100 {
			r.note("whether the key is among those for which a policy is enforced in part is not known from its hash")
		}
	}
	return key
}

// hashes prints the hashes of a key: in the names of keys in Redis and in lists, and in logs.
func (r *remote) hashes(_ context.Context, args []string) error {
	if args[0] == "" {
		return errors.New("the key is empty")
	}
	fmt.Fprintf(r.stdout, "#%s\n", r.literalTag(args[0]))
	if r.secret == nil {
		r.note("this is the hash in Redis. Without a key secret, each process has other hashes in its log: the page of that process finds them")
	} else {
		r.note("this is the hash in Redis and in the logs of processes with this secret")
	}
	return nil
}

// printVersion prints the version of the command.
func printVersion(_ []string, stdout, _ io.Writer) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += " " + s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	_, err := fmt.Fprintf(stdout, "weir %s\n", version)
	return err
}

// unknownCommand names a command that does not exist, and the nearest one.
func unknownCommand(stderr io.Writer, all []command, prefix, name string) {
	var names []string
	for _, c := range all {
		if n := strings.TrimPrefix(c.name, prefix); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	fmt.Fprintf(stderr, "weir: there is no command %q%s\n", prefix+name, similar.Nearest(name, names, ""))
}
