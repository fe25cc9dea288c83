package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

const supportRules = `policies:
  api:
    rules:
      - {name: calls, algorithm: sliding_log, limit: 5/h, plans: {gold: 100/h}, candidate: {algorithm: sliding_log, limit: 4/h}}
      - {name: stop, algorithm: pause}
    keys: {"user:file": {blocked: true}}
  login:
    enforce: 0
    rules: [{name: hour, algorithm: token_bucket, limit: 9/h, plans: {day: 50/d}}]
  off:
    disabled: true
    rules: [{name: r, algorithm: fixed_window, limit: 9/h}]
  jobs:
    rules: [{name: running, algorithm: in_flight, limit: 1}]
routes: {POST /login: login}
all_routes: api
`

// program returns the Set of a program with a secret, which may be nil.
func program(t *testing.T, server *redistest.Server, prefix string, secret []byte) *rules.Set {
	t.Helper()
	config, err := rules.Parse("support.yaml", []byte(supportRules))
	testkit.Must(t, err)
	store := []redisstore.Option{redisstore.Prefix(prefix), redisstore.Timeout(10 * time.Second)}
	overrides := []rules.RedisOption{rules.Prefix(prefix), rules.Timeout(10 * time.Second)}
	if secret != nil {
		store, overrides = append(store, redisstore.KeySecret(secret)), append(overrides, rules.KeySecret(secret))
	}
	set, err := rules.New(redisstore.New(server.Client(), "test", store...), config, rules.Overrides(rules.Redis(server.Client(), "test", overrides...)))
	testkit.Must(t, err)
	return set
}

func limiter(t *testing.T, set *rules.Set, policy string) *core.Limiter {
	t.Helper()
	l, err := set.Limiter(policy)
	testkit.Must(t, err)
	return l
}

// spaces are those between columns, and times those of the clock.
var (
	spaces = regexp.MustCompile(` {2,}`)
	clocks = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|\b(\d+h)?(\d+m)?[0-9.]+(ms|s)\b|\b\d+[hm](\d+m)?\b`)
)

// runWhy runs a command line of weir rules, and returns its lines, those of stderr last, without times.
func runWhy(t *testing.T, args ...string) []string {
	t.Helper()
	var stdout, stderr strings.Builder
	if status := run(append([]string{"rules"}, args...), &stdout, &stderr); status != 0 {
		t.Errorf("%q: got status %d", args, status)
	}
	text := clocks.ReplaceAllString(spaces.ReplaceAllString(stdout.String()+stderr.String(), "|"), "…")
	return strings.Split(strings.TrimSpace(text), "\n")
}

// One command answers a question about a key.
func TestRules_Why(t *testing.T) {
	server := redistest.NewServer(t)
	files(t)
	write(t, "support.yaml", supportRules)
	secret := []byte("a secret of sixteen or more")
	open, hidden := program(t, server, "shop:", nil), program(t, server, "hidden:", secret)
	api := limiter(t, open, "api")
	testkit.Admit(t, api, "user:ann", 4)
	testkit.Admit(t, api, "user:ann", 1)
	testkit.Admit(t, api.Plan("gold"), "user:gold", 12)
	testkit.Admit(t, api, "2001:db8::/64", 1)
	testkit.Admit(t, api, "user:paused", 1)
	testkit.Must(t, api.Pause(t.Context(), "user:paused", time.Hour))
	testkit.Admit(t, limiter(t, open, "login"), "user:ann", 1)
	testkit.Admit(t, limiter(t, open, "login").Plan("day"), "user:day", 3)
	testkit.Must(t, open.Block(t.Context(), "api", "user:bad", time.Now().Add(time.Hour), rules.Note("ticket 7")))
	testkit.Must(t, open.Block(t.Context(), "api", "user:never", time.Time{}))
	testkit.Must(t, open.Override(t.Context(), "api", "user:vip", rules.Override{Plan: "gold"}, rules.Note("sales")))
	before, err := server.Client().ZRange(t.Context(), "shop:test:{rules:test}overrides", 0, -1).Result()
	testkit.Must(t, err)
	testkit.Must(t, open.Override(t.Context(), "api", "user:lost", rules.Override{Plan: "gold"}))
	after, err := server.Client().ZRange(t.Context(), "shop:test:{rules:test}overrides", 0, -1).Result()
	testkit.Must(t, err)
	testkit.Must(t, server.Client().ZRem(t.Context(), "shop:test:{rules:test}overrides", slices.DeleteFunc(after, func(m string) bool { return slices.Contains(before, m) })).Err())
	running, err := limiter(t, open, "jobs").Reserve(t.Context(), "user:ann", 1)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = running.Release(context.Background()) })
	testkit.Admit(t, limiter(t, hidden, "api"), "user:ann", 5)
	testkit.Must(t, hidden.Block(t.Context(), "api", "user:bad", time.Time{}))
	const (
		columns   = "RULE|ALGORITHM|LIMIT|SOURCE|USED|LEFT|NEXT|MODE"
		plan      = "The limits are those without a plan; the policy has gold: see -plan."
		gold      = "A caller with the plan gold is admitted."
		blocked   = "calls|sliding_log|blocked|override of the key|-|-|"
		unused    = "calls|sliding_log|5/h|base|0|5|now|enforce"
		idle      = "calls.candidate|sliding_log|4/h|base|0|4|now|shadow"
		hidden_   = "calls.candidate|sliding_log|4/h|base|-|-|-|shadow"
		day       = "The limits are those without a plan; the policy has day: see -plan."
		partly    = "The policy is enforced for 0% of the keys; this key is not among them."
		unusedDay = "hour|token_bucket|9/h|base|0|9|now|shadow"
		nothing   = "Admitted: no event and no override of the key is in Redis."
		stop      = "stop|pause|none|base|-|-|now|enforce"
		elsewhere = `weir: note: the key has events with the prefix "shop:": see -prefix`
		text      = "; the key is the text that the key function of the program returns, such as user:ann or 203.0.113.7"
	)
	no := func(key, policy string) string {
		return fmt.Sprintf("weir: note: no event and no override of the key %q was found in Redis for the policy %q", key, policy)
	}
	for name, c := range map[string]struct {
		secret, prefix, args string
		want                 []string
	}{
		"over the limit": {"", "shop:", "api user:ann", []string{"Denied by calls: admitted again in ….", plan, gold, columns,
			"calls|sliding_log|5/h|base|5|0|in …|enforce", "calls.candidate|sliding_log|4/h|base|4|0|in …|shadow", stop}},
		"a plan": {"", "shop:", "api user:gold -plan gold", []string{"Admitted.", columns,
			`calls|sliding_log|100/h|plan "gold"|12|88|now|enforce`, idle, stop}},
		"a plan that is missing": {"", "shop:", "api user:gold", []string{"Denied by calls: admitted again in ….", plan, gold, columns,
			"calls|sliding_log|5/h|base|5|0|in …|enforce", idle, stop}},
		"a plan of an override": {"", "shop:", "api user:vip", []string{"Admitted.", `The override {plan: gold} is in Redis, written at …, with the note "sales".`, strings.TrimSuffix(unseen, "\n"), columns,
			`calls|sliding_log|100/h|plan "gold", override of the key|0|100|now|enforce`, idle, stop}},
		"events with a plan of another period": {"", "shop:", "login user:day", []string{"Admitted.", partly, day, columns, unusedDay}},
		"its plan":                             {"", "shop:", "login user:day -plan day", []string{"Admitted.", partly, columns, `hour|token_bucket|50/d|plan "day"|3|47|now|shadow`}},
		"its plan, without its word":           {"", "shop:", "login day", []string{nothing, partly, day, columns, unusedDay, no("day", "login") + `; there is the key "user:day"`}},
		"its plan, with a wrong prefix": {"", "weir:", "login user:day", []string{nothing, partly, day, columns, unusedDay, no("user:day", "login") + text,
			`weir: note: no key in Redis has the prefix "weir:test:"; there is "hidden:test:" and "shop:test:"`, elsewhere}},
		"an override without its entry": {"", "shop:", "api user:lost", []string{"Admitted.", "The override {plan: gold} is in Redis, and the list of overrides does not have it.", columns,
			`calls|sliding_log|100/h|plan "gold", override of the key|0|100|now|enforce`, idle, stop}},
		"a key without its word": {"", "shop:", "api ann", []string{nothing, plan, columns, unused, idle, stop, no("ann", "api") + `; there is the key "user:ann"`}},
		"an address":             {"", "shop:", "api 2001:db8::7", []string{nothing, plan, columns, unused, idle, stop, no("2001:db8::7", "api") + `; there is the key "2001:db8::/64"`}},
		"an unknown key":         {"", "shop:", "api user:x", []string{nothing, plan, columns, unused, idle, stop, no("user:x", "api") + text}},
		"a wrong prefix": {"", "weir:", "api user:ann", []string{nothing, plan, columns, unused, idle, stop, no("user:ann", "api") + text,
			`weir: note: no key in Redis has the prefix "weir:test:"; there is "hidden:test:" and "shop:test:"`, elsewhere}},
		"a wrong secret": {"another secret of sixteen", "hidden:", "api user:ann", []string{nothing, plan, columns, unused, idle, stop, no("user:ann", "api") + text,
			"weir: note: the latest override or block was written without WEIR_KEY_SECRET, or with another one"}},
		"a secret of no program": {string(secret), "shop:", "api user:ann", []string{nothing, plan, columns, unused, idle, stop, no("user:ann", "api") + text,
			"weir: note: the latest override or block was written without WEIR_KEY_SECRET, or with another one",
			"weir: note: the key has events of programs without a secret, and WEIR_KEY_SECRET is set",
			strings.ReplaceAll(elsewhere, "shop:", "hidden:")}},
		"the secret": {string(secret), "hidden:", "api user:bad", []string{"Blocked: every event is denied.", "The block is in Redis, written at ….", strings.TrimSuffix(unseen, "\n"), columns, blocked + "never|enforce", hidden_,
			"stop|pause|blocked|override of the key|-|-|never|enforce"}},
		"blocked": {"", "shop:", "api user:bad", []string{"Blocked until …: admitted again in ….", "The block of the key ends at ….", `The block is in Redis, written at …, with the note "ticket 7".`, strings.TrimSuffix(unseen, "\n"), columns,
			blocked + "in …|enforce", hidden_, "stop|pause|blocked|override of the key|-|-|in …|enforce"}},
		"blocked for ever": {"", "shop:", "api user:never", []string{"Blocked: every event is denied.", "The block is in Redis, written at ….", strings.TrimSuffix(unseen, "\n"), columns, blocked + "never|enforce", hidden_,
			"stop|pause|blocked|override of the key|-|-|never|enforce"}},
		"blocked in the file": {"", "shop:", "api user:file", []string{"Blocked: every event is denied.", "The override {blocked: true} is in support.yaml.", columns, blocked + "never|enforce", hidden_,
			"stop|pause|blocked|override of the key|-|-|never|enforce"}},
		"paused": {"", "shop:", "api user:paused", []string{"Paused by stop until …: admitted again in ….", plan, columns, "calls|sliding_log|5/h|base|1|4|now|enforce",
			"calls.candidate|sliding_log|4/h|base|1|3|now|shadow", "stop|pause|paused|base|-|-|in …|enforce"}},
		"a part of the keys": {"", "shop:", "login user:ann", []string{"Admitted.", "The policy is enforced for 0% of the keys; this key is not among them.", day, columns,
			"hour|token_bucket|9/h|base|1|8|now|shadow"}},
		"off": {"", "shop:", "off user:ann", []string{"Admitted.", "The policy is off: its rules are neither enforced nor counted.", columns, "r|fixed_window|9/h|base|0|9|now|off", no("user:ann", "off") + text}},
		"places": {"", "shop:", "jobs user:ann", []string{"Denied by running: admitted again when a running event ends.", columns,
			"running|in_flight|1|base|1|0|when an event ends|enforce"}},
		"a route": {"", "shop:", "POST_/login user:ann", []string{`The route "POST /login" has the policy "login".`, "Admitted.", "The policy is enforced for 0% of the keys; this key is not among them.", day, columns,
			"hour|token_bucket|9/h|base|1|8|now|shadow", "", `The request is charged to the policy "api" of all routes, too.`, "Denied by calls: admitted again in ….", plan, gold, columns,
			"calls|sliding_log|5/h|base|5|0|in …|enforce", "calls.candidate|sliding_log|4/h|base|4|0|in …|shadow", stop}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WEIR_KEY_SECRET", c.secret)
			args := []string{"-redis", "redis://" + server.Addr, "-prefix", c.prefix, "-config", "support.yaml", "why"}
			for _, word := range strings.Fields(c.args) {
				args = append(args, strings.ReplaceAll(word, "_", " "))
			}
			if got := runWhy(t, args...); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
	t.Run("all policies", func(t *testing.T) {
		got := runWhy(t, "-redis", "redis://"+server.Addr, "-prefix", "shop:", "-config", "support.yaml", "why", "*", "user:ann")
		var headings []string
		for _, line := range got {
			if strings.HasPrefix(line, "The policy \"") || strings.HasPrefix(line, "Denied") || strings.HasPrefix(line, "Admitted") || strings.Contains(line, "note") {
				headings = append(headings, line)
			}
		}
		want := []string{`The policy "api":`, "Denied by calls: admitted again in ….", `The policy "jobs":`, "Denied by running: admitted again when a running event ends.", `The policy "login":`, "Admitted.", `The policy "off":`, "Admitted."}
		if !slices.Equal(headings, want) {
			t.Errorf("got %q, want %q", headings, want)
		}
	})
}

// A block of all policies is one command, and so is its end.
func TestRules_AllPolicies(t *testing.T) {
	server := redistest.NewServer(t)
	files(t)
	write(t, "support.yaml", supportRules)
	flags := "-redis redis://" + server.Addr + " -config support.yaml"
	all := func(text string) string {
		return "api: " + text + "\njobs: " + text + "\nlogin: " + text + "\noff: " + text + "\n"
	}
	runSteps(t, flags, []step{
		{"block * user:bad -note abuse", 0, all("{blocked: true}"), ""},
		{"get * user:bad", 0, all("{blocked: true}"), ""},
		{"unblock * user:bad", 0, all("{}"), ""},
		{`override * user:bad {"plan":"gold"}`, 1, "api: {plan: gold}\n", "weir: the policy \"jobs\" is not changed: policy \"jobs\": no rule of the policy has the plan \"gold\"\nweir: the policy \"login\" is not"},
		{"remove * user:bad", 0, all("{}"), ""},
		{"block * user:file", 0, all("{blocked: true}"), ""},
		{"unblock * user:file", 1, "jobs: {}\nlogin: {}\noff: {}\n", `weir: the policy "api": the block has ended, but`},
		{"usage -rule stop api user:bad", 0, "RULE  LIMIT  USED  LEFT  NEXT  UNUSED  MODE\nstop  none   -     -     now   now     enforce\n", `note: no event and no override of the key "user:bad" was found in Redis for the policy "api" and the rule "stop"; `},
		{"block * user:bad 1x", 1, "", "UNTIL is neither"},
	}...)
}

// Overrides and blocks are listed, with their notes.
func TestRules_List(t *testing.T) {
	server := redistest.NewServer(t)
	files(t)
	write(t, "support.yaml", supportRules)
	flags := []string{"-redis", "redis://" + server.Addr, "-config", "support.yaml"}
	for _, args := range [][]string{
		{"override", "api", "user:7", "{plan: gold}"},
		{"block", "api", "a b\tc", "-text", "-note", "two  words: <é>"},
		{"block", "-text", "login", "user:8", "24h", "-note", "abuse"},
	} {
		runWhy(t, slices.Concat(flags, args)...)
		for at := time.Now().UnixMilli(); at == time.Now().UnixMilli(); { // the next entry is newer
		}
	}
	const columns = "WRITTEN|POLICY|KEY|OVERRIDE|NOTE"
	hash := sha256.Sum256([]byte("user:7"))
	lines := []string{
		"…|login|user:8|{blocked: true, until: '…'}|abuse", `…|api|a b\tc|{blocked: true}|two|words: <é>`, "…|api|#" + base64.RawURLEncoding.EncodeToString(hash[:16]) + "|{plan: gold}|",
	}
	for n, want := range map[string][]string{"100": lines, "3": lines, strconv.Itoa(math.MaxInt): lines, "2": append(slices.Clone(lines[:2]), "weir: note: there are more; -n sets the number")} {
		got := runWhy(t, append(flags[:2:2], "list", "-n", n)...)
		if want := append([]string{columns}, want...); !slices.Equal(got, want) {
			t.Errorf("-n %s: got %q, want %q", n, got, want)
		}
	}
	if got := runWhy(t, append(flags[:2:2], "-prefix", "shop:", "list")...); !slices.Equal(got, []string{columns, `weir: note: no key in Redis has the prefix "shop:test:"; there is "weir:test:"`}) {
		t.Errorf("got %q", got)
	}
	runSteps(t, strings.Join(flags[:2], " "),
		step{"get -prefix shop:", 1, "", `weir: note: no key in Redis has the prefix "shop:test:"; there is "weir:test:"`},
		step{"get -prefix shop: api k", 1, "", `weir: note: no key in Redis has the prefix "shop:test:"; there is "weir:test:"`})
	// No text of another program controls the terminal.
	for name, c := range hostile {
		member := strings.Repeat("x", 22) + ":" + c.text
		rdb := server.Client()
		testkit.Must(t, rdb.Del(t.Context(), "weir:test:{rules:test}blocks", "weir:test:{rules:test}overrides").Err())
		testkit.Must(t, rdb.Do(t.Context(), "ZADD", "weir:test:{rules:test}blocks", "+inf", member).Err())
		testkit.Must(t, rdb.Set(t.Context(), "weir:test:{rules:test}block:"+member, fmt.Sprintf(`{"at":1,"note":"%s"}`, strings.ReplaceAll(fmt.Sprintf("%+q", c.text), `"`, "")), 0).Err())
		got := output(t, append([]string{"rules"}, append(flags[:2:2], "list")...)...)
		if strings.ContainsFunc(got, controls) || strings.Count(got, "\n") != 2 {
			t.Errorf("%s: got %q", name, got)
		}
	}
	runSteps(t, strings.Join(flags[:2], " "), []step{
		{"list -n 0", 1, "", "weir: -n is not 1 or more: 0"},
		{"list -plan gold", 2, "", "weir: the command does not use the flag -plan\nusage:\n  weir rules list"},
		{"list -n x", 2, "", "invalid value \"x\" for flag -n"},
		{"list -plan gold", 2, "", "weir rules list"},
		{"get -note x api k", 2, "", "weir rules get POLICY KEY"},
		{"block -config support.yaml api k -note \x1b", 1, "", "weir: the note contains a character that is not printable"},
	}...)
}

// The user of the rules alone, without the permissions of the store, can block keys.
func TestRules_HintsWithoutPermission(t *testing.T) {
	server := redistest.NewServer(t)
	files(t)
	write(t, "support.yaml", supportRules)
	var command []any
	for _, word := range strings.Fields("ACL SETUSER operator on >password ~weir:* +mget +zmscore +multi +exec +set +del +xadd +zadd +zremrangebyscore") {
		command = append(command, word)
	}
	testkit.Must(t, server.Client().Do(t.Context(), command...).Err())
	runSteps(t, "-redis redis://operator:password@"+server.Addr+" -config support.yaml", step{"block api x", 0, "{blocked: true}\n", ""})
}

// Notes are about the keys of Redis that were looked at, and have a time of their own.
func TestRules_Hints(t *testing.T) {
	server := redistest.NewServer(t)
	files(t)
	write(t, "support.yaml", supportRules)
	flags := "-redis redis://" + server.Addr + " -prefix b: -config support.yaml"
	testkit.Must(t, server.Client().Eval(t.Context(), "for i = 1, 50000 do redis.call('SET', 'a:test:{qqqqqqqqqqqqqqqqqqqqqq}override:' .. i, '') end return 1", nil).Err())
	runSteps(t, flags, step{"get login ann", 0, "{}\n", `note: no key among some 20000 keys of Redis has the prefix "b:test:"; there is "a:test:"`})
	before := hintTime
	t.Cleanup(func() { hintTime = before })
	hintTime = 0
	var stdout, stderr strings.Builder
	if status := run(append([]string{"rules"}, strings.Fields(flags+" block * ann")...), &stdout, &stderr); status != 0 || strings.Count(stdout.String(), "{blocked: true}") != 4 || stderr.Len() > 0 {
		t.Errorf("got status %d, %q and %q", status, &stdout, &stderr)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx, cancel := longer(ended, 200)
	defer cancel()
	if at, _ := ctx.Deadline(); ctx.Err() != nil || time.Until(at) < 4*timeout {
		t.Errorf("200 policies have the time until %v", at)
	}
}
