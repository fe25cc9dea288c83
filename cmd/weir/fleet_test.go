package main

import (
	"fmt"
	"os"
	"regexp"
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

// Limits are turned off and on in all processes, and the commands about keys say so.
func TestFleet_Off(t *testing.T) {
	server := redistest.NewServer(t)
	file := t.TempDir() + "/limits.yaml"
	testkit.Must(t, os.WriteFile(file, []byte(inForcePolicies+"\nroutes: {\"POST /login\": api}\n"), 0o600))
	set := watching(t, server.Addr, file, nil, rules.Timeout(time.Second))
	store := resilient.New(server.Client(), "test")
	t.Cleanup(func() { store.Close() })
	login := testkit.Limiter(t, store, core.SlidingLog("login", core.PerHour(5)))
	testkit.Admit(t, login, "ann", 5)
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	testkit.Admit(t, api, "ann", 100)
	fleet := rules.Redis(server.Client(), "test").Fleet()
	published(t, fleet, 2)
	times := regexp.MustCompile(`20[0-9T:-]+Z|[0-9.]+m[0-9.]+s`)
	for _, step := range []struct {
		args   string
		status int
		stdout string // a part, with … for times
		stderr string // a part
	}{
		{"off", 0, "No limit is off.\n", ""},
		{"on login", 1, "", `weir: "login": no switch has turned it off`},
		{"why ann api", 0, " has an entry for the key: see -config.\nThe rules are those of the processes.", ""},
		{"off logn", 1, "", `nothing is written: no process has a rule or a policy "logn"; did you mean "login"?; the rules are api.minute, login`},
		{"off api.mnute", 1, "", `no process has a rule or a policy "api.mnute"; did you mean "api.minute"?`},
		{"off login -wait 30s -by ann -note slow", 0, "The limits of \"login\" are off since … by ann, with the note \"slow\".\n", "weir: note: in force in 1 of 1 processes"},
		{"off", 0, "The limits of \"login\" are off since … by ann, with the note \"slow\".\n", ""},
		{"why ann login", 0, "Admitted: the limits of \"login\" are off since … by ann, with the note \"slow\". The table has the states that count again when they are on.\nOff is in force in 1 of 1 processes.\nRULE   ALGORITHM    LIMIT  SOURCE  USED  LEFT  NEXT", ""},
		{"usage ann login", 0, "login  5/h    5     0", ""},
		{"off POST§/login -wait 30s -config §", 0, "The limits of \"api\" are off since ", "in force in 1 of 1 processes"},
		{"why ann -config § api", 0, "Admitted: the limits of \"api\" are off since ", ""},
		{"doctor -timeout 1m", 0, "; the limits of \"", ""},
		{"off * -wait 30s -by bob", 0, "All limits are off since … by bob.\n", "in force in 2 of 2 processes"},
		{"on login -wait 30s", 0, "All limits are off since … by bob.\nThe limits of \"api\" are off", "in force in 1 of 1 processes"},
		{"on login", 1, "", `weir: "login": no switch has turned it off; there is one of "*" and "api"`},
		{"off POST§/logn -config §", 1, "", "nothing is written: no route of "},
		{"off /login -config §", 1, "", "nothing is written: no route of "},
		{"on * -wait 30s -by eve", 0, "No limit is off.\nAll limits were turned on … by eve.\n", "in force in 2 of 2 processes"},
		{"why ann login", 0, "Denied by login: admitted again ", ""},
		{"on *", 1, "", "no switch has turned it off"},
		{"off login -wait 0", 0, "The limits of \"login\" are off since ….\n", ""},
		{"on login -wait 0", 0, "No limit is off.\n", ""},
		{"off a b", 2, "", "usage:"},
		{"on", 2, "", "usage:"},
		{"off login -note " + strings.Repeat("x", 201), 1, "", "is longer than 200 bytes"},
	} {
		var stdout, stderr strings.Builder
		name, rest, _ := strings.Cut(step.args, " ")
		args := append([]string{name, "-redis", "redis://" + server.Addr}, strings.Fields(rest)...)
		for i := range args {
			if args[i] = strings.ReplaceAll(args[i], "POST§", "POST "); args[i] == "§" {
				args[i] = file
			}
		}
		status := run(args, &stdout, &stderr)
		if got := times.ReplaceAllString(stdout.String(), "…"); status != step.status || !strings.Contains(got, step.stdout) || !strings.Contains(stderr.String(), step.stderr) {
			t.Errorf("%s: got status %d, stdout\n%s\nand stderr %q, want %d,\n%s\nand %q", step.args, status, got, &stderr, step.status, step.stdout, step.stderr)
		}
	}
}

// A process that cannot follow makes weir off fail, after it has written.
func TestFleet_Off_notInForce(t *testing.T) {
	server := redistest.NewServer(t)
	var stdout, stderr strings.Builder
	if status := run([]string{"off", "*", "-redis", "redis://" + server.Addr, "-wait", "1s"}, &stdout, &stderr); status != 1 ||
		!strings.Contains(stderr.String(), `nothing is written: no process of the application "test" is known`) {
		t.Errorf("no process: got status %d, %s", status, &stderr)
	}
	stderr.Reset()
	if status := run([]string{"off", "api", "-wait", "100ms", "-redis", "redis://" + server.Addr}, &stdout, &stderr); status != 1 || !strings.Contains(stderr.String(), "nothing is written: no process of the application") {
		t.Errorf("a rule, and no process: got status %d, %s", status, &stderr)
	}
}

// The decisions of all processes are printed, and the keys with the most denials.
func TestFleet_Top(t *testing.T) {
	server := redistest.NewServer(t)
	top := func(args ...string) (string, string, int) {
		var stdout, stderr strings.Builder
		status := run(append([]string{"top", "-redis", "redis://" + server.Addr}, args...), &stdout, &stderr)
		return stdout.String(), stderr.String(), status
	}
	const none = "0 processes of the application \"test\"\n\nDecisions in the last 5m0s, without those of about the last minute:\nRULE          ALLOWED  SOFT  DENIED  BLOCKED  BANNED  SHADOW  FAILED\nall requests  0        0     0       0        0       0       0\n"
	if stdout, stderr, status := top(); stdout != none || status != 0 || strings.Count(stderr, "weir: note: ") != 2 {
		t.Errorf("without a process: got status %d, %s%s", status, stdout, stderr)
	}
	rdb := server.Client()
	now := time.Now()
	minute := fmt.Sprintf("weir:test:{test}processes:figures:%d", now.Unix()/60)
	testkit.Must(t, rdb.HSet(t.Context(), minute, "", "0 30 0 6 0 0 2 0 0 3", "api.day", "0 27 3 6 0 0 2 0 0 3", "trial", "0 3 0 0 0 0 0 21", "login\x1b[31m", "0 0 0 3").Err())
	for member, n := range map[string]float64{"a api.day": 3, "2 api.day": 3, "1 api.day": 2, "0 api.day": 1} {
		testkit.Must(t, rdb.ZAdd(t.Context(), fmt.Sprintf("weir:test:{test}processes:denied:%d", now.Unix()/3600), redis.Z{Score: n, Member: member}).Err())
	}
	const want = `0 processes of the application "test"

Decisions in the last 2m0s, without those of about the last minute:
RULE           ALLOWED  SOFT  DENIED  BLOCKED  BANNED  SHADOW  FAILED
api.day        27       3     6       0        2       0       3
login\x1b[31m  0        0     3       0        0       0       0
trial          3        0     0       0        0       21      0
all requests   30       0     6       0        2       0       3

Keys with the most denials, in this hour and the one before, without about the last two minutes:
KEY  RULE     DENIALS
#2   api.day  3
#a   api.day  3
`
	if stdout, stderr, status := top("-for", "2m", "-n", "2"); stdout != want || status != 0 || stderr != "" {
		t.Errorf("got status %d and\n%s%s\nwant\n%s", status, stdout, stderr, want)
	}
	for _, period := range []string{"1s", "-1m", "3h", "x", "5m -n 0", "5m -n -1"} {
		if _, stderr, status := top(append([]string{"-for"}, strings.Fields(period)...)...); status != 2 || stderr == "" {
			t.Errorf("-for %s: got status %d, %s", period, status, stderr)
		}
	}
}
