package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

const inForcePolicies = "policies: {api: {rules: [{name: minute, algorithm: token_bucket, limit: 100/m}]}}"

// watching starts a process with the policies of a file; without overrides it does not follow those in Redis.
func watching(t *testing.T, addr, file string, opts []resilient.Option, source ...rules.RedisOption) *rules.Set {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	store := resilient.New(rdb, "test", opts...)
	t.Cleanup(func() { store.Close(); rdb.Close() })
	config, err := rules.Load(t.Context(), rules.File(file))
	testkit.Must(t, err)
	if source == nil {
		set, err := rules.New(store, config)
		testkit.Must(t, err)
		return set
	}
	overrides := rules.Redis(rdb, "test", source...)
	set, err := rules.New(store, config, rules.Overrides(overrides))
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = set.Watch(ctx, rules.File(file)) }()
	t.Cleanup(func() { stop(); <-done })
	return set
}

// A command that writes ends when all processes have applied it, and fails if one does not.
func TestRules_InForce(t *testing.T) {
	file := t.TempDir() + "/limits.yaml"
	testkit.Must(t, os.WriteFile(file, []byte(inForcePolicies), 0o600))
	other := t.TempDir() + "/other.yaml"
	testkit.Must(t, os.WriteFile(other, []byte(strings.Replace(inForcePolicies, "100", "7", 1)), 0o600))
	off, elsewhere := t.TempDir()+"/off.yaml", t.TempDir()+"/elsewhere.yaml"
	testkit.Must(t, os.WriteFile(off, []byte(strings.Replace(inForcePolicies, "{api: {", "{api: {disabled: true, ", 1)), 0o600))
	testkit.Must(t, os.WriteFile(elsewhere, []byte(strings.Replace(inForcePolicies, "api", "jobs", 1)), 0o600))
	follows := []rules.RedisOption{rules.Timeout(time.Second)}
	for name, c := range map[string]struct {
		start  func(t *testing.T, addr string)
		known  int // processes
		args   string
		status int
		want   string
	}{
		"no process": {func(*testing.T, string) {}, 0, "block api ann -wait 5s", 1, `it is written, and no process of the application "test" is known that has "api"`},
		"two": {func(t *testing.T, addr string) {
			watching(t, addr, file, nil, follows...)
			watching(t, addr, file, nil, follows...)
		}, 2, "block api ann -wait 30s", 0, "in force in 2 of 2 processes\n"},
		"all policies": {func(t *testing.T, addr string) { watching(t, addr, file, nil, follows...) }, 1, "block * ann -wait 30s", 0, "in force in 1 of 1 processes\n"},
		"an override":  {func(t *testing.T, addr string) { watching(t, addr, file, nil, follows...) }, 1, "override api ann " + `{"limits":{"minute":"7/m"}}` + " -wait 30s", 0, "in force in 1 of 1 processes\n"},
		"an unblock, and one that does not follow": {func(t *testing.T, addr string) {
			watching(t, addr, file, nil, follows...)
			watching(t, addr, file, nil)
		}, 2, "unblock api ann -wait 30s", 0, "in force in 1 of 1 processes\n"},
		"an unblock": {func(t *testing.T, addr string) { watching(t, addr, file, nil, follows...) }, 1, "unblock api ann -wait 30s", 0, "in force in 1 of 1 processes\n"},
		"without overrides": {func(t *testing.T, addr string) {
			watching(t, addr, file, nil)
			watching(t, addr, file, nil, follows...)
		}, 2, "block api ann -wait 30s", 1, "in force in 1 of 2 processes: process "},
		"the prefix of the overrides": {func(t *testing.T, addr string) {
			watching(t, addr, file, []resilient.Option{resilient.Prefix("shop:")}, follows...)
		}, 1, "-prefix shop: block api ann -wait 1s", 1, "does not watch overrides (rules.Overrides and Set.Watch), or those of another Redis or prefix"},
		"another secret": {func(t *testing.T, addr string) {
			watching(t, addr, file, nil, rules.KeySecret([]byte("a secret of 16 bytes or more")))
		}, 1, "block api ann -wait 1s", 1, "has another key secret"},
		"a disabled policy": {func(t *testing.T, addr string) { watching(t, addr, off, nil, follows...) }, 1, "block api ann -wait 1s", 1, `has disabled the policy "api"`},
		"another Set of the process": {func(t *testing.T, addr string) {
			rdb := redis.NewClient(&redis.Options{Addr: addr})
			store := resilient.New(rdb, "test")
			t.Cleanup(func() { store.Close(); rdb.Close() })
			for path, opts := range map[string][]rules.Option{file: nil, elsewhere: {rules.Overrides(rules.Redis(rdb, "test"))}} {
				config, err := rules.Load(t.Context(), rules.File(path))
				testkit.Must(t, err)
				set, err := rules.New(store, config, opts...)
				testkit.Must(t, err)
				if opts != nil {
					ctx, stop := context.WithCancel(context.Background())
					done := make(chan struct{})
					go func() { defer close(done); _ = set.Watch(ctx, rules.File(path)) }()
					t.Cleanup(func() { stop(); <-done })
				}
			}
		}, 1, "block api ann -wait 1s", 1, "does not watch overrides"},
		"another configuration": {func(t *testing.T, addr string) { watching(t, addr, other, nil, follows...) }, 1, "override api ann " + `{"limits":{"minute":"7/m"}}` + " -wait 30s", 1, "it is written, and may not be in force: 1 of 1 processes have another configuration"},
		"two configurations": {func(t *testing.T, addr string) {
			watching(t, addr, other, nil, follows...)
			watching(t, addr, file, nil, follows...)
		}, 2, "-processes override api ann " + `{"limits":{"minute":"7/m"}}` + " -wait 30s", 1, "it is written, and may not be in force: 1 of 2 processes have another configuration than that of process "},
		"other policies": {func(t *testing.T, addr string) {
			rdb := redis.NewClient(&redis.Options{Addr: addr})
			store := resilient.New(rdb, "test")
			t.Cleanup(func() { store.Close(); rdb.Close() })
			testkit.Limiter(t, store, core.SlidingLog("login", core.PerHour(1)))
		}, 1, "block api ann -wait 1s", 1, "no process of the application"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.NewServer(t)
			c.start(t, server.Addr)
			opts := []rules.RedisOption{}
			if strings.HasPrefix(c.args, "-prefix shop:") {
				opts = append(opts, rules.Prefix("shop:"))
			}
			source, tick := rules.Redis(server.Client(), "test", opts...), time.NewTicker(10*time.Millisecond)
			defer tick.Stop()
			for begun := time.Now(); ; <-tick.C { // until the first heartbeats
				if all, err := source.Fleet().Processes(t.Context()); err == nil && len(all) == c.known {
					break
				} else if time.Since(begun) > time.Minute {
					t.Fatalf("after a minute: got %v, %v", all, err)
				}
			}
			var stdout, stderr strings.Builder
			args := []string{"rules", "-redis", "redis://" + server.Addr, "-config", file}
			rest, unknown := strings.CutPrefix(c.args, "-processes ")
			if unknown { // the configuration is that of the processes
				args = args[:3]
			}
			args = append(args, strings.Fields(rest)...)
			if status := run(args, &stdout, &stderr); status != c.status || !strings.Contains(stderr.String(), c.want) || status == 0 && !strings.HasSuffix(stderr.String(), c.want) {
				t.Errorf("got status %d, stdout %q and stderr %q, want %d and %q", status, &stdout, &stderr, c.status, c.want)
			}
			if name != "two" {
				return
			}
			hash := "#" + source.Fleet().Tag("ann") // as list prints it
			for _, step := range []string{"list", "why -config § api " + hash, "unblock -config § api " + hash + " -wait 30s", "why -config § api ann", "block -config § api " + hash + " -text -wait 0"} {
				var out, errs strings.Builder
				status := run(append([]string{"rules", "-redis", "redis://" + server.Addr}, strings.Fields(strings.ReplaceAll(step, "§", file))...), &out, &errs)
				command, _, _ := strings.Cut(step, " ")
				want := map[string]string{"list": hash, "why": "Blocked: every event is denied.", "unblock": "{}\n", "block": ""}[command]
				if strings.HasSuffix(step, " ann") {
					want = "Admitted"
				}
				if (command == "unblock" || command == "block") && !strings.Contains(errs.String(), "is taken as the hash of a key") {
					t.Errorf("%s: got stderr %q, want a note", step, &errs)
				}
				if status != 0 && command != "block" || !strings.Contains(out.String(), want) || command == "block" && !strings.Contains(errs.String(), "the key is a hash, whose text is not known") {
					t.Errorf("%s: got status %d, %q and %q", step, status, &out, &errs)
				}
			}
			if status := run(args, &stdout, &stderr); status != 0 {
				t.Fatalf("got status %d and %s", status, &stderr)
			}
			stdout.Reset()
			if status := run([]string{"why", "-redis", "redis://" + server.Addr, "ann"}, &stdout, &stderr); status != 0 ||
				!strings.Contains(stdout.String(), "Blocked: every event is denied.\nThe rules are those of the processes. Other properties in "+file+", such as the timezone of a quota and enforce, are unknown.") {
				t.Errorf("why without -config: got status %d, %s and %s", status, &stdout, &stderr)
			}
			stdout.Reset()
			if status := run([]string{"rules", "-redis", "redis://" + server.Addr, "-config", other, "why", "api", "ann"}, &stdout, &stderr); status != 0 ||
				!strings.Contains(stdout.String(), "\nIn force in 2 of 2 processes.\n2 of 2 processes have another configuration than ") {
				t.Errorf("why: got status %d and %s", status, &stdout)
			}
		})
	}
}

// The note of an override or a block ends with the name of the operator.
func TestRules_Operator(t *testing.T) {
	server := redistest.NewServer(t)
	file := t.TempDir() + "/limits.yaml"
	testkit.Must(t, os.WriteFile(file, []byte(inForcePolicies), 0o600))
	defer func(before func() string) { operator = before }(operator)
	operator = func() string { return "ann@ops1" }
	for _, args := range []string{"rules block -config § api bob", "rules block -config § -note ticket api eve", "rules list -config §"} {
		var stdout, stderr strings.Builder
		fields := strings.Fields(strings.ReplaceAll(args, "§", file))
		if status := run(append([]string{fields[0], "-redis", "redis://" + server.Addr}, fields[1:]...), &stdout, &stderr); status != 0 {
			t.Fatalf("%s: got status %d, %s", args, status, &stderr)
		}
		if got := stdout.String(); fields[1] == "list" && (strings.Count(got, "{blocked: true}  by ann@ops1\n") != 1 || strings.Count(got, "{blocked: true}  ticket, by ann@ops1\n") != 1) {
			t.Errorf("got %s", got)
		}
	}
}

// published waits until the heartbeats of the processes have published n rules.
func published(t *testing.T, fleet *rules.Fleet, n int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		if all, err := fleet.Published(t.Context()); err == nil && len(all) == n {
			return
		} else if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute: %v, %v", all, err)
		}
	}
}
