package rules

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/rules/internal/document"
	"github.com/weir-go/weir/internal/testkit"
)

// allNames returns the names of all algorithms as a text.
func allNames() string {
	var all []string
	for _, a := range testkit.Names() {
		all = append(all, a.String())
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// newer ends the error about a name that resembles no known one.
const newer = "; if a newer version knows it, update the program before its configuration"

// manyRules returns n rules.
func manyRules(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("{name: r%d, algorithm: sliding_log, limit: 5/m}", i))
	}
	return strings.Join(all, ", ")
}

// example is the file that the command prints.
func example(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../../cmd/weir/example.yaml")
	testkit.Must(t, err)
	return data
}

// exampleConfig is the Config of example.
var exampleConfig = &Config{
	Name: "example.yaml",
	Policies: map[string]Policy{
		"api": {
			Enforce: 100,
			Rules: []Rule{
				{
					Spec: core.Spec{
						Name: "second", Algorithm: driver.TokenBucket, Limit: core.PerSecond(10).WithBurst(20),
						Plans: []core.Plan{{Name: "gold", Limit: core.PerSecond(100)}, {Name: "staff", Limit: core.Unlimited}, {Name: "banned", Limit: core.Blocked}},
					},
				},
				{
					Spec:      core.Spec{Name: "hour", Algorithm: driver.SlidingLog, Limit: core.PerHour(500), Soft: 10, Shadow: true},
					Candidate: &Rule{Spec: core.Spec{Algorithm: driver.SlidingWindow, Limit: core.PerHour(400), SubWindows: 30}},
				},
			},
			Keys: map[string]Override{
				"user:7":      {Blocked: true, Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
				"user:241531": {Plan: "gold"},
				"user:99": {
					Limits: map[string]core.Limit{"second": core.PerSecond(5)},
					Until:  time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
				},
			},
		},
		"login": {Enforce: 25, Rules: []Rule{{Spec: core.Spec{Name: "login", Algorithm: driver.SlidingWindow, Limit: core.Per(5, 15*time.Minute)}}}},
		"report": {Enforce: 100, Rules: []Rule{{
			Spec: core.Spec{
				Name: "running", Algorithm: driver.InFlight, Limit: core.Limit{Events: 2},
				Plans: []core.Plan{{Name: "gold", Limit: core.Limit{Events: 10}}}, Hold: 30 * time.Second, MaxHold: time.Hour,
			},
		}}},
		"calls": {Enforce: 100, Rules: []Rule{{
			Spec:     core.Spec{Name: "month", Algorithm: driver.Quota, Limit: core.Monthly(100_000), Plans: []core.Plan{{Name: "pro", Limit: core.Monthly(5_000_000)}}},
			Headroom: map[string]float64{"batch": 20}, Timezone: "Europe/Berlin",
		}}},
		"export": {Enforce: 100, Disabled: true, Rules: []Rule{{Spec: core.Spec{Name: "export", Algorithm: driver.FixedWindow, Limit: core.PerDay(3), Unit: "files"}}}},
	},
	Routes:    map[string]string{"POST /login": "login", "/v1/": "api"},
	AllRoutes: "calls",
}

func TestParse_Example(t *testing.T) {
	got, err := Parse("example.yaml", example(t))
	testkit.Must(t, err)
	if !reflect.DeepEqual(got, exampleConfig) {
		t.Errorf("got %+v, expected %+v", got, exampleConfig)
	}
}

func TestParse_JSON(t *testing.T) {
	in := "{\n\t\"policies\": {\"api\": {\"enforce\": 1e1, \"rules\": [\n\t\t{\"name\": \"r\", \"algorithm\": \"sliding_log\", \"limit\": \"5\\/m\"}],\n" +
		`"keys": {"\u00e9\ud83d\ude00\\ud83d\\ude00\t": {"limits": {"r": "1/m"}}}}}}`
	got, err := Parse("limits.json", []byte(in))
	want := &Config{Name: "limits.json", Policies: map[string]Policy{"api": {
		Enforce: 10,
		Rules:   []Rule{{Spec: core.Spec{Name: "r", Algorithm: driver.SlidingLog, Limit: core.PerMinute(5)}}},
		Keys:    map[string]Override{"é😀\\ud83d\\ude00\t": {Limits: map[string]core.Limit{"r": core.PerMinute(1)}}},
	}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), expected %+v", got, err, want)
	}
}

// A limit without a period is an integer or a text.
func TestParse_InFlight(t *testing.T) {
	c := core.Limit{Events: 5}
	for _, limit := range []string{"5", `"5"`, "' 5 '", "0x5", "+5"} {
		rule := "      - {name: r, algorithm: in_flight, limit: " + limit + ", plans: {gold: " + limit + "}, candidate: {algorithm: in_flight, limit: " + limit + "}}"
		got, err := Parse("limits.yaml", []byte(with(rule, "    keys: {k: {limits: {r: "+limit+"}}}")))
		want := &Config{Name: "limits.yaml", Policies: map[string]Policy{"api": {
			Enforce: 100,
			Rules: []Rule{{
				Spec:      core.Spec{Name: "r", Algorithm: driver.InFlight, Limit: c, Plans: []core.Plan{{Name: "gold", Limit: c}}},
				Candidate: &Rule{Spec: core.Spec{Algorithm: driver.InFlight, Limit: c}},
			}},
			Keys: map[string]Override{"k": {Limits: map[string]core.Limit{"r": c}}},
		}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v (%v), expected %+v", limit, got, err, want)
		}
	}
}

// With by_cost, limits are up to a million: those of plans and candidates, and of overrides.
func TestParse_ByCost(t *testing.T) {
	million := core.Limit{Events: 1_000_000}
	rule := "      - {name: r, algorithm: in_flight, limit: 1001, plans: {gold: 1000000, batch: '90000'}, by_cost: true, candidate: {algorithm: in_flight, limit: 1000000, by_cost: true}}"
	file := []byte(with(rule, "    keys: {k: {limits: {r: 1000000}}}"))
	got, err := Parse("limits.yaml", file)
	want := &Config{Name: "limits.yaml", Policies: map[string]Policy{"api": {
		Enforce: 100,
		Rules: []Rule{{
			Spec: core.Spec{
				Name: "r", Algorithm: driver.InFlight, Limit: core.Limit{Events: 1001}, ByCost: true,
				Plans: []core.Plan{{Name: "gold", Limit: million}, {Name: "batch", Limit: core.Limit{Events: 90_000}}},
			},
			Candidate: &Rule{Spec: core.Spec{Algorithm: driver.InFlight, Limit: million, ByCost: true}},
		}},
		Keys: map[string]Override{"k": {Limits: map[string]core.Limit{"r": million}}},
	}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), expected %+v", got, err, want)
	}
	_, s := schema(t)
	if err := validates(t, s, file); err != nil {
		t.Errorf("the schema: %v", err)
	}
}

func TestParse_Quota(t *testing.T) {
	for text, l := range map[string]core.Limit{"1000000/month": core.Monthly(1_000_000), " 5 / week ": core.Weekly(5), "7/day": core.Daily(7)} {
		rule := fmt.Sprintf("      - {name: r, algorithm: quota, limit: %s, plans: {pro: %[1]s}, soft: 10, rollover: 3, timezone: Asia/Kolkata, candidate: {algorithm: quota, limit: %[1]s, rollover: 4, timezone: UTC}}", text)
		got, err := Parse("limits.yaml", []byte(with(rule, fmt.Sprintf("    keys: {k: {limits: {r: %s}}}", text))))
		want := &Config{Name: "limits.yaml", Policies: map[string]Policy{"api": {
			Enforce: 100,
			Rules: []Rule{{
				Spec:      core.Spec{Name: "r", Algorithm: driver.Quota, Limit: l, Plans: []core.Plan{{Name: "pro", Limit: l}}, Soft: 10, Rollover: 3},
				Timezone:  "Asia/Kolkata",
				Candidate: &Rule{Spec: core.Spec{Algorithm: driver.Quota, Limit: l, Rollover: 4}, Timezone: "UTC"},
			}},
			Keys: map[string]Override{"k": {Limits: map[string]core.Limit{"r": l}}},
		}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v (%v), expected %+v", text, got, err, want)
		}
	}
}

// A pause has no limit.
func TestParse_Pause(t *testing.T) {
	in := []byte(with("      - {name: p, algorithm: pause, mode: shadow, unit: calls, soft: 0, plans: {}}", "    keys: {k: {blocked: true}}"))
	got, err := Parse("limits.yaml", in)
	want := &Config{Name: "limits.yaml", Policies: map[string]Policy{"api": {
		Enforce: 100,
		Rules:   []Rule{{Spec: core.Spec{Name: "p", Algorithm: driver.Pause, Shadow: true, Unit: "calls"}}},
		Keys:    map[string]Override{"k": {Blocked: true}},
	}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), expected %+v", got, err, want)
	}
	_, s := schema(t)
	if err := validates(t, s, in); err != nil {
		t.Errorf("the schema: %v", err)
	}
}

// A plan of a headroom is a plan of the policy. It has a limit of its own, or that of the rule.
func TestParse_Headroom(t *testing.T) {
	got, err := Parse("limits.yaml", []byte(with("      - {name: r, algorithm: token_bucket, limit: 10/m, plans: {pro: 20/m}, headroom: {pro: 12.5, sheddable: 20, none: 0}}", "    keys: {k: {plan: sheddable}}")))
	want := &Config{Name: "limits.yaml", Policies: map[string]Policy{"api": {
		Enforce: 100,
		Rules: []Rule{{
			Spec:     core.Spec{Name: "r", Algorithm: driver.TokenBucket, Limit: core.PerMinute(10), Plans: []core.Plan{{Name: "pro", Limit: core.PerMinute(20)}}},
			Headroom: map[string]float64{"pro": 12.5, "sheddable": 20, "none": 0},
		}},
		Keys: map[string]Override{"k": {Plan: "sheddable"}},
	}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), expected %+v", got, err, want)
	}
	policy := got.Policies["api"]
	for _, p := range policy.storeRules("api")[0].Spec().Plans {
		if text := fmt.Sprint(p.Name, " ", p.Limit, " ", p.Headroom, "%"); !strings.Contains(" pro 20/m 12.5%, sheddable 10/m 20%, none 10/m 0%,", " "+text+",") {
			t.Errorf("got the plan %s", text)
		}
	}
}

// Keys of mappings are texts, also without quotes.
func TestParse_Keys(t *testing.T) {
	in := "policies:\n  api:\n    rules: [{name: r, algorithm: sliding_log, limit: 5/m, plans: {1: 2/m}}]\n    keys:\n"
	for _, key := range []string{"0010", "1e3", "null", "true", "2026-01-01", "off", "'<<'", "~", `"\0"`} {
		in += "      " + key + ": {plan: '1'}\n"
	}
	c, err := Parse("limits.yaml", []byte(in))
	testkit.Must(t, err)
	for _, key := range []string{"0010", "1e3", "null", "true", "2026-01-01", "off", "<<", "~", "\x00"} {
		if c.Policies["api"].Keys[key].Plan != "1" {
			t.Errorf("there is no key %q", key)
		}
	}
}

// with returns a file with a rule and other text in the policy, and text at the end. Both begin at
// the beginning of a line: lines 4 and 5.
func with(rule, end string) string {
	return "policies:\n  api:\n    rules:\n" + rule + "\n" + end
}

const valid = `      - {name: r, algorithm: sliding_log, limit: 5/m, plans: {gold: 10/m}}`

// invalidFiles are files with their errors.
var invalidFiles = map[string]struct {
	in     string
	want   []string // one for each error: the text of the Error, without the name of the file
	beyond bool     // the error is in the text, or a schema cannot describe it
}{
	"empty file":          {"", []string{"1:1: the file has no policies"}, true},
	"only comments":       {"# c\n", []string{"1:1: the file has no policies"}, true},
	"empty document":      {"---\n", []string{"2:1: is null, expected a mapping"}, false},
	"no policies":         {"disabled: true", []string{"1:1: the file has no policies"}, false},
	"policies are empty":  {"policies: {}", []string{"1:1: the file has no policies"}, false},
	"policies are null":   {"policies:\n", []string{"1:10: policies: is null, expected a mapping"}, false},
	"a list":              {"[a]", []string{"1:1: is a list, expected a mapping"}, false},
	"a text":              {"a", []string{"1:1: is a text, expected a mapping"}, false},
	"not UTF-8":           {"policies:\n  é\xff: 1", []string{"2:4: is not UTF-8"}, true},
	"UTF-16":              {"\xff\xfep\x00", []string{"1:1: is not UTF-8"}, true},
	"control character":   {"policies:\n  \x01", []string{"2:3: control characters are not allowed (value: 1)"}, true},
	"syntax":              {with(valid, "routes: {a: ]"), []string{"5:13: while parsing a flow node: did not find expected node content"}, true},
	"tab":                 {"policies:\n\tapi: 1", []string{"2:1: while scanning for the next token: found character that cannot start any token"}, true},
	"too many levels":     {strings.Repeat("[", 40), []string{"1:33: while increasing flow level: more than 32 levels"}, true},
	"escapes of JSON":     {`{"\\\u00e9": 1, "disabled": 2}`, []string{`1:2: ["\\é"]: is an unknown field; known are policies, routes, all_routes, disabled` + newer, "1:29: disabled: is an integer, expected a boolean"}, false},
	"two documents":       {with(valid, "---\na: b\n---\n["), []string{"5:1: a second document begins here: there can be only one"}, true},
	"second is invalid":   {with(valid, "--- ]"), []string{"5:5: while parsing a block node: did not find expected node content"}, true},
	"unknown alias":       {"policies: *a", []string{"1:11: unknown anchor 'a' referenced"}, true},
	"anchor and alias":    {with("      - &a {}\n      - *a", ""), []string{"4:9: policies.api.rules[0]: anchors and aliases are not supported", "5:9: policies.api.rules[1]: anchors and aliases are not supported"}, true},
	"tag":                 {with(valid, "disabled: !!bool true"), []string{"5:11: disabled: tags are not supported"}, true},
	"local tag":           {with(valid, "disabled: !a true"), []string{"5:11: disabled: tags are not supported"}, true},
	"tag without a name":  {with(valid, "disabled: ! true"), []string{"5:11: disabled: tags are not supported"}, true},
	"key with a tag":      {with(valid, "!!str disabled: true"), []string{"5:1: a key must be a text, without tags, anchors, aliases and merge keys"}, true},
	"key with an anchor":  {with(valid, "&a disabled: true"), []string{"5:1: a key must be a text, without tags, anchors, aliases and merge keys"}, true},
	"merge key":           {with(valid, "<<: {disabled: true}"), []string{"5:1: a key must be a text, without tags, anchors, aliases and merge keys"}, true},
	"key is a list":       {with(valid, "? [a]\n: b"), []string{"5:3: a key must be a text, without tags, anchors, aliases and merge keys"}, true},
	"key is empty":        {with(valid, "    keys: {'': {plan: gold}}"), []string{"5:12: policies.api.keys: a key is empty"}, false},
	"duplicate key":       {with(valid, "disabled: true\ndisabled: true"), []string{"6:1: disabled: is given twice, first on line 5"}, true},
	"unknown field":       {with(valid, "polices: {}"), []string{`5:1: polices: is an unknown field; did you mean "policies"?`}, false},
	"unlike any field":    {with(valid, "version: 1"), []string{"5:1: version: is an unknown field; known are policies, routes, all_routes, disabled" + newer}, false},
	"field of a policy":   {with(valid, "    regions: [eu]"), []string{"5:5: policies.api.regions: is an unknown field; known are rules, keys, enforce, disabled" + newer}, false},
	"field of a rule":     {with("      - {name: r, algorithm: sliding_log, limit: 5/m, penalty: 1h}", ""), []string{"4:55: policies.api.rules[0].penalty: is an unknown field; known are name, plans, headroom, block_for, mode, unit, candidate, algorithm, limit, soft, from_first, sub_windows, by_cost, hold, max_hold, rollover, timezone" + newer}, false},
	"field of a key":      {with(valid, "    keys: {a: {blocked: true, reason: x}}"), []string{"5:31: policies.api.keys.a.reason: is an unknown field; known are blocked, plan, limits, until" + newer}, false},
	"route with fields":   {with(valid, "routes: {/: {policy: api, cost: 2}}"), []string{`5:13: routes["/"]: is a mapping, expected a text`}, false},
	"name of a policy":    {"policies: {a.b: {rules: [{name: r, algorithm: sliding_log, limit: 5/m}]}}", []string{`1:12: policies["a.b"]: the name of a policy consists of letters, digits, _ and -`}, false},
	"name is not ASCII":   {"policies: {é: {rules: [{name: r, algorithm: sliding_log, limit: 5/m}]}}", []string{`1:12: policies["é"]: the name of a policy consists of letters, digits, _ and -`}, false},
	"policy is null":      {"policies: {a: }", []string{"1:15: policies.a: is null, expected a mapping"}, false},
	"no rules":            {"policies: {a: {disabled: true}}", []string{"1:15: policies.a: a policy needs at least one rule"}, false},
	"rules are empty":     {"policies: {a: {rules: []}}", []string{"1:15: policies.a: a policy needs at least one rule"}, false},
	"rules are a mapping": {"policies: {a: {rules: {}}}", []string{"1:23: policies.a.rules: is a mapping, expected a list"}, false},
	"off is a text":       {with(valid, "disabled: yes"), []string{"5:11: disabled: is a text, expected a boolean"}, false},
	"enforce is a text":   {with(valid, "    enforce: 5%"), []string{"5:14: policies.api.enforce: is a text, expected a number"}, false},
	"enforce above 100":   {with(valid, "    enforce: 100.5"), []string{"5:14: policies.api.enforce: is 100.5 percent, outside 0 to 100"}, false},
	"enforce below 0":     {with(valid, "    enforce: -1"), []string{"5:14: policies.api.enforce: is -1 percent, outside 0 to 100"}, false},
	"enforce is NaN":      {with(valid, "    enforce: .nan"), []string{"5:14: policies.api.enforce: is NaN percent, outside 0 to 100"}, true},
	"enforce is precise":  {with(valid, "    enforce: 33.333"), []string{"5:14: policies.api.enforce: is 33.333 percent, which has more than two decimals"}, true},
	"rule is a text":      {with("      - r", ""), []string{"4:9: policies.api.rules[0]: is a text, expected a mapping"}, false},
	"empty rule":          {with("      - {}", ""), []string{"4:9: policies.api.rules[0]: the field name is missing", "4:9: policies.api.rules[0]: the field algorithm is missing", "4:9: policies.api.rules[0]: the field limit is missing"}, false},
	"two rules":           {with(valid+"\n"+valid, ""), []string{`5:9: policies.api.rules[1]: another rule of the policy is called "r"`}, true},
	"name of a rule":      {with("      - {name: a é, algorithm: sliding_log, limit: 5/m}", ""), []string{"4:16: policies.api.rules[0].name: the name of a rule consists of letters, digits, _ and -"}, false},
	"name is a number":    {with("      - {name: 1, algorithm: sliding_log, limit: 5/m}", ""), []string{"4:16: policies.api.rules[0].name: is an integer, expected a text"}, false},
	"long name":           {with("      - {name: "+strings.Repeat("r", 61)+", algorithm: sliding_log, limit: 5/m}", ""), []string{`4:9: policies.api.rules[0]: "api.` + strings.Repeat("r", 61) + `" is its name on a store: name is 65 bytes long, more than 64`}, true},
	"long candidate":      {with("      - {name: "+strings.Repeat("r", 51)+", algorithm: sliding_log, limit: 5/m, candidate: {algorithm: sliding_log, limit: 5/m}}", ""), []string{`4:116: policies.api.rules[0].candidate: "api.` + strings.Repeat("r", 51) + `.candidate" is its name on a store: name is 65 bytes long, more than 64`}, true},
	"long name of bans": {
		with("      - {name: "+strings.Repeat("r", 57)+", algorithm: sliding_log, limit: 5/m, block_for: 10m}", ""),
		[]string{`4:122: policies.api.rules[0].block_for: "api.` + strings.Repeat("r", 57) + `.ban" is the name of its bans on a store: name is 65 bytes long, more than 64`}, true,
	},
	"block for of a number":    {with("      - {name: r, algorithm: sliding_log, limit: 5/m, block_for: 600}", ""), []string{`4:66: policies.api.rules[0].block_for: is an integer, expected a text`}, false},
	"block for is none":        {with("      - {name: r, algorithm: sliding_log, limit: 5/m, block_for: 0s}", ""), []string{`4:66: policies.api.rules[0].block_for: "0s" is no positive duration such as 30s or 1h30m`}, true},
	"block for is short":       {with("      - {name: r, algorithm: sliding_log, limit: 5/m, block_for: 999ms}", ""), []string{`4:66: policies.api.rules[0].block_for: block for is 999ms, outside 1s to 366 days`}, true},
	"block for is long":        {with("      - {name: r, algorithm: sliding_log, limit: 5/m, block_for: 8784h1s}", ""), []string{`4:66: policies.api.rules[0].block_for: block for is 8784h0m1s, outside 1s to 366 days`}, true},
	"block for of places":      {with("      - {name: r, algorithm: in_flight, limit: 5, block_for: 10m}", ""), []string{`4:62: policies.api.rules[0].block_for: block for has no meaning for in_flight`}, false},
	"block for of a pause":     {with("      - {name: r, algorithm: pause, block_for: 10m}", ""), []string{`4:48: policies.api.rules[0].block_for: block for has no meaning for pause`}, false},
	"block for of a candidate": {with("      - {name: r, algorithm: sliding_log, limit: 5/m, candidate: {algorithm: sliding_log, limit: 5/m, block_for: 10m}}", ""), []string{`4:103: policies.api.rules[0].candidate.block_for: is an unknown field; known are algorithm, limit, soft, from_first, sub_windows, by_cost, hold, max_hold, rollover, timezone` + newer}, false},
	"many bans": {
		"policies: {api: {rules: [" + strings.ReplaceAll(manyRules(65), "5/m}", "5/m, block_for: 10m}") + "]}}",
		[]string{"1:25: policies.api.rules: are 130 rules, candidates and bans, more than 128"}, true,
	},
	"algorithm":         {with("      - {name: r, algorithm: sliding_logs, limit: 5/m}", ""), []string{`4:30: policies.api.rules[0].algorithm: "sliding_logs" is no algorithm; did you mean "sliding_log"?`}, false},
	"algorithm none":    {with("      - {name: r, algorithm: none, limit: 5/m}", ""), []string{`4:30: policies.api.rules[0].algorithm: "none" is no algorithm: use ` + allNames() + newer}, false},
	"limit is a number": {with("      - {name: r, algorithm: sliding_log, limit: 5}", ""), []string{"4:50: policies.api.rules[0].limit: limit 5 has no period, unlike 5/s and 5/h"}, false},
	"limit":             {with("      - {name: r, algorithm: sliding_log, limit: 5 per m}", ""), []string{`4:50: policies.api.rules[0].limit: invalid limit "5 per m": events: "5 per m" is not a positive integer (expected "10/s", "500/h", "10/s burst 20", "1000/month", "5", "unlimited" or "blocked")`}, false},
	"limit of a log":    {with("      - {name: r, algorithm: sliding_log, limit: 5/m burst 6}", ""), []string{"4:50: policies.api.rules[0].limit: burst has no meaning for sliding_log"}, true},
	"many fields": {
		with("      - {name: r, algorithm: token_bucket, limit: 5/1ns, soft: -1, sub_windows: 0, plans: {unknown: 5/m, gold: 1/1ns}, mode: off}", ""),
		[]string{
			"4:51: policies.api.rules[0].limit: per is not a whole number of microseconds",
			"4:64: policies.api.rules[0].soft: soft is -1 percent, outside 0 to 1000",
			"4:81: policies.api.rules[0].sub_windows: sub-windows has no meaning for token_bucket",
			`4:101: policies.api.rules[0].plans.unknown: plan cannot be called "unknown"`,
			`4:112: policies.api.rules[0].plans.gold: plan "gold": per is not a whole number of microseconds`,
			`4:126: policies.api.rules[0].mode: "off" is no mode: use enforce, shadow` + newer,
		}, false,
	},
	"from first of a log":   {with("      - {name: r, algorithm: sliding_log, limit: 5/m, from_first: true}", ""), []string{"4:67: policies.api.rules[0].from_first: from first has no meaning for sliding_log"}, false},
	"from first is 1":       {with("      - {name: r, algorithm: fixed_window, limit: 5/m, from_first: 1}", ""), []string{"4:68: policies.api.rules[0].from_first: is an integer, expected a boolean"}, false},
	"sub-windows are 0":     {with("      - {name: r, algorithm: sliding_window, limit: 5/m, sub_windows: 0}", ""), []string{"4:71: policies.api.rules[0].sub_windows: sub-windows are 0, outside 1 to 120"}, false},
	"sub-windows are large": {with("      - {name: r, algorithm: sliding_window, limit: 5/m, sub_windows: 9223372036854775808}", ""), []string{`4:71: policies.api.rules[0].sub_windows: "9223372036854775808" is too large`}, false},
	"unit is empty":         {with("      - {name: r, algorithm: sliding_log, limit: 5/m, unit: ''}", ""), []string{"4:61: policies.api.rules[0].unit: unit is empty"}, false},
	"unit is long":          {with("      - {name: r, algorithm: sliding_log, limit: 5/m, unit: "+strings.Repeat("x", 33)+"}", ""), []string{"4:61: policies.api.rules[0].unit: unit is 33 bytes long, more than 32"}, false},
	"unit is not ASCII":     {with("      - {name: r, algorithm: sliding_log, limit: 5/m, unit: jetons é}", ""), []string{"4:61: policies.api.rules[0].unit: unit is not printable ASCII, so it cannot be sent in a RateLimit field"}, false},
	"unit is a number":      {with("      - {name: r, algorithm: sliding_log, limit: 5/m, unit: 1}", ""), []string{"4:61: policies.api.rules[0].unit: is an integer, expected a text"}, false},
	"unit of a candidate":   {with("      - {name: r, algorithm: sliding_log, limit: 5/m, candidate: {algorithm: sliding_log, limit: 5/m, unit: tokens}}", ""), []string{"4:103: policies.api.rules[0].candidate.unit: is an unknown field; known are algorithm, limit, soft, from_first, sub_windows, by_cost, hold, max_hold, rollover, timezone" + newer}, false},
	"sub-windows are 1.5":   {with("      - {name: r, algorithm: sliding_window, limit: 5/m, sub_windows: 1.5}", ""), []string{"4:71: policies.api.rules[0].sub_windows: is a number, expected an integer"}, false},
	"plan with soft":        {with("      - {name: r, algorithm: token_bucket, limit: 1/s, soft: 100, plans: {gold: 1/36000d}}", ""), []string{`4:74: policies.api.rules[0].plans: plan "gold": limit reaches over more than 100 years`}, true},
	"places with a period":  {with("      - {name: r, algorithm: in_flight, limit: 5/s, plans: {gold: 9/m}}", ""), []string{`4:48: policies.api.rules[0].limit: limit 5/s has a period, and in_flight counts events at the same time: write 5`, `4:67: policies.api.rules[0].plans.gold: plan "gold": limit 9/m has a period, and in_flight counts events at the same time: write 9`}, false},
	"places with a burst":   {with("      - {name: r, algorithm: in_flight, limit: 5 burst 9}", ""), []string{`4:48: policies.api.rules[0].limit: invalid limit "5 burst 9": has no "/" (expected "10/s", "500/h", "10/s burst 20", "1000/month", "5", "unlimited" or "blocked")`}, false},
	"too many places":       {with("      - {name: r, algorithm: in_flight, limit: 1001}", ""), []string{`4:48: policies.api.rules[0].limit: limit has more than 1000 places`}, false},
	"many with soft":        {with("      - {name: r, algorithm: in_flight, limit: 1000, soft: 10}", ""), []string{`4:48: policies.api.rules[0].limit: limit has more than 1000 places`}, true},
	"too much by cost":      {with("      - {name: r, algorithm: in_flight, limit: 1000001, plans: {gold: 2000000}, by_cost: true, candidate: {algorithm: in_flight, limit: 1000001, by_cost: true}}", "    keys: {a: {limits: {r: 1000001}}}"), []string{`4:48: policies.api.rules[0].limit: limit has more than a million places`, `4:71: policies.api.rules[0].plans.gold: plan "gold": limit has more than a million places`, `4:137: policies.api.rules[0].candidate.limit: limit has more than a million places`}, false},
	"much with soft":        {with("      - {name: r, algorithm: in_flight, limit: 1000000, by_cost: true, soft: 10}", ""), []string{`4:48: policies.api.rules[0].limit: limit has more than a million places`}, true},
	"much for a key":        {with("      - {name: r, algorithm: in_flight, limit: 5, by_cost: true}", "    keys: {a: {limits: {r: 1000001}}}"), []string{`5:28: policies.api.keys.a.limits.r: limit has more than a million places`}, false},
	"by cost is false":      {with("      - {name: r, algorithm: in_flight, limit: 1001, by_cost: false, plans: {gold: 1002}}", ""), []string{`4:48: policies.api.rules[0].limit: limit has more than 1000 places`, `4:84: policies.api.rules[0].plans.gold: plan "gold": limit has more than 1000 places`}, false},
	"by cost of another":    {with("      - {name: r, algorithm: in_flight, limit: 5, by_cost: true, candidate: {algorithm: in_flight, limit: 1001}}", "    keys: {a: {limits: {r: 1001}}}"), []string{`4:107: policies.api.rules[0].candidate.limit: limit has more than 1000 places`}, false},
	"by cost of a window":   {with("      - {name: r, algorithm: sliding_log, limit: 5/m, by_cost: true}", ""), []string{`4:64: policies.api.rules[0].by_cost: by cost has no meaning for sliding_log`}, false},
	"by cost of a quota":    {with("      - {name: r, algorithm: quota, limit: 5/day, by_cost: true}", ""), []string{`4:60: policies.api.rules[0].by_cost: by cost has no meaning for quota`}, false},
	"by cost is 1":          {with("      - {name: r, algorithm: in_flight, limit: 5, by_cost: 1}", ""), []string{`4:60: policies.api.rules[0].by_cost: is an integer, expected a boolean`}, false},
	"no places":             {with("      - {name: r, algorithm: in_flight, limit: 0}", ""), []string{`4:48: policies.api.rules[0].limit: invalid limit "0": events: "0" is not a positive integer (expected "10/s", "500/h", "10/s burst 20", "1000/month", "5", "unlimited" or "blocked")`}, false},
	"huge limit":            {with("      - {name: r, algorithm: in_flight, limit: 9999999999999999999}", ""), []string{`4:48: policies.api.rules[0].limit: "9999999999999999999" is too large`}, false},
	"half a place":          {with("      - {name: r, algorithm: in_flight, limit: 1.5}", ""), []string{`4:48: policies.api.rules[0].limit: is a number, expected a text`}, false},
	"plan without a period": {with("      - {name: r, algorithm: sliding_log, limit: 5/m, plans: {gold: 9}}", ""), []string{`4:69: policies.api.rules[0].plans.gold: plan "gold": limit 9 has no period, unlike 9/s and 9/h`}, false},
	"limit of a key":        {with("      - {name: r, algorithm: in_flight, limit: 5}", "    keys: {a: {limits: {r: 5/s}}}"), []string{`5:28: policies.api.keys.a.limits.r: limit 5/s has a period, and in_flight counts events at the same time: write 5`}, true},
	"integer for a key":     {with("      - {name: r, algorithm: sliding_log, limit: 5/m}", "    keys: {a: {limits: {r: 5}}}"), []string{`5:28: policies.api.keys.a.limits.r: limit 5 has no period, unlike 5/s and 5/h`}, true},
	"hold is a number":      {with("      - {name: r, algorithm: in_flight, limit: 5, hold: 30}", ""), []string{`4:57: policies.api.rules[0].hold: is an integer, expected a text`}, false},
	"max hold is a number":  {with("      - {name: r, algorithm: in_flight, limit: 5, max_hold: 30}", ""), []string{`4:61: policies.api.rules[0].max_hold: is an integer, expected a text`}, false},
	"hold is none":          {with("      - {name: r, algorithm: in_flight, limit: 5, hold: 0s, max_hold: 1 h}", ""), []string{`4:57: policies.api.rules[0].hold: "0s" is no positive duration such as 30s or 1h30m`, `4:71: policies.api.rules[0].max_hold: "1 h" is no positive duration such as 30s or 1h30m`}, true},
	"hold is short":         {with("      - {name: r, algorithm: in_flight, limit: 5, hold: 10ms}", ""), []string{`4:57: policies.api.rules[0].hold: hold is 10ms, not whole microseconds from 1s to 24h0m0s`}, true},
	"hold of a window":      {with("      - {name: r, algorithm: sliding_log, limit: 5/m, hold: 30s, max_hold: 1h}", ""), []string{`4:61: policies.api.rules[0].hold: hold has no meaning for sliding_log`, `4:76: policies.api.rules[0].max_hold: max hold has no meaning for sliding_log`}, false},
	"quota per hour":        {with("      - {name: r, algorithm: quota, limit: 5/h, plans: {gold: 9/30d, pro: 9/d, max: 9/7d}}", ""), []string{`4:44: policies.api.rules[0].limit: limit 5/h has a fixed period, and quota counts by the calendar: write 5 per day, week or month, such as 5/day`, `4:63: policies.api.rules[0].plans.gold: plan "gold": limit 9/30d has a fixed period, and quota counts by the calendar: write 9/month`, `4:75: policies.api.rules[0].plans.pro: plan "pro": limit 9/d has a fixed period, and quota counts by the calendar: write 9/day`, `4:85: policies.api.rules[0].plans.max: plan "max": limit 9/7d has a fixed period, and quota counts by the calendar: write 9/week`}, false},
	"quota without period":  {with("      - {name: r, algorithm: quota, limit: 5}", ""), []string{`4:44: policies.api.rules[0].limit: limit 5 has no period, unlike 5/day and 5/month`}, false},
	"quota with a burst":    {with("      - {name: r, algorithm: quota, limit: 5/day burst 9}", ""), []string{`4:44: policies.api.rules[0].limit: burst has no meaning for quota`}, false},
	"quota with a hold":     {with("      - {name: r, algorithm: quota, limit: 5/day, hold: 30s}", ""), []string{`4:57: policies.api.rules[0].hold: hold has no meaning for quota`}, false},
	"pause": {
		with("      - {name: p, algorithm: pause, limit: unlimited, plans: {gold: 5/s}, headroom: {batch: 10}, soft: 10, from_first: true, sub_windows: 3, hold: 30s, max_hold: 1h, timezone: UTC, by_cost: true}", ""),
		[]string{
			"4:44: policies.api.rules[0].limit: limit has no meaning for pause",
			"4:69: policies.api.rules[0].plans.gold: plan has no meaning for pause",
			"4:93: policies.api.rules[0].headroom.batch: plan has no meaning for pause",
			"4:104: policies.api.rules[0].soft: soft has no meaning for pause",
			"4:120: policies.api.rules[0].from_first: from first has no meaning for pause",
			"4:139: policies.api.rules[0].sub_windows: sub-windows has no meaning for pause",
			"4:148: policies.api.rules[0].hold: hold has no meaning for pause",
			"4:163: policies.api.rules[0].max_hold: max hold has no meaning for pause",
			"4:177: policies.api.rules[0].timezone: timezone has no meaning for pause",
			"4:191: policies.api.rules[0].by_cost: by cost has no meaning for pause",
		}, false,
	},
	"limit of a pause":      {with("      - {name: p, algorithm: pause, limit: 5/s}", ""), []string{"4:44: policies.api.rules[0].limit: limit has no meaning for pause"}, false},
	"pause with a plan":     {with("      - {name: p, algorithm: pause, plans: {gold: blocked}}", ""), []string{"4:51: policies.api.rules[0].plans.gold: plan has no meaning for pause"}, false},
	"pause with headroom":   {with("      - {name: p, algorithm: pause, headroom: {gold: 0}}", ""), []string{"4:54: policies.api.rules[0].headroom.gold: plan has no meaning for pause"}, false},
	"pause that is soft":    {with("      - {name: p, algorithm: pause, soft: 5}", ""), []string{"4:43: policies.api.rules[0].soft: soft has no meaning for pause"}, false},
	"candidate of a pause":  {with("      - {name: p, algorithm: pause, candidate: {algorithm: sliding_log, limit: 5/m}}", ""), []string{"4:48: policies.api.rules[0].candidate: candidate has no meaning for pause"}, false},
	"candidate is a pause":  {with("      - {name: r, algorithm: sliding_log, limit: 5/m, candidate: {algorithm: pause}}", ""), []string{"4:66: policies.api.rules[0].candidate: candidate cannot be a pause"}, false},
	"two pauses":            {with("      - {name: p, algorithm: pause}\n      - {name: q, algorithm: pause}", ""), []string{"5:9: policies.api.rules[1]: another rule of the policy is a pause"}, true},
	"pause for a key":       {with("      - {name: p, algorithm: pause}", "    keys: {a: {limits: {p: blocked}}}"), []string{"5:28: policies.api.keys.a.limits.p: limit has no meaning for pause"}, true},
	"no limit":              {with("      - {name: r, algorithm: sliding_log, candidate: {algorithm: sliding_log}}", ""), []string{"4:9: policies.api.rules[0]: the field limit is missing", "4:54: policies.api.rules[0].candidate: the field limit is missing"}, false},
	"several months":        {with("      - {name: r, algorithm: quota, limit: 5/2month}", ""), []string{`4:44: policies.api.rules[0].limit: invalid limit "5/2month": period: "2month" is not a positive duration (expected "10/s", "500/h", "10/s burst 20", "1000/month", "5", "unlimited" or "blocked")`}, false},
	"months":                {with("      - {name: r, algorithm: quota, limit: 5/months}", ""), []string{`4:44: policies.api.rules[0].limit: invalid limit "5/months": period: "months" is no period; write month (expected "10/s", "500/h", "10/s burst 20", "1000/month", "5", "unlimited" or "blocked")`}, false},
	"a calendar month":      {with("      - {name: r, algorithm: sliding_log, limit: 100/month, plans: {gold: 9/week}}", ""), []string{`4:50: policies.api.rules[0].limit: limit 100/month has a period of the calendar, and only quota counts by the calendar: write 100/30d`, `4:75: policies.api.rules[0].plans.gold: plan "gold": limit 9/week has a period of the calendar, and only quota counts by the calendar: write 9/7d`}, false},
	"a calendar day":        {with("      - {name: r, algorithm: token_bucket, limit: 5/day burst 9}", ""), []string{`4:51: policies.api.rules[0].limit: limit 5/day burst 9 has a period of the calendar, and only quota counts by the calendar: write 5/d burst 9`}, false},
	"places a month":        {with("      - {name: r, algorithm: in_flight, limit: 5/month}", ""), []string{`4:48: policies.api.rules[0].limit: limit 5/month has a period, and in_flight counts events at the same time: write 5`}, false},
	"month for a key":       {with("      - {name: r, algorithm: sliding_log, limit: 5/m}", "    keys: {a: {limits: {r: 5/month}}}"), []string{`5:28: policies.api.keys.a.limits.r: limit 5/month has a period of the calendar, and only quota counts by the calendar: write 5/30d`}, true},
	"hour for a key":        {with("      - {name: r, algorithm: quota, limit: 5/day}", "    keys: {a: {limits: {r: 5/h}}}"), []string{`5:28: policies.api.keys.a.limits.r: limit 5/h has a fixed period, and quota counts by the calendar: write 5 per day, week or month, such as 5/day`}, true},
	"timezone":              {with("      - {name: r, algorithm: quota, limit: 5/day, timezone: Europe/Berlinn}", ""), []string{`4:61: policies.api.rules[0].timezone: timezone "Europe/Berlinn" is unknown: write a name such as Europe/Berlin; where the system has no zoneinfo, the program has to import time/tzdata`}, true},
	"timezone is a path":    {with("      - {name: r, algorithm: quota, limit: 5/day, timezone: ../zoneinfo/UTC}", ""), []string{`4:61: policies.api.rules[0].timezone: timezone "../zoneinfo/UTC" is unknown: write a name such as Europe/Berlin; where the system has no zoneinfo, the program has to import time/tzdata`}, true},
	"timezone is Local":     {with("      - {name: r, algorithm: quota, limit: 5/day, timezone: Local}", ""), []string{`4:61: policies.api.rules[0].timezone: timezone "Local" differs from machine to machine: write a name such as Europe/Berlin`}, false},
	"timezone is localtime": {with("      - {name: r, algorithm: quota, limit: 5/day, timezone: localtime}", ""), []string{`4:61: policies.api.rules[0].timezone: timezone "localtime" differs from machine to machine: write a name such as Europe/Berlin`}, false},
	"timezone is empty":     {with("      - {name: r, algorithm: quota, limit: 5/day, timezone: ''}", ""), []string{`4:61: policies.api.rules[0].timezone: timezone is empty`}, false},
	"rollover is 0":         {with("      - {name: r, algorithm: quota, limit: 5/day, rollover: 0}", ""), []string{`4:61: policies.api.rules[0].rollover: rollover is 0, outside 1 to 2^48-1`}, false},
	"rollover is large":     {with("      - {name: r, algorithm: quota, limit: 5/day, rollover: 9223372036854775808}", ""), []string{`4:61: policies.api.rules[0].rollover: "9223372036854775808" is too large`}, false},
	"rollover is 10%":       {with("      - {name: r, algorithm: quota, limit: 5/day, rollover: 10%}", ""), []string{`4:61: policies.api.rules[0].rollover: is a text, expected an integer`}, false},
	"rollover of a window":  {with("      - {name: r, algorithm: fixed_window, limit: 5/d, rollover: 5}", ""), []string{`4:66: policies.api.rules[0].rollover: rollover has no meaning for fixed_window`}, false},
	"rollover of places":    {with("      - {name: r, algorithm: in_flight, limit: 5, rollover: 5}", ""), []string{`4:61: policies.api.rules[0].rollover: rollover has no meaning for in_flight`}, false},
	"timezone is a number":  {with("      - {name: r, algorithm: quota, limit: 5/day, timezone: 1}", ""), []string{`4:61: policies.api.rules[0].timezone: is an integer, expected a text`}, false},
	"timezone of a window":  {with("      - {name: r, algorithm: fixed_window, limit: 5/d, timezone: UTC}", ""), []string{`4:66: policies.api.rules[0].timezone: timezone has no meaning for fixed_window`}, false},
	"timezone of places":    {with("      - {name: r, algorithm: in_flight, limit: 5, timezone: UTC}", ""), []string{`4:61: policies.api.rules[0].timezone: timezone has no meaning for in_flight`}, false},
	"candidate's timezone":  {with("      - {name: r, algorithm: quota, limit: 5/day, candidate: {algorithm: quota, limit: 5/day, timezone: Nowhere}}", ""), []string{`4:105: policies.api.rules[0].candidate.timezone: timezone "Nowhere" is unknown: write a name such as Europe/Berlin; where the system has no zoneinfo, the program has to import time/tzdata`}, true},
	"headroom":              {with("      - {name: r, algorithm: token_bucket, limit: 5/m, headroom: {a: 100, b: -1, c: 99.5, unknown: 2, é: 20%}}", ""), []string{`4:70: policies.api.rules[0].headroom.a: plan "a": headroom is 100 percent, outside 0 to 99`, `4:78: policies.api.rules[0].headroom.b: plan "b": headroom is -1 percent, outside 0 to 99`, `4:85: policies.api.rules[0].headroom.c: plan "c": headroom is 99.5 percent, outside 0 to 99`, `4:100: policies.api.rules[0].headroom.unknown: plan cannot be called "unknown"`, `4:106: policies.api.rules[0].headroom["é"]: is a text, expected a number`, `4:106: policies.api.rules[0].headroom["é"]: plan "é" is not a name of at most 64 characters of printable ASCII`}, false},
	"headroom is NaN":       {with("      - {name: r, algorithm: token_bucket, limit: 5/m, headroom: {a: .nan}}", ""), []string{`4:70: policies.api.rules[0].headroom.a: plan "a": headroom is NaN percent, outside 0 to 99`}, true},
	"headroom is a number":  {with("      - {name: r, algorithm: token_bucket, limit: 5/m, headroom: 20}", ""), []string{`4:66: policies.api.rules[0].headroom: is an integer, expected a mapping`}, false},
	"headroom of a test":    {with("      - {name: r, algorithm: sliding_log, limit: 5/m, candidate: {algorithm: sliding_log, limit: 5/m, headroom: {a: 1}}}", ""), []string{`4:103: policies.api.rules[0].candidate.headroom: is an unknown field; known are algorithm, limit, soft, from_first, sub_windows, by_cost, hold, max_hold, rollover, timezone` + newer}, false},
	"headroom with a limit": {with("      - {name: r, algorithm: token_bucket, limit: 5/36500d, headroom: {a: 20}, soft: 500}", ""), []string{`4:51: policies.api.rules[0].limit: limit reaches over more than 100 years`}, true},
	"limit with soft":       {with("      - {name: r, algorithm: token_bucket, limit: 1/36000d, soft: 100}", ""), []string{"4:51: policies.api.rules[0].limit: limit reaches over more than 100 years"}, true},
	"mode":                  {with("      - {name: r, algorithm: sliding_log, limit: 5/m, mode: off}", ""), []string{`4:61: policies.api.rules[0].mode: "off" is no mode: use enforce, shadow` + newer}, false},
	"name of a plan":        {with("      - {name: r, algorithm: sliding_log, limit: 5/m, plans: {é: 5/m}}", ""), []string{`4:66: policies.api.rules[0].plans["é"]: plan "é" is not a name of at most 64 characters of printable ASCII`}, false},
	"candidate":             {with("      - {name: r, algorithm: sliding_log, limit: 5/m, candidate: {mode: shadow, limit: 5/m}}", ""), []string{"4:66: policies.api.rules[0].candidate: the field algorithm is missing", `4:67: policies.api.rules[0].candidate.mode: is an unknown field; known are algorithm, limit, soft, from_first, sub_windows, by_cost, hold, max_hold, rollover, timezone` + newer}, false},
	"limit of a candidate":  {with("      - {name: r, algorithm: sliding_log, limit: 5/m, candidate: {algorithm: sliding_log, limit: 5/m, soft: 2000}}", ""), []string{"4:109: policies.api.rules[0].candidate.soft: soft is 2000 percent, outside 0 to 1000"}, false},
	"empty override":        {with(valid, "    keys: {a: {}}"), []string{"5:15: policies.api.keys.a: an override needs a plan, limits or blocked: true"}, false},
	"override without":      {with(valid, "    keys: {a: {limits: {}, until: 2026-01-01T00:00:00Z}}"), []string{"5:15: policies.api.keys.a: an override needs a plan, limits or blocked: true"}, false},
	"override not blocked":  {with(valid, "    keys: {a: {blocked: false, until: 2026-01-01T00:00:00Z}}"), []string{"5:15: policies.api.keys.a: an override needs a plan, limits or blocked: true"}, false},
	"blocked is a text":     {with(valid, "    keys: {a: {blocked: yes}}"), []string{"5:25: policies.api.keys.a.blocked: is a text, expected a boolean"}, false},
	"plan is a number":      {with(valid, "    keys: {a: {plan: 1}}"), []string{"5:22: policies.api.keys.a.plan: is an integer, expected a text"}, false},
	"plan of an override":   {with(valid, `    keys: {"user:1": {plan: golden}}`), []string{`5:29: policies.api.keys["user:1"].plan: "golden" is no plan of the policy; did you mean "gold"?`}, true},
	"plan without a like":   {with(valid, `    keys: {a: {plan: pro}}`), []string{`5:22: policies.api.keys.a.plan: "pro" is no plan of the policy: use gold`}, true},
	"no plans":              {with("      - {name: r, algorithm: sliding_log, limit: 5/m}", "    keys: {a: {plan: gold}}"), []string{"5:22: policies.api.keys.a.plan: the policy has no plans"}, true},
	"rule of an override":   {with(valid, "    keys: {a: {limits: {s: 5/m}}}"), []string{`5:25: policies.api.keys.a.limits.s: the policy has no rule "s"`}, true},
	"long rule of a key":    {with("      - {name: "+strings.Repeat("r", 60)+", algorithm: sliding_log, limit: 5/m}", "    keys: {a: {limits: {"+strings.Repeat("r", 61)+": 5/m}}}"), []string{`5:25: policies.api.keys.a.limits.` + strings.Repeat("r", 61) + `: the policy has no rule "` + strings.Repeat("r", 61) + `"; did you mean "` + strings.Repeat("r", 60) + `"?`}, true},
	"longest rule of a key": {with("      - {name: "+strings.Repeat("r", 70)+", algorithm: sliding_log, limit: 5/m}", "    keys: {a: {limits: {r: 5/m}}}"), []string{`4:9: policies.api.rules[0]: "api.` + strings.Repeat("r", 70) + `" is its name on a store: name is 74 bytes long, more than 64`, `5:25: policies.api.keys.a.limits.r: the policy has no rule "r"`}, true},
	"limit of an override":  {with(valid, "    keys: {a: {limits: {r: 5/m burst 6}}}"), []string{"5:28: policies.api.keys.a.limits.r: burst has no meaning for sliding_log"}, true},
	"until is a date":       {with(valid, "    keys: {a: {plan: gold, until: 2026-01-01}}"), []string{`5:35: policies.api.keys.a.until: "2026-01-01" is no time such as 2027-01-01T00:00:00Z`}, false},
	"until is year 10000":   {with(valid, "    keys: {a: {plan: gold, until: '9999-12-31T23:59:59-01:00'}}"), []string{"5:35: policies.api.keys.a.until: is not a time of the years 1 to 9999 in UTC"}, true},
	"until is the zero":     {with(valid, "    keys: {a: {plan: gold, until: '0001-01-01T00:00:00Z'}}"), []string{"5:35: policies.api.keys.a.until: is not a time of the years 1 to 9999 in UTC"}, true},
	"invalid rule of a key": {with("      - {name: r, algorithm: none, limit: 5/m}", "    keys: {a: {limits: {r: 5/m burst 6}}}"), []string{`4:30: policies.api.rules[0].algorithm: "none" is no algorithm: use ` + allNames() + newer}, false},
	"route":                 {with(valid, "routes: {/: apo}"), []string{`5:13: routes["/"]: there is no policy "apo"; did you mean "api"?`}, true},
	"route to a number":     {with(valid, "routes: {/: 1}"), []string{`5:13: routes["/"]: is an integer, expected a text`}, false},
	"all routes":            {with(valid, "all_routes: apo"), []string{`5:13: all_routes: there is no policy "apo"; did you mean "api"?`}, true},
	"all routes, empty":     {with(valid, "all_routes: ''"), []string{`5:13: all_routes: there is no policy ""`}, false},
	"all routes, null":      {with(valid, "all_routes:"), []string{`5:12: all_routes: is null, expected a text`}, false},
	"all routes, a list":    {with(valid, "all_routes: [api]"), []string{`5:13: all_routes: is a list, expected a text`}, false},
	"all routes, a route":   {with(valid, "routes: {/: api}\nall_routes: /"), []string{`6:13: all_routes: there is no policy "/"`}, false},
	"too many rules": {
		"policies: {a: {rules: [" + manyRules(65) + "]}, b: {rules: [" + manyRules(63) + ", {name: c, algorithm: sliding_log, limit: 5/m, candidate: {algorithm: sliding_log, limit: 4/m}}]}}\n" +
			"routes: {/a: a, /b: b, /c: b}\nall_routes: a",
		[]string{`3:13: all_routes: policy "a" has 65 rules, candidates and bans, and "b" of the route "/b" has 65: a decision can have 128`}, true,
	},
	"invalid pattern":    {with(valid, `routes: {"GET /{": api}`), []string{`5:10: routes["GET /{"]: is an invalid pattern: parsing "GET /{": at offset 5: bad wildcard segment (must end with '}')`}, true},
	"long pattern":       {with(valid, "routes: {/"+strings.Repeat("a", 256)+": api}"), []string{`5:10: routes["/` + strings.Repeat("a", 256) + `"]: is longer than 256 bytes`}, false},
	"conflict":           {with(valid, `routes: {/x: api, "/a/{x}": api, "GET /{y}/b": api}`), []string{`5:34: routes["GET /{y}/b"]: conflicts with "/a/{x}" on line 5: GET /{y}/b and /a/{x} both match some paths, like "/a/b".`}, true},
	"text of a conflict": {with(valid, "routes: {'/b conflicts with pattern `/c`': api}"), []string{"5:10: routes[\"/b conflicts with pattern `/c`\"]: is an invalid pattern: parsing \"/b conflicts with pattern `/c`\": at offset 0: invalid method \"/b\""}, true},
	"same requests":      {with(valid, `routes: {"/{x}": api, "/{y}": api}`), []string{`5:23: routes["/{y}"]: conflicts with "/{x}" on line 5: /{y} matches the same requests as /{x}`}, true},
}

func TestParse_Errors(t *testing.T) {
	for name, test := range invalidFiles {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("f", []byte(test.in))
			var got Errors
			if !errors.As(err, &got) || c != nil {
				t.Fatalf("got %v and %v", c, err)
			}
			if got.Error() != "f:"+strings.Join(test.want, "\nf:") {
				t.Errorf("got:\n%v\nexpected:\n%s", err, "f:"+strings.Join(test.want, "\nf:"))
			}
		})
	}
}

func TestParse_Excerpt(t *testing.T) {
	long := strings.Repeat("é ", 50)
	for name, test := range map[string]struct{ in, want string }{
		"line":               {"a: 1\ndisabled: yes # c\n", "disabled: yes # c\n          ^"},
		"tabs and controls":  {"a: 1\ndisabled:\t\u200eyes\t\n", "disabled:  yes\n          ^"},
		"Windows":            {"a: 1\r\ndisabled: yes\r\n", "disabled: yes\n          ^"},
		"old Mac":            {"a: 1\rdisabled: yes\r", "disabled: yes\n          ^"},
		"byte order mark":    {"\ufeffdisabled: yes", "disabled: yes\n          ^"},
		"line of YAML":       {"a: \"\u2028\ndisabled: yes\"\ndisabled: yes", "disabled: yes\n          ^"},
		"long line":          {`{"a": "` + long + `", "disabled": yes, "b": "` + long + `"}`, strings.Repeat("é ", 15) + `", "disabled": yes, "b": "` + strings.Repeat("é ", 21) + "é\n" + strings.Repeat(" ", 50) + "^"},
		"end of a long line": {long + ": *", strings.Repeat(" é", 23) + " : *\n" + strings.Repeat(" ", 50) + "^"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(test.in))
			var all Errors
			errors.As(err, &all)
			if got := all[len(all)-1].Excerpt; !strings.HasPrefix(got, test.want) {
				t.Errorf("got\n%s\nexpected\n%s", got, test.want)
			}
		})
	}
}

// Many conflicts between patterns are found without a search for each.
func TestParse_Conflicts(t *testing.T) {
	routes := "routes:\n"
	for i := range 500 {
		routes += fmt.Sprintf("  /x%d%s: api\n", i, strings.Repeat("/a", 60))
	}
	routes += "  '/{x}/b': api\n"
	for i := range document.MaxErrors {
		routes += fmt.Sprintf("  '/y%d/{z}': api\n", i)
	}
	var err error
	_, allocated := testkit.Allocated(1, func() { _, err = Parse("f", []byte(with(valid, routes))) })
	want := `routes["/y99/{z}"]: conflicts with "/{x}/b" on line 506: /y99/{z} and /{x}/b both match some paths`
	var all Errors
	if errors.As(err, &all); len(all) != document.MaxErrors || !strings.Contains(all[document.MaxErrors-1].Error(), want) {
		t.Errorf("got %d errors, the last is %v, want %s", len(all), all[len(all)-1], want)
	}
	if got := allocated >> 20; got > 50 {
		t.Errorf("got %d MiB, want at most 50 MiB", got)
	}
}

// Each pattern has the line, the column and the reason of a warning, or none.
func TestWarnings(t *testing.T) {
	const parameter = "is a parameter in routers such as Gin and Echo only: write {id}, which all routers, weir explain and weir simulate match"
	for pattern, want := range map[string]string{
		"/a/{id}": "", "/a/{rest...}": "", "POST /a/{$}": "", "GET example.com/v1/": "", "PURGE /a": "", "QUERY /a": "", "MOVE /a": "",
		"/users/{id}/*x": `no request has the segment "*x": write {x...} for the rest of a path`,
		"/a/*any":        `no request has the segment "*any": write {any...} for the rest of a path`,
		"/a/*":           `no request has the segment "*": write {rest...} for the rest of a path`,
		"/a/**":          `no request has the segment "**": write {rest...} for the rest of a path`,
		"/a/*/b":         `no request has the segment "*": write {rest...} for the rest of a path`,
		"GET /a/:id":     `":id" ` + parameter,
		"/a/:id/b":       `":id" ` + parameter,
		"/a/b:batch":     "", // of AIP-136
		"/a/b*":          "",
		"get /a":         `no request has the method "get": write GET`,
		"Post /a":        `no request has the method "Post": write POST`,
		"PSOT /a":        `the method "PSOT" is unusual; did you mean "POST"?`,
		"/a?x=1":         `no path has "?x=1": a query does not choose the route`,
		"*.shop.com/a":   `no request has the host "*.shop.com": a pattern without a host matches each host`,
		"GET *.shop/a":   `no request has the host "*.shop": a pattern without a host matches each host`,
		"GET shop:8080/": `no request has the host "shop:8080", because hosts are compared without the port`,
	} {
		t.Run(pattern, func(t *testing.T) {
			text := fmt.Appendf(nil, "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}]}}\nroutes:\n  '%s': api\n", pattern)
			if _, err := Parse("f.yaml", text); err != nil {
				t.Fatal(err)
			}
			got := Warnings("f.yaml", text)
			switch {
			case want == "" && len(got) == 0:
			case len(got) != 1 || want == "" || got[0].Error() != fmt.Sprintf("f.yaml:3:3: routes[%q]: %s", pattern, want):
				t.Errorf("got %v, want %s", got, want)
			case !strings.Contains(got[0].Excerpt, pattern):
				t.Errorf("got the excerpt %q", got[0].Excerpt)
			}
		})
	}
}

// The first ban of a file has a warning about its keys.
func TestWarnings_Ban(t *testing.T) {
	const rule = "{name: %s, algorithm: fixed_window, limit: 1/m, block_for: 10m}"
	text := fmt.Sprintf("policies: {api: {rules: ["+rule+", "+rule+"]}}", "a", "b")
	got := Warnings("f", []byte(text))
	if want := "f:1:84: policies.api.rules[0].block_for: use it only for keys that the client cannot choose: another client could ban them"; len(got) != 1 || got[0].Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if got := Warnings("f", []byte(strings.ReplaceAll(text, ", block_for: 10m", ""))); got != nil {
		t.Errorf("without a ban: got %v", got)
	}
}

// A file that is invalid elsewhere has errors only.
func TestWarnings_InvalidFile(t *testing.T) {
	for _, text := range []string{"routes: {/a/*: api}", "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}]}}\nroutes: {/a/*: api}\n---\n{}", "?"} {
		if got := Warnings("f", []byte(text)); got != nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// Parse returns a Config that Format writes and the schema accepts, or errors with positions.
func FuzzParse(f *testing.F) {
	_, s := schema(f)
	f.Add(example(f))
	f.Add([]byte(`{"policies": {"api": {"rules": [{"name": "r", "algorithm": "sliding_log", "limit": "5/m"}], "keys": {"\ud83d\ude00": {"limits": {"r": "1/m"}}}}}}`))
	for _, test := range invalidFiles {
		f.Add([]byte(test.in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		var all Errors
		if errors.As(err, &all) {
			for _, e := range all {
				if e.Line < 1 || e.Column < 1 || e.Reason == "" || !utf8.ValidString(e.Error()+e.Excerpt) {
					t.Errorf("got %#v", e)
				}
			}
			return
		}
		formatted, err := c.Format()
		if err != nil {
			t.Fatalf("%v, of %+v", err, c)
		}
		if again, err := Parse("f", formatted); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("got %+v (%v), expected %+v", again, err, c)
		}
		if err := validates(t, s, formatted); err != nil {
			t.Errorf("the schema rejects %s: %v", formatted, err)
		}
	})
}
