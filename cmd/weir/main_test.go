package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// files writes the named files into a directory, which becomes the working directory.
func files(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	const (
		rule  = "{name: second, algorithm: token_bucket, limit: 10/s, plans: {gold: 100/s}, candidate: {algorithm: sliding_log, limit: 7/s}}"
		hour  = "{name: hour, algorithm: sliding_log, limit: 500/h, mode: shadow, plans: {gold: 900/h, banned: blocked}}"
		start = "policies: {api: {rules: [" + rule + ", " + hour + "]"
	)
	for name, content := range map[string]string{
		"a.yaml": start + `, keys: {k: {plan: gold, limits: {second: 5/s}}, old: {plan: banned, until: "2020-01-01T00:00:00Z"}, new: {plan: banned, until: "9999-01-01T00:00:00Z"}}}}`,
		"b.yaml": start + "}}",
		"r.yaml": start + "}}\nroutes: {\"POST /login/{name}\": api, example.com/v1/: api}",
		"all.yaml": start + "}, login: {rules: [{name: login, algorithm: sliding_log, limit: 5/h}], keys: {k: {blocked: true}}}}\n" +
			"routes: {POST /login: login, /v1/: api}\nall_routes: api",
		"toomany.yaml": "policies:\n  a: {rules: [" + manyRules(65) + "]}\n  b: {rules: [" + manyRules(64) + "]}\nroutes: {/b: b}\nall_routes: a\n",
		// user:1 is the 2074th of 10 000, user:2 the 2581st, user:3 the 6832nd.
		"part.yaml":   start + ", enforce: 25.5, keys: {\"user:3\": {blocked: true, plan: gold}}}}",
		"unit.yaml":   "policies: {api: {rules: [{name: r, algorithm: sliding_log, limit: 9/h, unit: tokens, plans: {staff: unlimited}}, {name: s, algorithm: fixed_window, limit: 5/d, from_first: true}]}}",
		"cost.yaml":   "policies: {api: {rules: [{name: r, algorithm: in_flight, limit: 90000, by_cost: true, unit: tokens, plans: {pro: 1000000}, headroom: {pro: 20}, candidate: {algorithm: in_flight, limit: 2000, by_cost: true}}, {name: s, algorithm: in_flight, limit: 5}], keys: {k: {limits: {r: 100}}, b: {blocked: true}}}}",
		"pause.yaml":  "policies: {api: {rules: [{name: stop, algorithm: pause}], keys: {k: {blocked: true}}}}",
		"long.yaml":   "policies: {api: {rules: [{name: r, algorithm: sliding_log, limit: 9/h, unit: " + strings.Repeat("x", 33) + "}]}}",
		"routes.yaml": start + "}}\nroutes: {get /a: api}",
		"off.yaml":    start + ", disabled: true}}",
		"alloff.yaml": start + "}}\ndisabled: true",
		"bad.yaml":    "policies:\n  api:\n    rules: [{name: r, algorithm: sliding_log, limit: 10}]\ndisable: true\n",
	} {
		write(t, name, content)
	}
}

// manyRules returns n rules.
func manyRules(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("{name: r%d, algorithm: sliding_log, limit: 5/m}", i))
	}
	return strings.Join(all, ", ")
}

func write(t *testing.T, name, content string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(name, []byte(content), 0o600))
}

const columns = "RULE              ALGORITHM     LIMIT  SOURCE  MODE\n"

// The usage of a command has its own flags, and that of several has the names of the commands of a flag.
func TestRun_UsageFlags(t *testing.T) {
	for args, c := range map[string]struct{ has, hasNot []string }{
		"list -h":  {[]string{"\n  -n NUMBER\n    \tat most this NUMBER"}, []string{"-note", "-remove", "Without IN", "of list"}},
		"why -h":   {[]string{"\n  -plan NAME\n    \tthe plan of", "Without IN", "WEIR_KEY_SECRET"}, []string{"  -n ", "-if-version"}},
		"rules -h": {[]string{"\n  -note TEXT\n    \tof override and block: ", "-if-version"}, []string{"Without IN"}},
	} {
		var stdout, stderr strings.Builder
		if got := run(strings.Fields(args), &stdout, &stderr); got != 0 {
			t.Errorf("%s: got status %d", args, got)
		}
		for _, part := range c.has {
			if !strings.Contains(stderr.String(), part) {
				t.Errorf("%s: the usage has no %q:\n%s", args, part, &stderr)
			}
		}
		for _, part := range c.hasNot {
			if strings.Contains(stderr.String(), part) {
				t.Errorf("%s: the usage has %q:\n%s", args, part, &stderr)
			}
		}
	}
}

// The usage of all commands, or of one with its flags, is printed after a wrong call.
func TestRun_Usage(t *testing.T) {
	all := []string{
		"usage:\n  weir why KEY [IN]                          tell why a key is denied or admitted\n",
		"\n  weir check FILE...                         report the errors and warnings of files\n",
		"\n  weir diff A B [-trace TRACE]               list the changes from file A to file B\n",
		"\n  weir doctor                                check whether the programs can use a Redis or Postgres\n",
		"\n  weir explain FILE POLICY|ROUTE KEY [PLAN]  list the limits of a key\n",
		"\n  weir init                                  print an example of a file with limits\n",
		"\n  weir rules COMMAND                         read and change limits in Redis\n",
		"\n  weir simulate FILE TRACE...                apply a file to recorded or generated traffic\n",
		"\n  weir suggest TRACE...                      find limits that deny few keys of recorded traffic\n",
	}
	usageOfDiff := []string{
		"usage:\n  weir diff A B [-trace TRACE]               list the changes from file A to file B\nA TRACE is a file, ",
		"\n  -trace TRACE\n", "\n  -max-new-denied-keys NUMBER\n", "\n  -max-new-denied-requests NUMBER\n",
	}
	const traces = "\nA TRACE is a file, - for the standard input, or a generator such as poisson:rate=100/s,clients=20,for=10m: steady, poisson, burst, adversary.\n"
	usageOfSimulate := []string{"usage:\n  weir simulate FILE TRACE...                apply", traces, "\n  -policy NAME\n", "\n  -top NUMBER\n", "\n  -keys\n"}
	usageOfSuggest := []string{"usage:\n  weir suggest TRACE...                      find", traces, "\n  -per PERIODS\n", "\n  -deny PART\n"}
	for _, test := range []struct {
		args   string
		status int
		first  string
		parts  []string
	}{
		{"", 2, "", all},
		{"chek a.yaml", 2, "weir: there is no command \"chek\"; did you mean \"check\"?\nusage:\n", all},
		{"-h", 0, "", all},
		{"-x", 2, "flag provided but not defined: -x\n", all},
		{"-json simulate", 2, "flag provided but not defined: -json\n", all},
		{"check", 2, "", []string{"usage:\n  weir check FILE... "}},
		{"check -json a.yaml", 2, "flag provided but not defined: -json\n", []string{"usage:\n  weir check FILE... "}},
		{"diff -help", 0, "", usageOfDiff},
		{"diff a.yaml b.yaml -help", 0, "", usageOfDiff},
		{"help diff", 0, "", usageOfDiff},
		{"help rules get", 0, "", []string{"usage:\n  weir rules get POLICY KEY                  print the override of a key\n  weir rules get  "}},
		{"help chek", 2, "weir: there is no command \"chek\"; did you mean \"check\"?\nusage:\n", all},
		{"diff -x a.yaml", 2, "flag provided but not defined: -x\n", usageOfDiff},
		{"diff a.yaml -x", 2, "flag provided but not defined: -x\n", usageOfDiff},
		{"diff a.yaml", 2, "", usageOfDiff},
		{"diff a.yaml b.yaml a.yaml", 2, "", usageOfDiff},
		{"diff a.yaml b.yaml -max-new-denied-keys -1", 2, "invalid value \"-1\" for flag -max-new-denied-keys: not a number, such as 12, or a percentage, such as 0.1%\n", usageOfDiff},
		{"diff a.yaml b.yaml -max-new-denied-keys 101%", 2, "invalid value \"101%\" for flag -max-new-denied-keys: not a percentage from 0% to 100%\n", usageOfDiff},
		{"diff a.yaml b.yaml -max-new-denied-requests 1.5", 2, "invalid value \"1.5\" for flag -max-new-denied-requests: not a number, such as 12, or a percentage, such as 0.1%\n", usageOfDiff},
		{"diff a.yaml b.yaml -max-new-denied-keys NaN%", 2, "invalid value \"NaN%\" for flag", usageOfDiff},
		{"simulate", 2, "", usageOfSimulate},
		{"simulate a.yaml", 2, "", usageOfSimulate},
		{"simulate a.yaml -json", 2, "", usageOfSimulate},
		{"simulate -h", 0, "", usageOfSimulate},
		{"simulate a.yaml steady -format xml", 2, "invalid value \"xml\" for flag -format: unknown format \"xml\"", usageOfSimulate},
		{"simulate a.yaml steady -top x", 2, "invalid value \"x\" for flag -top", usageOfSimulate},
		{"suggest", 2, "", usageOfSuggest},
		{"suggest steady -per day", 2, "invalid value \"day\" for flag -per: \"day\" is not a period, such as 1s, 15m, h or 7d\n", usageOfSuggest},
		{"suggest steady -per 1s,", 2, "invalid value \"1s,\" for flag -per: \"\" is not a period", usageOfSuggest},
		{"suggest steady -per 1m,60s", 2, "invalid value \"1m,60s\" for flag -per: \"60s\" is there twice\n", usageOfSuggest},
		{"suggest steady -deny x", 2, "invalid value \"x\" for flag -deny: not a number, such as 12", usageOfSuggest},
		{"suggest steady -keys", 2, "flag provided but not defined: -keys\n", usageOfSuggest},
	} {
		files(t)
		var stdout, stderr strings.Builder
		if got := run(strings.Fields(test.args), &stdout, &stderr); got != test.status || stdout.Len() > 0 {
			t.Errorf("%s: got status %d and stdout %s, expected %d", test.args, got, &stdout, test.status)
		}
		got := stderr.String()
		for _, part := range test.parts {
			if !strings.HasPrefix(got, test.first) || !strings.Contains(got, part) || test.first == "" && !strings.HasPrefix(got, "usage:\n") {
				t.Errorf("%s: got stderr:\n%s\nexpected the beginning %q and the part:\n%s", test.args, got, test.first, part)
			}
		}
	}
}

func TestRun(t *testing.T) {
	bad := "bad.yaml:3:54: policies.api.rules[0].limit: limit 10 has no period, unlike 10/s and 10/h\n" +
		"\t    rules: [{name: r, algorithm: sliding_log, limit: 10}]\n" +
		"\t" + strings.Repeat(" ", 53) + "^\n" +
		"bad.yaml:4:1: disable: is an unknown field; did you mean \"disabled\"?\n\tdisable: true\n\t^\n"
	for name, test := range map[string]struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		"check":                {[]string{"check", "a.yaml", "b.yaml"}, 0, "", ""},
		"check invalid":        {[]string{"check", "bad.yaml", "a.yaml"}, 1, "", bad},
		"check missing":        {[]string{"check", "missing.yaml", "bad.yaml"}, 1, "", "weir: open missing.yaml: no such file or directory\n" + bad},
		"diff":                 {[]string{"diff", "b.yaml", "off.yaml"}, 0, "policy api: switched off\n", ""},
		"diff flag":            {[]string{"diff", "b.yaml", "-policy", "api", "--", "off.yaml"}, 0, "policy api: switched off\n", ""},
		"diff without a trace": {[]string{"diff", "b.yaml", "-json", "off.yaml"}, 1, "", "weir: -max-new-denied-keys, -max-new-denied-requests and -json need a -trace\n"},
		"diff with a bound":    {[]string{"diff", "b.yaml", "-max-new-denied-keys=0", "off.yaml"}, 1, "", "weir: -max-new-denied-keys, -max-new-denied-requests and -json need a -trace\n"},
		"diff equal":           {[]string{"diff", "b.yaml", "b.yaml"}, 0, "", ""},
		"diff invalid":         {[]string{"diff", "a.yaml", "bad.yaml"}, 1, "", bad},
		"diff missing":         {[]string{"diff", "missing.yaml", "bad.yaml"}, 1, "", "weir: open missing.yaml: no such file or directory\n"},
		"explain missing":      {[]string{"explain", "missing.yaml", "api", "x"}, 1, "", "weir: open missing.yaml: no such file or directory\n"},
		"explain no policy":    {[]string{"explain", "a.yaml", "apis", "x"}, 1, "", "weir: a.yaml has no policy \"apis\"; it has api\n"},
		"explain no key":       {[]string{"explain", "a.yaml", "api", ""}, 1, "", "weir: the key is empty\n"},
		"explain": {[]string{"explain", "b.yaml", "api", "x"}, 0, columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain unit": {[]string{"explain", "unit.yaml", "api", "x"}, 0, "" +
			"RULE  ALGORITHM     LIMIT                     SOURCE  MODE\n" +
			"r     sliding_log   9/h (tokens)              base    enforce\n" +
			"s     fixed_window  5/d from the first event  base    enforce\n", ""},
		"explain unit of a plan": {[]string{"explain", "unit.yaml", "api", "x", "staff"}, 0, "" +
			"RULE  ALGORITHM     LIMIT                     SOURCE        MODE\n" +
			"r     sliding_log   unlimited                 plan \"staff\"  enforce\n" +
			"s     fixed_window  5/d from the first event  base          enforce\n", ""},
		"explain by cost": {[]string{"explain", "cost.yaml", "api", "x"}, 0, "" +
			"RULE         ALGORITHM  LIMIT                   SOURCE  MODE\n" +
			"r            in_flight  90000 by cost (tokens)  base    enforce\n" +
			"r.candidate  in_flight  2000 by cost            base    shadow\n" +
			"s            in_flight  5                       base    enforce\n", ""},
		"explain by cost, a plan": {[]string{"explain", "cost.yaml", "api", "x", "pro"}, 0, "" +
			"RULE         ALGORITHM  LIMIT                                  SOURCE      MODE\n" +
			"r            in_flight  1000000 by cost headroom 20% (tokens)  plan \"pro\"  enforce\n" +
			"r.candidate  in_flight  2000 by cost                           base        shadow\n" +
			"s            in_flight  5                                      base        enforce\n", ""},
		"explain by cost, a key": {[]string{"explain", "cost.yaml", "api", "k"}, 0, "" +
			"RULE         ALGORITHM  LIMIT                 SOURCE               MODE\n" +
			"r            in_flight  100 by cost (tokens)  override of the key  enforce\n" +
			"r.candidate  in_flight  2000 by cost          base                 shadow\n" +
			"s            in_flight  5                     base                 enforce\n", ""},
		"check routes": {[]string{"check", "routes.yaml", "a.yaml"}, 0, "", "routes.yaml:2:10: warning: routes[\"get /a\"]: no request has the method \"get\": write GET\n" +
			"\troutes: {get /a: api}\n\t         ^\n"},
		"check by cost": {[]string{"check", "cost.yaml"}, 0, "", ""},
		"explain pause": {[]string{"explain", "pause.yaml", "api", "x"}, 0, "" +
			"RULE  ALGORITHM  LIMIT  SOURCE  MODE\n" +
			"stop  pause      none   base    enforce\n", ""},
		"explain pause, blocked": {[]string{"explain", "pause.yaml", "api", "k"}, 0, "" +
			"RULE  ALGORITHM  LIMIT    SOURCE               MODE\n" +
			"stop  pause      blocked  override of the key  enforce\n", ""},
		"check unit": {[]string{"check", "unit.yaml"}, 0, "", ""},
		"check long unit": {[]string{"check", "long.yaml"}, 1, "", "long.yaml:1:78: policies.api.rules[0].unit: unit is 33 bytes long, more than 32\n" +
			"\tame: r, algorithm: sliding_log, limit: 9/h, unit: " + strings.Repeat("x", 33) + "}]}}\n\t" + strings.Repeat(" ", 50) + "^\n"},
		"explain route": {[]string{"explain", "r.yaml", "POST //login/ann", "x"}, 0, "The route \"POST /login/{name}\" has the policy \"api\".\n" + columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain route of a host": {[]string{"explain", "r.yaml", "example.com:80/v1", "x"}, 0, "The route \"example.com/v1/\" has the policy \"api\".\n" + columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain no route":      {[]string{"explain", "r.yaml", "/login/ann", "x"}, 1, "", "weir: r.yaml has no route for /login/ann, which has the limiter of the middleware\n"},
		"explain invalid route": {[]string{"explain", "r.yaml", "/%", "x"}, 1, "", "weir: parse \"http:///%\": invalid URL escape \"%\"\n"},
		"explain route, and all routes": {[]string{"explain", "all.yaml", "POST /login", "k"}, 0, "The route \"POST /login\" has the policy \"login\".\n" +
			"RULE   ALGORITHM    LIMIT    SOURCE               MODE\n" +
			"login  sliding_log  blocked  override of the key  enforce\n" +
			"\nThe request is charged to the policy \"api\" of all routes, too.\n" + columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain route of the policy of all": {[]string{"explain", "all.yaml", "/v1/x", "k"}, 0, "The route \"/v1/\" has the policy \"api\", which is that of all routes.\n" + columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain no route, but all routes": {[]string{"explain", "all.yaml", "/x", "k"}, 0, "No route matches: the request has the limiter of the middleware, and the policy \"api\" of all routes.\n" + columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain a policy beside all routes": {[]string{"explain", "all.yaml", "login", "x"}, 0, "" +
			"RULE   ALGORITHM    LIMIT  SOURCE  MODE\n" +
			"login  sliding_log  5/h    base    enforce\n", ""},
		"check too many rules": {[]string{"check", "all.yaml", "toomany.yaml"}, 1, "", "toomany.yaml:5:13: all_routes: policy \"a\" has 65 rules, candidates and bans, and \"b\" of the route \"/b\" has 64: a decision can have 128\n" +
			"\tall_routes: a\n\t            ^\n"},
		"explain plan": {[]string{"explain", "a.yaml", "api", "x", "gold"}, 0, "" +
			"RULE              ALGORITHM     LIMIT  SOURCE       MODE\n" +
			"second            token_bucket  100/s  plan \"gold\"  enforce\n" +
			"second.candidate  sliding_log   7/s    base         shadow\n" +
			"hour              sliding_log   900/h  plan \"gold\"  shadow\n", ""},
		"explain unknown plan": {[]string{"explain", "b.yaml", "api", "x", "silver"}, 0, "No rule of the policy has the plan \"silver\".\n" + columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain override": {[]string{"explain", "a.yaml", "api", "k", "banned"}, 0, "" +
			"RULE              ALGORITHM     LIMIT  SOURCE                            MODE\n" +
			"second            token_bucket  5/s    override of the key               enforce\n" +
			"second.candidate  sliding_log   7/s    base                              shadow\n" +
			"hour              sliding_log   900/h  plan \"gold\", override of the key  shadow\n", ""},
		"explain old override": {[]string{"explain", "a.yaml", "api", "old"}, 0, "The override of the key ended at 2020-01-01T00:00:00Z.\n" + columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain new override": {[]string{"explain", "a.yaml", "api", "new"}, 0, "The override of the key ends at 9999-01-01T00:00:00Z.\n" +
			"RULE              ALGORITHM     LIMIT    SOURCE                              MODE\n" +
			"second            token_bucket  10/s     base                                enforce\n" +
			"second.candidate  sliding_log   7/s      base                                shadow\n" +
			"hour              sliding_log   blocked  plan \"banned\", override of the key  shadow\n", ""},
		"explain enforced": {[]string{"explain", "part.yaml", "api", "user:1"}, 0, "The policy is enforced for 25.5% of the keys; this key is among them.\n" + columns +
			"second            token_bucket  10/s   base    enforce\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain not enforced": {[]string{"explain", "part.yaml", "api", "user:2"}, 0, "The policy is enforced for 25.5% of the keys; this key is not among them.\n" + columns +
			"second            token_bucket  10/s   base    shadow\n" +
			"second.candidate  sliding_log   7/s    base    shadow\n" +
			"hour              sliding_log   500/h  base    shadow\n", ""},
		"explain blocked": {[]string{"explain", "part.yaml", "api", "user:3"}, 0, "The policy is enforced for 25.5% of the keys; this key is not among them.\n" +
			"RULE              ALGORITHM     LIMIT    SOURCE               MODE\n" +
			"second            token_bucket  blocked  override of the key  enforce\n" +
			"second.candidate  sliding_log   7/s      base                 shadow\n" +
			"hour              sliding_log   blocked  override of the key  enforce\n", ""},
		"explain off": {[]string{"explain", "off.yaml", "api", "x"}, 0, "The policy is off: its rules are neither enforced nor counted.\n" + columns +
			"second            token_bucket  10/s   base    off\n" +
			"second.candidate  sliding_log   7/s    base    off\n" +
			"hour              sliding_log   500/h  base    off\n", ""},
		"explain all off": {[]string{"explain", "alloff.yaml", "api", "x"}, 0, "All policies are off: no rule is enforced or counted.\n" + columns +
			"second            token_bucket  10/s   base    off\n" +
			"second.candidate  sliding_log   7/s    base    off\n" +
			"hour              sliding_log   500/h  base    off\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files(t)
			var stdout, stderr strings.Builder
			if got := run(test.args, &stdout, &stderr); got != test.status {
				t.Errorf("got status %d, expected %d", got, test.status)
			}
			if stdout.String() != test.stdout {
				t.Errorf("got stdout:\n%s\nexpected:\n%s", &stdout, test.stdout)
			}
			if stderr.String() != test.stderr {
				t.Errorf("got stderr:\n%s\nexpected:\n%s", &stderr, test.stderr)
			}
		})
	}
}

// The file of init is valid.
func TestRun_Init(t *testing.T) {
	var stdout, stderr strings.Builder
	if status := run([]string{"init"}, &stdout, &stderr); status != 0 || stderr.Len() > 0 {
		t.Fatalf("got status %d and %s", status, &stderr)
	}
	if _, err := rules.Parse("example.yaml", []byte(stdout.String())); err != nil {
		t.Error(err)
	}
	name := filepath.Join(t.TempDir(), "f.yaml")
	testkit.Must(t, os.WriteFile(name, []byte(stdout.String()), 0o600))
	if status := run([]string{"check", name}, &stdout, &stderr); status != 0 {
		t.Errorf("got status %d of check: %s", status, &stderr)
	}
}
