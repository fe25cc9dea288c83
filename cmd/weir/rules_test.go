package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) {
	operator = func() string { return "" }
	hintTime, waitTime, settleTime = time.Minute, 0, time.Second
	_ = os.Setenv("WEIR_APP", "test")
	redistest.Main(m)
}

// unseen is the line of why without a process.
const unseen = "It is not known whether this is in force, because no process that has the policy is known.\n"

// A step is a command line without "weir rules", and its result.
type step struct {
	args           string // separated by spaces
	status         int
	stdout, stderr string // all of stdout, a part of stderr
}

var (
	moments = regexp.MustCompile(`(written at |again in )[^.,]*`) // that differ from run to run
	notes   = regexp.MustCompile(`weir: note: .*\n`)
)

// runSteps runs the steps with flags before the other arguments.
func runSteps(t *testing.T, flags string, steps ...step) {
	t.Helper()
	for _, s := range steps {
		var stdout, stderr strings.Builder
		args := strings.Fields("rules " + flags + " " + s.args)
		if got := run(args, &stdout, &stderr); got != s.status {
			t.Errorf("%s: got status %d, expected %d", s.args, got, s.status)
		}
		if got := moments.ReplaceAllString(stdout.String(), "$1…"); got != s.stdout {
			t.Errorf("%s: got stdout:\n%s\nexpected:\n%s", s.args, got, s.stdout)
		}
		got := stderr.String()
		if !strings.Contains(s.stderr, "note:") { // a step about another part of the output
			got = notes.ReplaceAllString(got, "")
		}
		if !strings.Contains(got, s.stderr) || s.stderr == "" && got != "" || strings.Contains(got, "weir: weir") {
			t.Errorf("%s: got stderr:\n%s\nexpected a part:\n%s", s.args, got, s.stderr)
		}
	}
}

const (
	firstRules = "policies: {api: {rules: [{name: r, algorithm: token_bucket, limit: 10/h, plans: {gold: 100/h}}], keys: {k: {plan: gold}}}}\n"
	addedRules = "api key k: added (plan gold)\napi.r plan gold: added (100/h)\napi.r: added (token_bucket 10/h)\npolicy api: added\n"
)

func TestRules(t *testing.T) {
	server, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	for name, flags := range map[string]string{
		"single":            "--redis redis://" + server.Addr + " -prefix single:",
		"database":          "-redis=redis://" + server.Addr + "/1 --prefix=database:",
		"cluster":           "-cluster -redis redis://" + cluster.Nodes[2].Addr + " -prefix cluster:",
		"cluster addresses": "-prefix addresses: -redis redis://127.0.0.1:1?addr=" + cluster.Nodes[1].Addr,
	} {
		t.Run(name, func(t *testing.T) {
			files(t)
			write(t, "first.yaml", firstRules)
			write(t, "second.yaml", strings.Replace(firstRules, "10/h", "20/h", 1))
			write(t, "third.yaml", strings.NewReplacer("10/h", "20/h", "gold", "silver").Replace(firstRules))
			write(t, "fourth.yaml", strings.NewReplacer("10/h", "20/h", "gold", "silver", "token_bucket", "sliding_log").Replace(firstRules))
			write(t, "fifth.yaml", strings.NewReplacer("10/h", "20/h", "gold", "silver", "token_bucket", "sliding_log").Replace(firstRules)+"\nall_routes: api\n")
			runSteps(t, flags, []step{
				{"get", 1, "", "weir: configuration of Redis: there is no configuration"},
				{"get api x", 1, "", "weir: configuration of Redis: there is no configuration"},
				{"put bad.yaml", 1, "", "bad.yaml:3:54: "},
				{"put missing.yaml", 1, "", "weir: open missing.yaml: no such file"},
				{"put first.yaml", 0, addedRules, ""},
				{"put second.yaml", 0, "api.r: 10/h to 20/h\n", ""},
				{"get", 0, strings.Replace(firstRules, "10/h", "20/h", 1), ""},
				{"get api x", 0, "{}\n", ""},
				{"get api k", 0, "{plan: gold}\n", ""},
				{`override api x {"plan":"gold"}`, 0, "{plan: gold}\n", ""},
				{`override api x {"plan":"gold","until":"9999-01-01T00:00:00Z"}`, 0, "{plan: gold, until: '9999-01-01T00:00:00Z'}\n", ""},
				{"block api x", 0, "{blocked: true}\n", ""},
				{`override api x {"limits":{"r":"5/h"}}`, 0, "{blocked: true}\n", ""},
				{"unblock api x", 0, "{limits: {r: 5/h}}\n", ""},
				{"block api x 9999-01-01T00:00:00Z", 0, "{blocked: true, until: '9999-01-01T00:00:00Z'}\n", ""},
				{"get api x", 0, "{blocked: true, until: '9999-01-01T00:00:00Z'}\n", ""},
				{"why api x -plan gold", 0, "Blocked: every event is denied.\nThe block of the key ends at 9999-01-01T00:00:00Z.\nThe block is in Redis, written at ….\nThe override {limits: {r: 5/h}} is in Redis, written at ….\n" + unseen +
					"RULE  ALGORITHM     LIMIT    SOURCE               USED  LEFT  NEXT   MODE\nr     token_bucket  blocked  override of the key  -     -     never  enforce\n", ""},
				{"why api k", 0, "Admitted.\nThe override {plan: gold} is in Redis.\n" +
					"RULE  ALGORITHM     LIMIT  SOURCE                            USED  LEFT  NEXT  MODE\nr     token_bucket  100/h  plan \"gold\", override of the key  0     100   now   enforce\n", ""},
				{"why apis x", 1, "", `weir: Redis has no policy "apis"; it has api`},
				{"get api y", 0, "{}\n", ""},
				{"remove api x", 0, "{}\n", ""},
				{"block api -prefix", 0, "{blocked: true}\n", ""}, // a key: flags end at the policy
				{"get apis x", 1, "", `weir: Redis has no policy "apis"; it has api`},
				{`override api x {"plan":"golf"}`, 1, "", `weir: policy "api": no rule of the policy has the plan "golf"`},
				{`override api x {"plans":"gold"}`, 1, "", "OVERRIDE:1:2: plans: is an unknown field"},
				{`override api old {"plan":"gold"}`, 0, "{plan: gold}\n", ""},
				{"put third.yaml", 0, "api key k: plan gold to plan silver\napi.r plan gold: removed (was 100/h)\napi.r plan silver: added (100/h)\n", ""},
				{"why -plan silver api old", 0, "Admitted.\nNo rule of the policy has the plan \"gold\" of the override.\nThe override {plan: gold} is in Redis, written at ….\n" + unseen +
					"RULE  ALGORITHM     LIMIT  SOURCE         USED  LEFT  NEXT  MODE\nr     token_bucket  100/h  plan \"silver\"  0     100   now   enforce\n", ""},
				{`override api other {"limits":{"r":"9/h\u0020burst\u002012"}}`, 0, "{limits: {r: 9/h burst 12}}\n", ""},
				{"put fourth.yaml", 0, "api.r algorithm: token_bucket to sliding_log\napi.r: begins unused for every key\n", ""},
				{"why api other -plan silver", 0, "Admitted.\nThe rule \"r\" cannot have the limit of the override, 9/h burst 12.\nThe override {limits: {r: 9/h burst 12}} is in Redis, written at ….\n" + unseen +
					"RULE  ALGORITHM    LIMIT  SOURCE         USED  LEFT  NEXT  MODE\nr     sliding_log  100/h  plan \"silver\"  0     100   now   enforce\n", ""},
				{"put fifth.yaml", 0, "all_routes: added (api)\n", ""},
				{"why /x y", 0, "No route matches: the request has the limiter of the middleware, and the policy \"api\" of all routes.\n" +
					"Admitted: no event and no override of the key is in Redis.\nThe limits are those without a plan; the policy has silver: see -plan.\n" +
					"RULE  ALGORITHM    LIMIT  SOURCE  USED  LEFT  NEXT  MODE\nr     sliding_log  20/h   base    0     20    now   enforce\n", ""},
				{"block api x -- -1h", 1, "", `weir: UNTIL is past: "-1h"`},
				{"get api x", 0, "{}\n", ""},
			}...)
		})
	}
	t.Run("cluster without flag", func(t *testing.T) {
		var missing int
		for _, node := range cluster.Nodes {
			var stdout, stderr strings.Builder
			run([]string{"rules", "get", "-redis", "redis://" + node.Addr}, &stdout, &stderr)
			if strings.Contains(stderr.String(), "a Redis Cluster needs the flag -cluster") {
				missing++
			}
		}
		if missing != len(cluster.Nodes)-1 {
			t.Errorf("%d of %d nodes: got the advice to use -cluster", missing, len(cluster.Nodes))
		}
	})
}

// Overrides are found by a Set with the same prefix and secret, and checked with the policies of a
// file if there is one.
func TestRules_Environment(t *testing.T) {
	server := redistest.Shared(t)
	files(t)
	write(t, "first.yaml", firstRules)
	const prefix, secret = "environment:", "a secret of sixteen or more"
	t.Setenv("WEIR_REDIS_URL", "redis://"+server.Addr)
	t.Setenv("WEIR_KEY_SECRET", secret)
	runSteps(t, "-prefix "+prefix, []step{
		{"block api x", 1, "", "there is no configuration"},
		{"block -config first.yaml api x", 0, "{blocked: true}\n", ""},
		{"block -config first.yaml login x", 1, "", `no policy "login"`},
		{"block -config bad.yaml api x", 1, "", "bad.yaml:3:54: "},
		{"get -config first.yaml api x", 0, "{blocked: true}\n", ""},
		{"why -config first.yaml apis x", 1, "", `weir: first.yaml has no policy "apis"`},
	}...)
	config, err := rules.Parse("first.yaml", []byte(firstRules))
	testkit.Must(t, err)
	source := rules.Redis(server.Client(), "test", rules.Prefix(prefix), rules.KeySecret([]byte(secret)))
	set, err := rules.New(memstore.New(), config, rules.Overrides(source))
	testkit.Must(t, err)
	if o, err := set.OverrideOf(t.Context(), "api", "x"); err != nil || !o.Blocked {
		t.Errorf("got %v, %v, want a block", o, err)
	}
}

// Values of other programs are shown, and replaced.
func TestRules_InvalidValues(t *testing.T) {
	server := redistest.Shared(t)
	rdb, prefix := server.Client(), "invalid:"
	files(t)
	write(t, "first.yaml", firstRules)
	flags := "-prefix " + prefix + " -redis redis://" + server.Addr
	for text, shown := range map[string]string{
		"é\t\u00a0\r\n\x1b[2J\r\u009b\xff\x00": "é\t\u00a0\r\n" + `\x1b[2J\r\u009b\xff\x00`,
		"polices: {}\n":                        "polices: {}\n",
	} {
		testkit.Must(t, rdb.HSet(t.Context(), prefix+"test:rules", "text", text, "version", "x").Err())
		runSteps(t, flags, step{"get", 0, shown, ""})
	}
	if err := rdb.HSet(t.Context(), prefix+"test:rules", "text", "polices: {}\n").Err(); err != nil {
		t.Fatal(err)
	}
	runSteps(t, flags, []step{
		{"get", 0, "polices: {}\n", ""},
		{"get api x", 1, "", "Redis:1:1: polices: is an unknown field"},
		{"put -remove first.yaml", 0, addedRules, "weir: the configuration in Redis was invalid; it is replaced\n"},
		{`override api x {"plan":"gold"}`, 0, "{plan: gold}\n", ""},
	}...)
	keys := rdb.Keys(t.Context(), prefix+"*override:api").Val()
	if len(keys) != 1 {
		t.Fatalf("got the keys %q", keys)
	}
	if err := rdb.Set(t.Context(), keys[0], "{block: true}", 0).Err(); err != nil {
		t.Fatal(err)
	}
	runSteps(t, flags, []step{
		{"get api x", 1, "", "Redis:1:2: block: is an unknown field"},
		{"why api x", 1, "", "Redis:1:2: block: is an unknown field"},
		{"block api x", 0, "{blocked: true}\n", ""},
		{"get api x", 0, "{blocked: true}\n", ""},
		{"why -plan gold api x", 0, "Blocked: every event is denied.\nThe block is in Redis, written at ….\nAn invalid override is in Redis, written at ….\n" + unseen +
			"RULE  ALGORITHM     LIMIT    SOURCE               USED  LEFT  NEXT   MODE\nr     token_bucket  blocked  override of the key  -     -     never  enforce\n", ""},
		{"unblock * x", 1, "", `weir: the policy "api": an override in Redis is invalid`},
		{"get * x", 1, "", `weir: the policy "api": an override in Redis is invalid`},
	}...)
	if got := runWhy(t, append(strings.Fields(flags), "list")...); len(got) != 2 || !strings.HasSuffix(got[1], "|invalid|") {
		t.Errorf("got the list %q", got)
	}
	testkit.Must(t, rdb.Del(t.Context(), keys[0]).Err())
	if got := runWhy(t, append(strings.Fields(flags), "list")...); len(got) != 1 {
		t.Errorf("got the list %q, with an override that is absent", got)
	}
	runSteps(t, flags, []step{
		{"remove api x", 0, "{}\n", ""},
	}...)
}

func TestRules_Errors(t *testing.T) {
	files(t)
	hanging := redistest.NewServer(t)
	testkit.Must(t, hanging.Pause())
	t.Cleanup(func() { _ = hanging.Resume() })
	const down = "weir: configuration of Redis: dial tcp 127.0.0.1:1: connect: connection refused\n"
	runSteps(t, "", []step{
		{"-h", 0, "", "usage:\n  weir rules why POLICY|ROUTE KEY   "},
		{"get -h", 0, "", "usage:\n  weir rules get POLICY KEY   "},
		{"", 2, "", "usage:\n  weir rules why POLICY|ROUTE KEY   "},
		{"got", 2, "", "  weir rules remove"},
		{"get api", 2, "", "  weir rules get POLICY KEY "},
		{"get -config b.yaml", 2, "", "  weir rules get POLICY KEY "},
		{"put -config b.yaml a.yaml", 2, "", "usage:\n  weir rules put FILE "},
		{"put b.yaml -redis redis://127.0.0.1:1", 1, "", down},
		{"put b.yaml -rediss redis://127.0.0.1:1", 2, "", "flag provided but not defined: -rediss\n"},
		{"get -rediss redis://127.0.0.1:1", 2, "", "flag provided but not defined: -rediss\n"},
		{"-redis redis://127.0.0.1:1 get", 1, "", down},
		{"put -redis redis://127.0.0.1:1 b.yaml", 1, "", down},
		{"get -redis redis://127.0.0.1:1 api x", 1, "", down},
		{"get -cluster -redis redis://127.0.0.1:1", 1, "", "connection refused\n"},
		{"get -redis redis://127.0.0.1:1?master_name=m", 1, "", "connection refused\n"},
		{"get -redis redis://" + hanging.Addr + "?read_timeout=50ms&max_retries=-1", 1, "", "weir: configuration of Redis: i/o timeout\n"},
		{"get -redis 127.0.0.1:6379", 1, "", "weir: the URL of Redis is invalid"},
		{"get -redis http://127.0.0.1", 1, "", "weir: the URL of Redis is invalid"},
		{"get -cluster -redis http://127.0.0.1", 1, "", "weir: the URL of Redis is invalid"},
		{"get -redis http://127.0.0.1?master_name=m", 1, "", "weir: the URL of Redis is invalid"},
		{"get -prefix " + strings.Repeat("x", 33), 1, "", "weir: the prefix and the name"},
		{"get -prefix {", 1, "", "weir: the prefix and the name"},
	}...)
	t.Setenv("WEIR_KEY_SECRET", strings.Repeat("x", 15))
	runSteps(t, "", step{"get", 1, "", "weir: WEIR_KEY_SECRET is shorter than 16 bytes\n"})
}

// An error about a URL contains no part of it: the password may be anywhere if it is not escaped.
func TestRules_PasswordInURL(t *testing.T) {
	for _, url := range []string{
		"redis://:12/S3CRET@127.0.0.1:1",
		"redis://user:12?S3CRET@127.0.0.1:1",
		"redis://user:12/S3CRET@127.0.0.1:1/0",
		"redis://user:12#S3CRET@127.0.0.1:1",
		"redis://:S3/CRET@127.0.0.1:1",
		"redis://:S3%CRET@127.0.0.1:1",
		"S3CRET://127.0.0.1:1",
		"redis://:12/S3CRET@127.0.0.1:1?master_name=m",
		"redis://:12/S3CRET@127.0.0.1:1?addr=127.0.0.1:2",
	} {
		t.Setenv("WEIR_REDIS_URL", url)
		var stdout, stderr strings.Builder
		status := run([]string{"rules", "get"}, &stdout, &stderr)
		if got := stderr.String(); status != 1 || !strings.Contains(got, "expected redis://USER:PASSWORD@HOST:PORT/DB") || strings.Contains(got, "S3") || strings.Contains(got, "12") {
			t.Errorf("%s: got status %d and %s", url, status, got)
		}
	}
}

func TestParseUntil(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"24h":                       "2027-01-02T00:00:00Z",
		"2027-01-01T00:00:01Z":      "2027-01-01T00:00:01Z",
		"2027-01-01T00:00:00-01:00": "2027-01-01T01:00:00Z",
		"2027-01-01T00:00:00Z":      `UNTIL is past: "2027-01-01T00:00:00Z"`,
		"0s":                        `UNTIL is past: "0s"`,
		"2027-01-02":                `UNTIL is neither a time such as 2027-01-01T00:00:00Z nor a duration such as 24h or 7d: "2027-01-02"`,
		"7d":                        "2027-01-08T00:00:00Z",
		"-1d":                       `UNTIL is neither a time such as 2027-01-01T00:00:00Z nor a duration such as 24h or 7d: "-1d"`,
		"99999d":                    `UNTIL is neither a time such as 2027-01-01T00:00:00Z nor a duration such as 24h or 7d: "99999d"`,
		"":                          `UNTIL is neither a time such as 2027-01-01T00:00:00Z nor a duration such as 24h or 7d: ""`,
	} {
		until, err := parseUntil(text, now)
		got := until.UTC().Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// The states of a key are those of a program with the same prefix and secret.
func TestRules_Usage(t *testing.T) {
	server, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	const config = `policies:
  api:
    rules:
      - {name: minute, algorithm: sliding_log, limit: 5/m, plans: {gold: 9/m, staff: unlimited}}
      - {name: day, algorithm: fixed_window, limit: 8/d, unit: tokens, mode: shadow}
    keys: {ann: {limits: {minute: 7/m}}, bob: {blocked: true}, sue: {plan: gold}}
`
	const secret = "a secret of sixteen or more"
	for name, c := range map[string]struct {
		flags, secret string
		rdb           redis.UniversalClient
	}{
		"single":  {"-redis redis://" + server.Addr + " -prefix usage:", "", server.Client()},
		"secret":  {"-redis redis://" + server.Addr + " -prefix hidden:", secret, server.Client()},
		"cluster": {"-cluster -redis redis://" + cluster.Nodes[0].Addr + " -prefix usage:", "", cluster.Client()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WEIR_KEY_SECRET", c.secret)
			prefix := strings.Fields(c.flags)
			opts := []redisstore.Option{redisstore.Prefix(prefix[len(prefix)-1]), redisstore.Timeout(10 * time.Second)}
			if c.secret != "" {
				opts = append(opts, redisstore.KeySecret([]byte(c.secret)))
			}
			files(t)
			write(t, "api.yaml", config)
			parsed, err := rules.Parse("api.yaml", []byte(config))
			testkit.Must(t, err)
			set, err := rules.New(redisstore.New(c.rdb, "test", opts...), parsed)
			testkit.Must(t, err)
			l, err := set.Limiter("api")
			testkit.Must(t, err)
			testkit.Admit(t, l, "x", 4)
			testkit.Admit(t, l, "ann", 6)
			testkit.Admit(t, l.Plan("gold"), "eve", 9)
			flags := c.flags + " -config api.yaml"
			usage := func(args string, want ...string) {
				t.Helper()
				var stdout, stderr strings.Builder
				if status := run(strings.Fields("rules "+flags+" "+args), &stdout, &stderr); status != 0 {
					t.Fatalf("%s: got status %d, %s", args, status, &stderr)
				}
				var got []string
				for line := range strings.Lines(stdout.String()) {
					// without the two times, which differ
					f := strings.Split(regexp.MustCompile(" {2,}").ReplaceAllString(strings.TrimSpace(line), "|"), "|")
					got = append(got, strings.Join(append(f[:4:4], f[6:]...), " "))
				}
				if want = append([]string{"RULE LIMIT USED LEFT MODE"}, want...); !slices.Equal(got, want) {
					t.Errorf("%s: got  %q\nwant %q", args, got, want)
				}
			}
			usage("usage api none", "minute 5/m 0 5 enforce", "day 8/d (tokens) 0 8 shadow")
			usage("usage api x", "minute 5/m 4 1 enforce", "day 8/d (tokens) 4 4 shadow")
			usage("usage -rule day api x", "day 8/d (tokens) 4 4 shadow")
			usage("usage api ann", "minute 7/m 6 1 enforce", "day 8/d (tokens) 6 2 shadow")
			usage("usage -rule day api ann", "day 8/d (tokens) 6 2 shadow")
			usage("usage -plan gold api eve", "minute 9/m 9 0 enforce", "day 8/d (tokens) 0 8 shadow") // 9 of 8 were not charged to the shadow rule
			usage("usage -plan staff api eve", "minute unlimited - - enforce", "day 8/d (tokens) 0 8 shadow")
			usage("usage api sue", "minute 9/m 0 9 enforce", "day 8/d (tokens) 0 8 shadow")
			usage("usage api bob", "minute blocked - - enforce", "day blocked - - enforce")
			usage("credit api x 1", "minute 5/m 3 2 enforce", "day 8/d (tokens) 3 5 shadow")
			usage("credit -rule minute api x 2", "minute 5/m 1 4 enforce")
			usage("credit api x 100", "minute 5/m 0 5 enforce", "day 8/d (tokens) 0 8 shadow")
			usage("reset -rule minute api ann", "minute 7/m 0 7 enforce")
			usage("usage api ann", "minute 7/m 0 7 enforce", "day 8/d (tokens) 6 2 shadow")
			usage("reset api ann", "minute 7/m 0 7 enforce", "day 8/d (tokens) 0 8 shadow")
			usage("reset api eve", "minute 5/m 0 5 enforce", "day 8/d (tokens) 0 8 shadow")
			testkit.Admit(t, l.Plan("gold"), "eve", 9)
			runSteps(t, flags,
				step{"usage apis x", 1, "", `weir: api.yaml has no policy "apis"; it has api`},
				step{"reset -rule hour api x", 1, "", `weir: the policy has no rule "hour"; it has day, minute`},
				step{"usage -plan golf api x", 1, "", `weir: the policy has no plan "golf"; it has gold, staff`},
				step{"credit api x 0", 1, "", `weir: the number of events is not 1 or more: "0"`},
				step{"credit api x -1", 1, "", `weir: the number of events is not 1 or more: "-1"`},
				step{"credit api x", 2, "", "weir rules credit POLICY KEY N"},
				step{"block -rule minute api x", 2, "", "weir rules block POLICY KEY [UNTIL]"},
				step{"get -plan gold api x", 2, "", "weir rules get POLICY KEY"},
			)
		})
	}
	runSteps(t, "-redis redis://"+server.Addr+" -prefix absent:",
		step{"override api x {}", 1, "", "if the policies are in a file, the flag -config names it"},
		step{"usage api x", 1, "", "if the policies are in a file, the flag -config names it"})
}

// The places of a key are those that running events of a program hold.
func TestRules_InFlight(t *testing.T) {
	server := redistest.Shared(t)
	const config = `policies:
  api:
    rules:
      - {name: exports, algorithm: in_flight, limit: 2, plans: {pro: 20}, unit: exports}
`
	files(t)
	write(t, "api.yaml", config)
	write(t, "more.yaml", strings.Replace(config, "limit: 2,", `limit: "3", max_hold: 1h,`, 1))
	parsed, err := rules.Parse("api.yaml", []byte(config))
	testkit.Must(t, err)
	set, err := rules.New(redisstore.New(server.Client(), "test", redisstore.Prefix("places:"), redisstore.Timeout(10*time.Second)), parsed)
	testkit.Must(t, err)
	l, err := set.Limiter("api")
	testkit.Must(t, err)
	var running []*core.Reservation
	for range 2 {
		r := testkit.Reserve(t, l, "x", 1)
		running = append(running, r)
	}
	const columns = "RULE     LIMIT        "
	unused := columns + "USED  LEFT  NEXT  UNUSED  MODE\nexports  2 (exports)  0     2     now   now     enforce\n"
	flags := "-redis redis://" + server.Addr + " -prefix places: -config api.yaml"
	runSteps(t, flags,
		step{"usage api y", 0, unused, ""},
		step{"usage api x", 0, columns + "USED  LEFT  NEXT                UNUSED        MODE\nexports  2 (exports)  2     0     when an event ends  when all end  enforce\n", ""},
		step{"credit api x 1", 1, "", "weir: the rule exports counts running events, which end by themselves"},
		step{`override api x {"limits":{"exports":"20/s"}}`, 1, "", `limit 20/s has a period, and in_flight counts events at the same time: write 20`},
		step{`override api x {"limits":{"exports":"20"}}`, 0, "{limits: {exports: 20}}\n", ""},
		step{"usage api x", 0, "RULE     LIMIT         USED  LEFT  NEXT  UNUSED        MODE\nexports  20 (exports)  2     18    now   when all end  enforce\n", ""},
		step{"remove api x", 0, "{}\n", ""},
		step{"block api x", 0, "{blocked: true}\n", ""},
		step{"usage api x", 0, "RULE     LIMIT    USED  LEFT  NEXT   UNUSED  MODE\nexports  blocked  -     -     never  now     enforce\n", ""},
		step{"remove api x", 0, "{}\n", ""},
		step{"reset api x", 0, unused, ""},
	)
	for _, r := range running {
		testkit.Must(t, r.Release(t.Context()))
	}
	var stdout strings.Builder
	if status := run([]string{"diff", "api.yaml", "more.yaml"}, &stdout, &stdout); status != 0 || stdout.String() != "api.exports max hold: none to 1h\napi.exports: 2 to 3\n" {
		t.Errorf("diff: got status %d and %q", status, &stdout)
	}
}

// The places of a key by cost are those that the cost of running events of a program takes.
func TestRules_ByCost(t *testing.T) {
	server := redistest.Shared(t)
	const config = `policies: {api: {rules: [{name: tokens, algorithm: in_flight, limit: 90000, by_cost: true, unit: tokens}]}}`
	files(t)
	write(t, "api.yaml", config)
	parsed, err := rules.Parse("api.yaml", []byte(config))
	testkit.Must(t, err)
	set, err := rules.New(redisstore.New(server.Client(), "test", redisstore.Prefix("weights:"), redisstore.Timeout(10*time.Second)), parsed)
	testkit.Must(t, err)
	l, err := set.Limiter("api")
	testkit.Must(t, err)
	r := testkit.Reserve(t, l, "x", 60_000)
	const (
		columns = "RULE    LIMIT                   USED   LEFT   NEXT  UNUSED        MODE\n"
		line    = columns + "tokens  90000 by cost (tokens)  60000  30000  now   when all end  enforce\n"
		unused  = "RULE    LIMIT                   USED  LEFT   NEXT  UNUSED  MODE\ntokens  90000 by cost (tokens)  0     90000  now   now     enforce\n"
	)
	runSteps(t, "-redis redis://"+server.Addr+" -prefix weights: -config api.yaml",
		step{"usage api x", 0, line, ""},
		step{"credit api x 1", 1, "", "weir: the rule tokens counts running events, which end by themselves"},
		step{`override api x {"limits":{"tokens":"1000001"}}`, 1, "", "limit has more than a million places"},
		step{`override api x {"limits":{"tokens":"60000"}}`, 0, "{limits: {tokens: 60000}}\n", ""},
		step{"usage api x", 0, "RULE    LIMIT                   USED   LEFT  NEXT                UNUSED        MODE\ntokens  60000 by cost (tokens)  60000  0     when an event ends  when all end  enforce\n", ""},
		step{"remove api x", 0, "{}\n", ""},
		step{"usage api x", 0, line, ""},
		step{"reset api x", 0, unused, ""},
	)
	testkit.Must(t, r.Release(t.Context()))
}

// The pause of a key is that of a program, and differs from a block.
func TestRules_Pause(t *testing.T) {
	server := redistest.Shared(t)
	const config = `policies: {api: {rules: [{name: stop, algorithm: pause}, {name: day, algorithm: fixed_window, limit: 5/d}], keys: {old: {blocked: true, until: 2020-01-01T00:00:00Z}}}}`
	files(t)
	write(t, "api.yaml", config)
	parsed, err := rules.Parse("api.yaml", []byte(config))
	testkit.Must(t, err)
	set, err := rules.New(redisstore.New(server.Client(), "test", redisstore.Prefix("pauses:"), redisstore.Timeout(10*time.Second)), parsed)
	testkit.Must(t, err)
	l, err := set.Limiter("api")
	testkit.Must(t, err)
	for _, key := range []string{"x", "old"} {
		_, err := l.Reset(t.Context(), key) // of an earlier run
		testkit.Must(t, err)
		testkit.Admit(t, l, key, 2)
		testkit.Must(t, l.Pause(t.Context(), key, 9*time.Hour))
	}
	const (
		open    = "stop none - - now now enforce\n"
		paused  = "stop paused - - in 9h in 9h enforce\n"
		blocked = "stop blocked - - in 8h in 8h enforce\n"
	)
	for _, c := range []struct{ args, want string }{
		{"usage -rule stop api y", open},
		{"usage -rule stop api x", paused},
		{"usage -rule stop api old", paused},
		{"block api x 8h", ""},
		{"usage -rule stop api x", blocked},
		{"unblock api x", ""},
		{"usage -rule stop api x", paused},
		{"reset -rule day api x", "day 5/d 0 5 now now enforce\n"},
		{"usage -rule stop api x", paused},
		{"reset -rule stop api x", open},
	} {
		var stdout, stderr strings.Builder
		args := strings.Fields("rules -redis redis://" + server.Addr + " -prefix pauses: -config api.yaml " + c.args)
		if status := run(args, &stdout, &stderr); status != 0 {
			t.Fatalf("%s: got status %d, %s", c.args, status, &stderr)
		}
		_, got, _ := strings.Cut(stdout.String(), "\n")
		for pattern, text := range map[string]string{" +": " ", `8h59m[0-9.]+s|9h0m0s`: "9h", `7h59m[0-9.]+s|8h0m0s`: "8h"} {
			got = regexp.MustCompile(pattern).ReplaceAllString(got, text)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
	}
	testkit.Admit(t, l, "x", 5)
}

// A quota counts until the end of its period, in the time zone of the rule.
func TestRules_Quota(t *testing.T) {
	server := redistest.Shared(t)
	const config = `policies:
  api:
    rules:
      - {name: calls, algorithm: quota, limit: 10/month, plans: {pro: 20/month}, headroom: {batch: 20, pro: 50}, timezone: Asia/Tokyo, unit: calls, candidate: {algorithm: quota, limit: 12/week}}
`
	files(t)
	write(t, "api.yaml", config)
	write(t, "other.yaml", strings.NewReplacer("10/month", "11/month", "Asia/Tokyo", "Asia/Seoul", "batch: 20, ", "").Replace(config))
	write(t, "span.yaml", strings.Replace(config, "10/month", "10/30d", 1))
	parsed, err := rules.Parse("api.yaml", []byte(config))
	testkit.Must(t, err)
	set, err := rules.New(redisstore.New(server.Client(), "test", redisstore.Prefix("quota:"), redisstore.Timeout(10*time.Second)), parsed)
	testkit.Must(t, err)
	l, err := set.Limiter("api")
	testkit.Must(t, err)
	testkit.Admit(t, l.Plan("batch"), "x", 8)
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	testkit.Must(t, err)
	now := time.Now().In(tokyo)
	end := "at " + time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, tokyo).Format(time.RFC3339)
	now = now.UTC()
	week := "at " + time.Date(now.Year(), now.Month(), now.Day()+7-int(now.Weekday()+6)%7, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	// table returns the output for the rule and its candidate, with the widths of tabwriter.
	table := func(rows ...[]string) string {
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{{"RULE", "LIMIT", "USED", "LEFT", "NEXT", "UNUSED", "MODE"}}, rows...) {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		testkit.Must(t, w.Flush())
		return b.String()
	}
	candidate := []string{"calls.candidate", "12/week in UTC", "8", "4", "now", week, "shadow"}
	flags := "-redis redis://" + server.Addr + " -prefix quota: -config api.yaml"
	runSteps(t, flags,
		step{"usage api y", 0, table([]string{"calls", "10/month in Asia/Tokyo (calls)", "0", "10", "now", "now", "enforce"},
			[]string{"calls.candidate", "12/week in UTC", "0", "12", "now", "now", "shadow"}), ""},
		step{"usage api x", 0, table([]string{"calls", "10/month in Asia/Tokyo (calls)", "8", "2", "now", end, "enforce"}, candidate), ""},
		step{"usage -plan batch api x", 0, table([]string{"calls", "10/month in Asia/Tokyo headroom 20% (calls)", "8", "0", end, end, "enforce"}, candidate), ""},
		step{"usage -plan pro api x", 0, table([]string{"calls", "20/month in Asia/Tokyo headroom 50% (calls)", "8", "2", "now", end, "enforce"}, candidate), ""},
		step{"usage -plan free api x", 1, "", `weir: the policy has no plan "free"; it has batch, pro`},
		step{`override api x {"limits":{"calls":"20/h"}}`, 1, "", "limit 20/h has a fixed period, and quota counts by the calendar"},
		step{`override api x {"plan":"batch"}`, 0, "{plan: batch}\n", ""},
		step{"usage api x", 0, table([]string{"calls", "10/month in Asia/Tokyo headroom 20% (calls)", "8", "0", end, end, "enforce"}, candidate), ""},
		step{`override api x {"limits":{"calls":"30/month"}}`, 0, "{limits: {calls: 30/month}}\n", ""},
		step{"usage api x", 0, table([]string{"calls", "30/month in Asia/Tokyo (calls)", "8", "22", "now", end, "enforce"}, candidate), ""},
		step{"why api x", 0, "Admitted.\nThe override {limits: {calls: 30/month}} is in Redis, written at ….\n" + unseen +
			"RULE             ALGORITHM  LIMIT                           SOURCE               USED  LEFT  NEXT  MODE\n" +
			"calls            quota      30/month in Asia/Tokyo (calls)  override of the key  8     22    now   enforce\n" +
			"calls.candidate  quota      12/week in UTC                  base                 8     4     now   shadow\n", ""},
		step{"block api x", 0, "{blocked: true}\n", ""},
		step{"usage api x", 0, table([]string{"calls", "blocked", "-", "-", "never", "now", "enforce"},
			[]string{"calls.candidate", "12/week in UTC", "-", "-", "-", "-", "shadow"}), ""},
		step{"remove api x", 0, "{}\n", ""},
		step{"credit -rule calls api x 3", 0, table([]string{"calls", "10/month in Asia/Tokyo (calls)", "5", "5", "now", end, "enforce"},
			[]string{"calls.candidate", "12/week in UTC", "5", "7", "now", week, "shadow"}), ""},
		step{"reset api x", 0, table([]string{"calls", "10/month in Asia/Tokyo (calls)", "0", "10", "now", "now", "enforce"},
			[]string{"calls.candidate", "12/week in UTC", "0", "12", "now", "now", "shadow"}), ""},
	)
	var stdout strings.Builder
	if status := run([]string{"diff", "api.yaml", "other.yaml"}, &stdout, &stdout); status != 0 ||
		stdout.String() != "api.calls headroom batch: removed (was 20%)\napi.calls timezone: Asia/Tokyo to Asia/Seoul\napi.calls: 10/month to 11/month\n" {
		t.Errorf("diff: got status %d and %q", status, &stdout)
	}
	stdout.Reset()
	if status := run([]string{"check", "span.yaml"}, &stdout, &stdout); status != exitError || !strings.Contains(stdout.String(), "span.yaml:4:48: policies.api.rules[0].limit: limit 10/30d has a fixed period, and quota counts by the calendar: write 10/month") {
		t.Errorf("check: got status %d and %q", status, &stdout)
	}
}

func TestWait(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "now", core.Never: "never", 1: "in 1ms", time.Millisecond: "in 1ms", time.Millisecond + 1: "in 2ms", time.Hour: "in 1h0m0s",
	} {
		if got := wait(d); got != want {
			t.Errorf("%d: got %q, want %q", d, got, want)
		}
	}
}
