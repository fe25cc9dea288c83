package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// The commands know limits in code, which a program has published.
func TestCode(t *testing.T) {
	server := redistest.NewServer(t)
	store := resilient.New(server.Client(), "test")
	t.Cleanup(func() { store.Close() })
	login := testkit.Limiter(t, store, core.SlidingLog("login", core.PerHour(5)).Plan("pro", core.PerMinute(50)))
	testkit.Limiter(t, store, core.Pause("stop"), core.TokenBucket("elastic", core.PerHour(10)).Elastic(func() float64 { return 1 }, 2),
		core.Quota("month", core.Monthly(100)))
	testkit.Admit(t, login, "user:ann", 5)
	testkit.Admit(t, login.Plan("pro"), "user:ann", 2)
	source := rules.Redis(server.Client(), "test")
	published(t, source.Fleet(), 4)
	times := regexp.MustCompile(`[0-9]+m[0-9.]+s|in 1h\b|in ([0-9.]+s)|20[0-9T:-]+Z`)
	for _, step := range []struct {
		args   string
		status int
		stdout string // with … for times
		stderr string // a part
	}{
		{"why user:ann", 0, "The rule \"login\" in code:\nDenied by login: admitted again ….\nThe limits are those without a plan; the policy has pro: see -plan.\nA caller with the plan pro is admitted.\n" +
			"RULE   ALGORITHM    LIMIT  SOURCE  USED  LEFT  NEXT  MODE\nlogin  sliding_log  5/h    base    5     0     in …  enforce\n", ""},
		{"why user:ann login -plan pro", 0, "Admitted.\nRULE   ALGORITHM    LIMIT  SOURCE      USED  LEFT  NEXT  MODE\nlogin  sliding_log  50/m   plan \"pro\"  2     48    now   enforce\n", ""},
		{"usage user:ann", 0, "The rule \"login\" in code:\nRULE   LIMIT  USED  LEFT  NEXT        UNUSED      MODE\nlogin  5/h    5     0     in …  in …  enforce\n", "the policy has pro"},
		{"usage ann -plan pro", 0, "The key \"user:ann\":\nThe rule \"login\" in code:\nRULE  LIMIT  USED  LEFT  NEXT  UNUSED  MODE\nlogin  50/m  2  48  now  …  enforce\n", ""},
		{"why bob", 0, "No event and no override of the key is in Redis. The limits are elastic, login, month, stop.\n", `the key is the text that the key function`},
		{"block ann stop 1h", 1, "", `nothing is written: no event of the key "ann" is known, and there are some of "user:ann"`},
		{"why user:ann elastic", 0, "Admitted: no event and no override of the key is in Redis.\nThe rule is elastic, up to 2: its present limit is unknown, and the table has its base.\n" +
			"RULE     ALGORITHM     LIMIT  SOURCE  USED  LEFT  NEXT  MODE\nelastic  token_bucket  10/h   base    0     10    now   enforce\n", ""},
		{"why user:ann absent", 1, "", `the application has no policy "absent"; it has elastic, login, month, stop`},
		{"block user:ann login 1h", 1, "", `the rule "login" is in code, and limits in code have no overrides`},
		{"block user:ann 1h", 1, "", `nothing is written: "elastic"`},
		{"rules override login user:ann {\"plan\":\"pro\"}", 1, "", `is in code, and limits in code have no overrides`},
		{"block user:ann stop 1h -note x", 1, "", "a pause has no note"},
		{"block user:ann stop 1h", 0, "{paused: true, until: '…'}\n", ""},
		{"why user:ann stop", 0, "Paused by stop until …: admitted again ….\nRULE  ALGORITHM  LIMIT   SOURCE  USED  LEFT  NEXT        MODE\nstop  pause      paused  base    -     -     in …  enforce\n", ""},
		{"unblock user:ann stop", 0, "{}\n", ""},
		{"usage user:ann -rule login", 0, "The rule \"login\" in code:\nRULE  LIMIT  USED  LEFT  NEXT  UNUSED  MODE\nlogin  5/h  5  0  in …  in …  enforce\n", ""},
		{"usage user:ann login -rule other", 1, "", `the rule "login" is in code`},
		{"block §", 1, "", "empty key"},
		{"why #" + source.Fleet().Tag("user:ann") + " login -plan pro", 0, "Admitted.\nRULE  ALGORITHM    LIMIT  SOURCE      USED  LEFT  NEXT  MODE\nlogin  sliding_log  50/m  plan \"pro\"  2  48  now  enforce\n", ""},
		{"reset user:ann", 0, "The rule \"login\" in code:\nRULE   LIMIT  USED  LEFT  NEXT  UNUSED  MODE\nlogin  5/h    0     5     now   now     enforce\n", ""},
		{"why user:ann login -plan pro", 0, "Admitted: no event and no override of the key is in Redis.\nRULE   ALGORITHM    LIMIT  SOURCE      USED  LEFT  NEXT  MODE\nlogin  sliding_log  50/m   plan \"pro\"  0     50    now   enforce\n", ""},
		{"list", 0, "WRITTEN  POLICY  KEY  OVERRIDE  NOTE\n", ""},
		{"key user:ann", 0, "#" + source.Fleet().Tag("user:ann") + "\n", "each process has other hashes in its log"},
		{"rules why login user:ann", 0, "Admitted: no event and no override of the key is in Redis.\nThe limits are those without a plan; the policy has pro: see -plan.\n" +
			"RULE   ALGORITHM    LIMIT  SOURCE  USED  LEFT  NEXT  MODE\nlogin  sliding_log  5/h    base    0     5     now   enforce\n", ""},
	} {
		var stdout, stderr strings.Builder
		name, rest, _ := strings.Cut(step.args, " ")
		args := append([]string{name, "-redis", "redis://" + server.Addr}, strings.Fields(rest)...)
		if rest == "§" {
			args[len(args)-1] = ""
		}
		status := run(args, &stdout, &stderr)
		got := times.ReplaceAllString(stdout.String(), "…")
		if spaces := regexp.MustCompile(`  +`); status != step.status || spaces.ReplaceAllString(got, "  ") != spaces.ReplaceAllString(step.stdout, "  ") || !strings.Contains(stderr.String(), step.stderr) {
			t.Errorf("%s: got status %d, stdout\n%s\nand stderr %q, want %d,\n%s\nand %q", step.args, status, got, &stderr, step.status, step.stdout, step.stderr)
		}
	}
}

// A command about all policies does not say that no event of a key is known if a rule in code has one.
func TestBlock_EventOfRuleInCode(t *testing.T) {
	server := redistest.NewServer(t)
	file := t.TempDir() + "/a.yaml"
	testkit.Must(t, os.WriteFile(file, []byte(inForcePolicies), 0o600))
	store := resilient.New(server.Client(), "test")
	t.Cleanup(func() { store.Close() })
	testkit.Admit(t, testkit.Limiter(t, store, core.SlidingLog("login", core.PerHour(5))), "user:ann", 1)
	published(t, rules.FleetOf(store), 1)
	for key, unknown := range map[string]bool{"user:ann": false, "user:bob": true} {
		var stdout, stderr strings.Builder
		status := run([]string{"block", "-redis", "redis://" + server.Addr, "-config", file, "-wait", "0", key}, &stdout, &stderr)
		if got := strings.Contains(stderr.String(), "no event and no override"); status != 0 || got != unknown || !strings.Contains(stderr.String(), "not in login, which are rules in code") {
			t.Errorf("%s: got status %d, %s%s", key, status, &stdout, &stderr)
		}
	}
}

// The doctor names rules and configurations in which processes do not agree.
func TestDoctor_Application(t *testing.T) {
	server := redistest.NewServer(t)
	file, other := t.TempDir()+"/a.yaml", t.TempDir()+"/b.yaml"
	testkit.Must(t, os.WriteFile(file, []byte(inForcePolicies), 0o600))
	testkit.Must(t, os.WriteFile(other, []byte(strings.Replace(inForcePolicies, "100", "7", 1)), 0o600))
	doctor := func() string {
		var stdout, stderr strings.Builder
		if status := run([]string{"doctor", "-redis", "redis://" + server.Addr, "-timeout", "1m"}, &stdout, &stderr); status != 0 {
			t.Errorf("got status %d, %s%s", status, &stdout, &stderr)
		}
		_, row, _ := strings.Cut(stdout.String(), "\napplication")
		row, _, _ = strings.Cut(row, "\n")
		return strings.Join(strings.Fields(row), " ")
	}
	if got := doctor(); got != "ok 0 processes" {
		t.Errorf("without a process: got %q", got)
	}
	source, tick := rules.Redis(server.Client(), "test"), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	await := func(n int) {
		for begun := time.Now(); ; <-tick.C {
			all, err := source.Fleet().Processes(t.Context())
			if err == nil && len(all) == n && !slices.ContainsFunc(all, func(p rules.Process) bool { return len(p.Sets) == 0 }) {
				return
			} else if time.Since(begun) > time.Minute {
				t.Fatalf("after a minute: %v, %v", all, err)
			}
		}
	}
	watching(t, server.Addr, file, nil, rules.Timeout(time.Second))
	await(1)
	if got := doctor(); got != "ok 1 process" {
		t.Errorf("one process: got %q", got)
	}
	watching(t, server.Addr, other, nil, rules.Timeout(time.Second))
	await(2)
	if got := doctor(); !strings.HasPrefix(got, `warning 2 processes; the rule "api.minute" differs: `) || !strings.Contains(got, "100/m") || !strings.Contains(got, "7/m") ||
		!strings.Contains(got, " 2 processes") {
		t.Errorf("two versions: got %q", got)
	}
	rdb := server.Client()
	store := resilient.New(rdb, "test")
	t.Cleanup(func() { store.Close() })
	testkit.Limiter(t, store, core.TokenBucket("api.minute", core.PerMinute(100)))
	testkit.Limiter(t, store, core.TokenBucket("api.hour", core.PerHour(100))) // of no file
	for begun := time.Now(); ; <-tick.C {
		all, err := source.Fleet().Processes(t.Context())
		if err == nil && slices.ContainsFunc(all, func(p rules.Process) bool { return len(p.Sets) == 0 && len(p.Rules) == 2 }) {
			break
		} else if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute: %v, %v", all, err)
		}
	}
	if got := doctor(); !strings.Contains(got, `; the rule "api.minute" differs: `) || !strings.Contains(got, ", in a configuration; ") || !strings.Contains(got, ", in code") ||
		strings.Contains(got, "api.hour") {
		t.Errorf("code and file: got %q", got)
	}
}
