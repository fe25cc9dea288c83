package rules_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// A ban stays for the limits of an override and of another configuration, and a key without a limit has none.
func TestSet_Ban(t *testing.T) {
	const before = "policies: {api: {rules: [{name: r, algorithm: sliding_log, limit: 1/h, plans: {gold: 9/h, staff: unlimited}, block_for: 10m}]"
	for name, c := range map[string]struct {
		after, plan                string
		banned, blocked, unlimited bool
	}{
		"same":             {after: before + "}}", banned: true},
		"plan":             {after: before + "}}", plan: "gold", banned: true},
		"unlimited plan":   {after: before + "}}", plan: "staff", unlimited: true},
		"override":         {after: before + ", keys: {k: {limits: {r: 5/h}}}}}", banned: true},
		"override of plan": {after: before + ", keys: {k: {plan: gold}}}}", banned: true},
		"unlimited":        {after: before + ", keys: {k: {limits: {r: unlimited}}}}}", unlimited: true},
		"blocked":          {after: before + ", keys: {k: {blocked: true}}}}", blocked: true},
		"other time":       {after: "policies: {api: {rules: [{name: r, algorithm: token_bucket, limit: 7/s, block_for: 1s}]}}", banned: true},
		"no ban":           {after: "policies: {api: {rules: [{name: r, algorithm: sliding_log, limit: 7/h}]}}"},
		"shadow":           {after: "policies: {api: {rules: [{name: r, algorithm: sliding_log, limit: 7/h, block_for: 10m, mode: shadow}]}}"},
		"enforced for 0 %": {after: "policies: {api: {enforce: 0, rules: [{name: r, algorithm: sliding_log, limit: 7/h, block_for: 10m}]}}"},
		"disabled":         {after: "policies: {api: {disabled: true, rules: [{name: r, algorithm: sliding_log, limit: 7/h, block_for: 10m}]}}", unlimited: true},
	} {
		t.Run(name, func(t *testing.T) {
			config := func(text string) *rules.Config {
				c, err := rules.Parse("f", []byte(text))
				testkit.Must(t, err)
				return c
			}
			set, err := rules.New(memstore.New(), config(before+"}}"))
			testkit.Must(t, err)
			l, err := set.Limiter("api")
			testkit.Must(t, err)
			testkit.Admit(t, l, "k", 1)
			if d := testkit.Allow(t, l, "k"); d.State(0).Ban != 10*time.Minute {
				t.Fatalf("the denial is %+v", d)
			}
			testkit.Must(t, set.Apply(config(c.after)))
			if c.plan != "" {
				l = l.Plan(c.plan)
			}
			d := testkit.Peek(t, l, "k")
			if got := d.State(0).Ban > 0; got != c.banned || d.Blocked() != c.blocked || d.Allowed != (!c.banned && !c.blocked) || (d.State(0).Limit() == core.Unlimited) != c.unlimited {
				t.Errorf("got %+v, want a ban: %t, a block: %t", d, c.banned, c.blocked)
			}
		})
	}
}

// A denial by the enforced limit of a key begins a ban, and one by a shadow or a candidate does not.
func TestSet_Ban_Begins(t *testing.T) {
	for name, c := range map[string]struct {
		rule  string
		key   string
		bans  bool
		admit int
	}{
		"rule":       {"limit: 1/h, block_for: 10m", "k", true, 1},
		"override":   {"limit: 9/h, block_for: 10m", "own", true, 2},
		"candidate":  {"limit: 9/h, block_for: 10m, candidate: {algorithm: sliding_log, limit: 1/h}", "k", false, 1},
		"with other": {"limit: 2/h, block_for: 10m, candidate: {algorithm: sliding_log, limit: 1/h}", "k", true, 2},
		"shadow":     {"limit: 1/h, block_for: 10m, mode: shadow", "k", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := rules.Parse("f", []byte("policies: {api: {rules: [{name: r, algorithm: sliding_log, "+c.rule+"}], keys: {own: {limits: {r: 2/h}}}}}"))
			testkit.Must(t, err)
			set, err := rules.New(memstore.New(), config)
			testkit.Must(t, err)
			l, err := set.Limiter("api")
			testkit.Must(t, err)
			testkit.Admit(t, l, c.key, c.admit)
			if d := testkit.Allow(t, l, c.key); (d.State(0).Ban > 0) != c.bans || d.Allowed == c.bans {
				t.Errorf("got %+v, want a ban: %t", d, c.bans)
			}
		})
	}
}
