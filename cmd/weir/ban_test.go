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

// The commands know the bans of limits in code and in files, and the pause of a ban is no limit of its own.
func TestBan(t *testing.T) {
	server := redistest.NewServer(t)
	file := t.TempDir() + "/limits.yaml"
	testkit.Must(t, os.WriteFile(file, []byte("policies: {api: {rules: [{name: minute, algorithm: sliding_log, limit: 5/m, plans: {gold: 9/m}, block_for: 1h}]}}"), 0o600))
	set := watching(t, server.Addr, file, nil, rules.Timeout(time.Second))
	store := resilient.New(server.Client(), "test")
	t.Cleanup(func() { store.Close() })
	login := testkit.Limiter(t, store, core.SlidingLog("login", core.PerHour(5)).BlockFor(30*time.Minute))
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	ban := func(l *core.Limiter, key string, n int) {
		t.Helper()
		testkit.Admit(t, l, key, n)
		if d := testkit.Allow(t, l, key); d.State(0).Ban == 0 {
			t.Fatalf("got %+v, want a ban", d)
		}
	}
	ban(login, "ann", 5)
	ban(api, "ann", 5)
	ban(api, "bob", 5)
	ban(login, "eve", 5)
	rdb := server.Client()
	fleet := rules.Redis(rdb, "test").Fleet()
	events := rdb.Keys(t.Context(), "*{"+fleet.Tag("bob")+"}*:api.minute").Val()
	testkit.Must(t, rdb.Del(t.Context(), events...).Err()) // as after a minute
	published(t, fleet, 2)
	const (
		whyLogin = "Banned by login until …: admitted again in ….\nweir reset KEY login ends the ban.\nRULE ALGORITHM LIMIT SOURCE USED LEFT NEXT MODE\nlogin sliding_log 5/h base banned 0 in … enforce\n"
		usage    = "RULE LIMIT USED LEFT NEXT UNUSED MODE\n"
		near     = "KEY RULE LIMIT USED SHARE UNUSED\n"
	)
	tag := func(key string) string { return "#" + fleet.Tag(key) }
	times, spaces := regexp.MustCompile(`\b[0-9.]+[hms]([0-9.]+[ms])*\b|20[0-9T:-]+Z`), regexp.MustCompile(` +`)
	for _, step := range []struct {
		args   string
		status int
		stdout string // with … for times; a part if it begins with §
		stderr string // a part
	}{
		{"why ann login", 0, whyLogin, ""},
		{"why ann api -config §", 0, "§Banned by minute until …: admitted again in ….\nweir reset KEY api ends the ban.\nThe limits are those without a plan; the policy has gold: see -plan.\n", ""},
		{"why ann api", 0, "§Banned by minute until …: admitted again in …, unless ", ""},
		{"why " + tag("bob") + " api -config §", 0, "§Banned by minute until …", ""},
		{"why bob login", 0, "§Admitted: no event and no override of the key is in Redis.\n", ""},
		{"usage eve", 0, "The rule \"login\" in code:\n" + usage + "login 5/h banned 0 in … in … enforce\n", ""},
		{"near 99% -config §", 0, near + tag("ann") + " api.minute 5/m banned 100 % in …\n" + tag("bob") + " api.minute 5/m banned 100 % in …\n" +
			tag("ann") + " login 5/h banned 100 % in …\n" + tag("eve") + " login 5/h banned 100 % in …\n", "the policy has gold"},
		{"list", 0, "WRITTEN POLICY KEY OVERRIDE NOTE\n", ""},
		{"key ann", 0, tag("ann") + "\n", ""},
		{"off login.ban", 1, "", `no process has a rule or a policy "login.ban"`},
		{"off api.minute.ban", 1, "", "the rules are api.minute, login"},
		{"doctor -timeout 1m", 0, "§application ok 2 processes\n", ""},
		{"unblock ann api -config § -wait 0", 0, "{}\n", "the key is banned by minute, which is no block of an operator: weir reset KEY api ends it"},
		{"unblock ann login", 1, "", "weir reset ends a ban"},
		{"rules credit -config § api ann 5", 0, usage + "minute 5/m banned 0 in … in … enforce\n", ""},
		{"reset ann api -config §", 0, "The ban by minute has ended.\n" + usage + "minute 5/m 0 5 now now enforce\n", ""},
		{"reset ann api -config §", 0, usage + "minute 5/m 0 5 now now enforce\n", ""},
		{"why ann login", 0, whyLogin, ""},
		{"reset eve", 0, "The rule \"login\" in code:\nThe ban by login has ended.\n" + usage + "login 5/h 0 5 now now enforce\n", ""},
		{"off login -wait 30s -by ann", 0, "The limits of \"login\" are off since … by ann.\n", ""},
		{"why ann login", 0, "§Admitted: the limits of \"login\" are off since ", ""},
		{"on login -wait 30s", 0, "§No limit is off.\n", ""},
		{"forget ann", 0, "§The rule \"login\" in code: the events are forgotten.\n", ""},
		{"why ann login", 0, "§Admitted: no event and no override of the key is in Redis.\n", ""},
	} {
		var stdout, stderr strings.Builder
		args := strings.Fields(strings.ReplaceAll(step.args, "§", file))
		at := 1 // of the flags
		if args[0] == "rules" {
			at = 2
		}
		args = slices.Insert(args, at, "-redis", "redis://"+server.Addr)
		status := run(args, &stdout, &stderr)
		got := spaces.ReplaceAllString(times.ReplaceAllString(stdout.String(), "…"), " ")
		want, part := strings.CutPrefix(step.stdout, "§")
		if status != step.status || !strings.Contains(stderr.String(), step.stderr) || got != want && !(part && strings.Contains(got, want)) {
			t.Errorf("%s: got status %d, stdout\n%s\nand stderr %q, want %d,\n%s\nand %q", step.args, status, got, &stderr, step.status, want, step.stderr)
		}
	}
	if d := testkit.Allow(t, login, "ann"); !d.Allowed {
		t.Errorf("after forget: got %+v", d)
	}
}

// The report has the bans of a file, and the requests that only bans deny. A shadow rule bans no key.
func TestSimulate_Bans(t *testing.T) {
	files(t)
	minute := func(more string) string {
		return policy("{name: minute, algorithm: fixed_window, limit: 2/m" + more + "}")
	}
	write(t, "bans.yaml", minute(", block_for: 5m"))
	write(t, "free.yaml", minute(""))
	write(t, "shadow.yaml", minute(", block_for: 5m, mode: shadow"))
	// Key a is banned at 1.5 and at 303.5, b at 2, and c never.
	write(t, "t.csv", csv("0.5,a 1.5,a*2 2,a 2,b*3 70,a 100,c*2 301,a 303,a*2 303.5,a 304,a"))
	for file, want := range map[string]struct {
		bans              uint64
		keys              int
		denied, only      uint64
		seconds           float64
		text, absent, row string
	}{
		"bans.yaml": {
			3, 2, 7, 2, 300, "The rule api.minute banned 2 keys for 5m: 3 bans in all.\n2 requests were denied because of bans, and would be admitted without block_for.\n",
			"§", "api minute fixed_window 2/m 7 0 ",
		},
		"free.yaml":   {0, 0, 6, 0, 0, "", "ban", "api minute fixed_window 2/m 6 0 "},
		"shadow.yaml": {0, 0, 0, 0, 300, "", "bann", "api minute (shadow) fixed_window 2/m 6 0 "},
	} {
		r := simulateArgs(t, file, "t.csv")
		if s := r.Policies[0].Rules[0]; s.Bans != want.bans || s.Banned != want.keys || s.BlockFor != want.seconds || r.Denied != want.denied || r.DeniedByBans != want.only {
			t.Errorf("%s: got %+v and %+v, want %+v", file, s, r, want)
		}
		got := output(t, "simulate", file, "t.csv")
		if rows := strings.Join(strings.Fields(got), " "); !strings.Contains(got, want.text) || strings.Contains(strings.ReplaceAll(got, file, ""), want.absent) || !strings.Contains(rows, want.row) {
			t.Errorf("%s: got %s", file, got)
		}
	}
	var c comparison
	reportOf(t, &c, "diff", "-json", "free.yaml", "bans.yaml", "-trace", "t.csv")
	if c.DeniedBefore != 6 || c.DeniedAfter != 7 || strings.Join(c.Changes, "\n") != "api.minute block for: none to 5m" {
		t.Errorf("the difference: got %+v", c)
	}
	for file, want := range map[string]bool{"bans.yaml": true, "free.yaml": false, "shadow.yaml": false} {
		if got := output(t, "explain", file, "api", "a"); strings.Contains(got, "A denial by minute bans the key for 5m.\n") != want {
			t.Errorf("explain %s: got %s", file, got)
		}
	}
	write(t, "plans.yaml", minute(", block_for: 5m, plans: {gold: 9/m}, headroom: {batch: 50}"))
	for plan, want := range map[string]bool{"": true, "gold": true, "batch": false, "unknown": true} {
		if got := output(t, slices.DeleteFunc([]string{"explain", "plans.yaml", "api", "a", plan}, func(s string) bool { return s == "" })...); strings.Contains(got, "A denial by minute bans the key for 5m.\n") != want {
			t.Errorf("explain of the plan %q: got %s", plan, got)
		}
	}
	var stderr strings.Builder
	if status := run([]string{"check", "bans.yaml"}, &stderr, &stderr); status != 0 || !strings.Contains(stderr.String(), ".block_for: use it only for keys that the client cannot choose: ") {
		t.Errorf("check: got %d, %s", status, &stderr)
	}
}
