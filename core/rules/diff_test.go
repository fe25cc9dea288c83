package rules

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
)

// parse returns a Config with two policies and text that replaces parts of it.
func parse(t *testing.T, in string) *Config {
	t.Helper()
	c, err := Parse("f", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDiff(t *testing.T) {
	rules := func(rules string) string { return "policies: {api: {rules: [" + rules + "]}}" }
	api := func(more string) string {
		return "policies: {api: {rules: [{name: r, algorithm: token_bucket, limit: 10/s, plans: {gold: 100/s}}]" + more + "}}"
	}
	const (
		first  = "{name: r, algorithm: sliding_window, limit: 10/s, "
		second = "{name: s, algorithm: sliding_log, limit: 500/h}"
		third  = "{name: t, algorithm: fixed_window, limit: 7/d}"
	)
	for name, test := range map[string]struct {
		a, b string
		want []string
	}{
		"equal":               {api(""), api(""), nil},
		"switches":            {api(""), api(", disabled: true") + "\ndisabled: true", []string{"all policies: switched off", "policy api: switched off"}},
		"switched on":         {api(", disabled: true") + "\ndisabled: true", api(""), []string{"all policies: switched on", "policy api: switched on"}},
		"percentage":          {api(", enforce: 0.5"), api(""), []string{"policy api enforce: 0.5% to 100%"}},
		"rule":                {rules(first + "soft: 10}," + second), rules(first + "soft: 10}," + third), []string{"api.s: removed (was sliding_log 500/h)", "api.t: added (fixed_window 7/d)"}},
		"order":               {rules(second + "," + third), rules(third + "," + second), []string{"policy api: rules in another order"}},
		"order of others":     {rules(second + "," + third), rules(third), []string{"api.s: removed (was sliding_log 500/h)"}},
		"limit":               {rules("{name: r, algorithm: token_bucket, limit: 10/s}"), rules("{name: r, algorithm: token_bucket, limit: 20/s burst 5}"), []string{"api.r: 10/s to 20/s burst 5"}},
		"another period":      {rules(second), rules("{name: s, algorithm: sliding_log, limit: 500/d}"), []string{"api.s: 500/h to 500/d", "api.s: begins unused for every key"}},
		"period of a bucket":  {rules("{name: r, algorithm: token_bucket, limit: 10/s}"), rules("{name: r, algorithm: token_bucket, limit: 10/h}"), []string{"api.r: 10/s to 10/h"}},
		"from unlimited":      {rules("{name: s, algorithm: sliding_log, limit: unlimited}"), rules(second), []string{"api.s: unlimited to 500/h"}},
		"algorithm":           {rules(first + "sub_windows: 30}"), rules("{name: r, algorithm: sliding_log, limit: 10/s}"), []string{"api.r algorithm: sliding_window to sliding_log", "api.r: begins unused for every key"}},
		"sub-windows":         {rules(first + "sub_windows: 30}"), rules(first + "}"), []string{"api.r sub-windows: 30 to 60", "api.r: begins unused for every key"}},
		"from first":          {rules("{name: r, algorithm: fixed_window, limit: 5/s}"), rules("{name: r, algorithm: fixed_window, limit: 5/s, from_first: true}"), []string{"api.r from first: no to yes", "api.r: begins unused for every key"}},
		"default sub-windows": {rules(first + "sub_windows: 60}"), rules(first + "}"), nil},
		"modifiers":           {rules(first + "soft: 10}"), rules(first + "mode: shadow}"), []string{"api.r mode: enforce to shadow", "api.r soft: 10% to 0%"}},
		"unit":                {rules(first + "}"), rules(first + "unit: tokens}"), []string{"api.r unit: requests to tokens"}},
		"default unit":        {rules(first + "unit: requests}"), rules(first + "}"), nil},
		"new unit":            {rules(second), rules(second + ", " + first + "unit: tokens}"), []string{"api.r: added (sliding_window 10/s unit tokens)"}},
		"plans": {
			rules(first + "plans: {gold: 100/s, pro: 50/s, x: 1/s}}"), rules(first + "plans: {x: 1/s, gold: unlimited, banned: blocked}}"),
			[]string{"api.r plan banned: added (blocked)", "api.r plan gold: 100/s to unlimited", "api.r plan pro: removed (was 50/s)"},
		},
		"candidate": {
			rules(first + "candidate: {algorithm: sliding_log, limit: 5/s}}"), rules(first + "candidate: {algorithm: sliding_log, limit: 6/s, soft: 1}}"),
			[]string{"api.r candidate soft: 0% to 1%", "api.r candidate: 5/s to 6/s"},
		},
		"new candidate": {
			rules(first + "}"), rules(first + "candidate: {algorithm: sliding_window, limit: 5/s, sub_windows: 6}}"),
			[]string{"api.r candidate: added (sliding_window 5/s in 6 sub-windows)"},
		},
		"old candidate": {rules(first + "candidate: {algorithm: sliding_log, limit: 5/s}}"), rules(first + "}"), []string{"api.r candidate: removed (was sliding_log 5/s)"}},
		"policy": {
			"policies: {a: {rules: [" + second + "]}}", "policies: {b: {enforce: 1, rules: [" + first + "soft: 10, mode: shadow, plans: {p: 1/s}}]}}",
			[]string{"b.r plan p: added (1/s)", "b.r: added (sliding_window 10/s soft 10% shadow)", "policy a: removed", "policy b enforce: 100% to 1%", "policy b: added"},
		},
		"in flight": {
			rules("{name: r, algorithm: in_flight, limit: 5, plans: {gold: 10}, max_hold: 1h}"), rules("{name: r, algorithm: in_flight, limit: 8, plans: {gold: 20}, hold: 90s}"),
			[]string{"api.r hold: 30s to 1m30s", "api.r max hold: 1h to none", "api.r plan gold: 10 to 20", "api.r plan gold: begins unused for every key", "api.r: 5 to 8", "api.r: begins unused for every key"},
		},
		"default hold":  {rules("{name: r, algorithm: in_flight, limit: 5}"), rules("{name: r, algorithm: in_flight, limit: \"5\", hold: 30s}"), nil},
		"new in flight": {rules(second), rules(second + ", {name: r, algorithm: in_flight, limit: 5, hold: 2m, max_hold: 1h}"), []string{"api.r: added (in_flight 5 hold 2m max hold 1h)"}},
		"by cost": {
			rules("{name: r, algorithm: in_flight, limit: 5, plans: {gold: 10}}"), rules("{name: r, algorithm: in_flight, limit: 8000, plans: {gold: 20000}, by_cost: true}"),
			[]string{"api.r by cost: no to yes", "api.r plan gold: 10 to 20000", "api.r: 5 to 8000"},
		},
		"no longer by cost": {rules("{name: r, algorithm: in_flight, limit: 5, by_cost: true}"), rules("{name: r, algorithm: in_flight, limit: 5, by_cost: false}"), []string{"api.r by cost: yes to no"}},
		"new by cost":       {rules(second), rules(second + ", {name: r, algorithm: in_flight, limit: 90000, by_cost: true, hold: 2m, unit: tokens}"), []string{"api.r: added (in_flight 90000 by cost hold 2m unit tokens)"}},
		"to by cost": {
			rules(first + "}"), rules("{name: r, algorithm: in_flight, limit: 90000, by_cost: true}"),
			[]string{"api.r algorithm: sliding_window to in_flight", "api.r by cost: no to yes", "api.r: 10/s to 90000", "api.r: begins unused for every key"},
		},
		"from by cost": {
			rules("{name: r, algorithm: in_flight, limit: 90000, by_cost: true}"), rules(first + "}"),
			[]string{"api.r algorithm: in_flight to sliding_window", "api.r: 90000 to 10/s", "api.r: begins unused for every key"},
		},
		"quota": {
			rules("{name: r, algorithm: quota, limit: 5/month, plans: {gold: 10/month}}"), rules("{name: r, algorithm: quota, limit: 8/week, plans: {gold: 10/day}, timezone: Europe/Berlin}"),
			[]string{"api.r plan gold: 10/month to 10/day", "api.r plan gold: begins unused for every key", "api.r timezone: UTC to Europe/Berlin", "api.r: 5/month to 8/week", "api.r: begins unused for every key"},
		},
		"rollover":         {rules("{name: r, algorithm: quota, limit: 5/day}"), rules("{name: r, algorithm: quota, limit: 5/day, rollover: 3}"), []string{"api.r rollover: 0 to 3"}},
		"default timezone": {rules("{name: r, algorithm: quota, limit: 5/day}"), rules("{name: r, algorithm: quota, limit: 5 / day, timezone: UTC}"), nil},
		"new quota": {
			rules(second), rules(second + ", {name: r, algorithm: quota, limit: 5/day, timezone: Asia/Tokyo, soft: 10, headroom: {batch: 20}}"),
			[]string{"api.r headroom batch: added (20%)", "api.r: added (quota 5/day in Asia/Tokyo soft 10%)"},
		},
		"to a quota": {
			rules(first + "}"), rules("{name: r, algorithm: quota, limit: 5/day, timezone: Asia/Tokyo}"),
			[]string{"api.r algorithm: sliding_window to quota", "api.r timezone: UTC to Asia/Tokyo", "api.r: 10/s to 5/day", "api.r: begins unused for every key"},
		},
		"from a quota": {
			rules("{name: r, algorithm: quota, limit: 5/day, timezone: Asia/Tokyo}"), rules(first + "}"),
			[]string{"api.r algorithm: quota to sliding_window", "api.r: 5/day to 10/s", "api.r: begins unused for every key"},
		},
		"block for": {
			rules(first + "block_for: 60m}, {name: b, algorithm: sliding_log, limit: 5/s, block_for: 10m}, {name: n, algorithm: sliding_log, limit: 5/s}"),
			rules(first + "block_for: 1h}, {name: b, algorithm: sliding_log, limit: 5/s, block_for: 36h}, {name: n, algorithm: sliding_log, limit: 5/s, block_for: 90s}"),
			[]string{"api.b block for: 10m to 36h", "api.n block for: none to 1m30s"},
		},
		"no longer blocks": {rules(first + "block_for: 1h}"), rules(first + "}"), []string{"api.r block for: 1h to none"}},
		"new block for":    {rules(second), rules(second + ", {name: r, algorithm: sliding_log, limit: 5/s, block_for: 1h}"), []string{"api.r: added (sliding_log 5/s block for 1h)"}},
		"headroom": {
			rules(first + "headroom: {a: 20, b: 20, c: 5}}"), rules(first + "headroom: {a: 20, b: 12.5, d: 1}}"),
			[]string{"api.r headroom b: 20% to 12.5%", "api.r headroom c: removed (was 5%)", "api.r headroom d: added (1%)"},
		},
		"to in flight": {
			rules(first + "}"), rules("{name: r, algorithm: in_flight, limit: 5, hold: 2m, max_hold: 1h}"),
			[]string{"api.r algorithm: sliding_window to in_flight", "api.r hold: 30s to 2m", "api.r max hold: none to 1h", "api.r: 10/s to 5", "api.r: begins unused for every key"},
		},
		"new pause":    {rules(second), rules(second + ", {name: p, algorithm: pause, mode: shadow}"), []string{"api.p: added (pause shadow)"}},
		"old pause":    {rules(second + ", {name: p, algorithm: pause}"), rules(second), []string{"api.p: removed (was pause)"}},
		"to a pause":   {rules(second), rules("{name: s, algorithm: pause}"), []string{"api.s algorithm: sliding_log to pause", "api.s: 500/h to none", "api.s: begins unused for every key"}},
		"from a pause": {rules("{name: s, algorithm: pause}"), rules(second), []string{"api.s algorithm: pause to sliding_log", "api.s: begins unused for every key", "api.s: none to 500/h"}},
		"keys": {
			api(", keys: {a: {plan: gold}, b: {plan: gold}, c: {plan: gold}, d: {blocked: true, until: 2027-01-01T00:00:00Z}, e: {plan: gold}}"),
			api(`, keys: {a: {plan: gold, limits: {r: 5/s}, until: 2027-01-01T01:00:00+01:00}, c: {plan: gold}, d: {blocked: true}, e: {blocked: true, plan: gold}, "x y\n": {limits: {r: blocked}}}`),
			[]string{
				`api key "x y\n": added (r blocked)`, "api key a: plan gold to plan gold, r 5/s, until 2027-01-01T00:00:00Z", "api key b: removed (was plan gold)",
				"api key d: blocked, until 2027-01-01T00:00:00Z to blocked", "api key e: plan gold to blocked, plan gold",
			},
		},
		"routes": {
			api("") + "\nroutes: {GET /a: api, /b: api}", "policies: {api: {rules: [" + second + "]}, b: {rules: [" + second + "]}}\nroutes: {GET /a: b, /c: b}",
			[]string{
				"api.r: removed (was token_bucket 10/s)", "api.s: added (sliding_log 500/h)", "b.s: added (sliding_log 500/h)", "policy b: added",
				"route /b: removed (was api)", "route /c: added (b)", "route GET /a: api to b",
			},
		},
		"all routes":          {api(""), api("") + "\nall_routes: api", []string{"all_routes: added (api)"}},
		"all routes, no more": {api("") + "\nall_routes: api", api(""), []string{"all_routes: removed (was api)"}},
		"other for all routes": {
			"policies: {a: {rules: [" + second + "]}, b: {rules: [" + second + "]}}\nall_routes: a", "policies: {a: {rules: [" + second + "]}, b: {rules: [" + second + "]}}\nall_routes: b",
			[]string{"all_routes: a to b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Diff(parse(t, test.a), parse(t, test.b)); !slices.Equal(got, test.want) {
				t.Errorf("got %q, expected %q", got, test.want)
			}
		})
	}
}

// core.Never is no duration, and Format writes it as one that Parse reads.
func TestDiff_Never(t *testing.T) {
	const never = "policies: {a: {rules: [{name: r, algorithm: in_flight, limit: 1, max_hold: 2562047h47m16.854775807s}]}}"
	without, with := parse(t, strings.Replace(never, ", max_hold: 2562047h47m16.854775807s", "", 1)), parse(t, never)
	for _, test := range []struct {
		a, b *Config
		want string
	}{{without, with, "a.r max hold: none to never"}, {with, without, "a.r max hold: never to none"}, {nil, with, "a.r: added (in_flight 1 max hold never)"}} {
		if got := Diff(test.a, test.b); got[0] != test.want {
			t.Errorf("got %q, expected %q", got, test.want)
		}
	}
}

func TestDiff_Nil(t *testing.T) {
	c := parse(t, "policies: {a: {rules: [{name: r, algorithm: sliding_log, limit: 1/s}]}}")
	for _, test := range []struct {
		a, b *Config
		want []string
	}{
		{nil, nil, nil},
		{nil, c, []string{"a.r: added (sliding_log 1/s)", "policy a: added"}},
		{c, nil, []string{"policy a: removed"}},
	} {
		if got := Diff(test.a, test.b); !slices.Equal(got, test.want) {
			t.Errorf("got %q, expected %q", got, test.want)
		}
	}
}

// A change of any field is in the result.
func TestDiff_EveryField(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[Policy](), reflect.TypeFor[Rule](), reflect.TypeFor[core.Plan](), reflect.TypeFor[Override]()} {
		want := map[string]int{"Config": 5, "Policy": 4, "Rule": 4, "Plan": 3, "Override": 4}[typ.Name()]
		if got := typ.NumField(); got != want {
			t.Errorf("%s has %d fields: Diff, Format and TestDiff know %d", typ, got, want)
		}
	}
}
