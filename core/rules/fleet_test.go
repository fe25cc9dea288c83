package rules_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// Switches turn limits of code and of files off in processes with a resilient store, and in no others.
func TestFleet_TurnOff(t *testing.T) {
	rdb := redistest.NewServer(t).Client()
	store := resilient.New(rdb, "shop")
	t.Cleanup(func() { store.Close() })
	set := watched(t, store, rules.RedisOf(store))
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	code := testkit.Limiter(t, store, core.SlidingLog("login", core.PerHour(1)))
	testkit.Admit(t, api, "k", 100)
	testkit.Admit(t, code, "k", 1)
	other := redisstore.New(rdb, "shop")
	plain := watched(t, other, rules.Redis(rdb, "shop"))
	fleet := rules.FleetOf(store)
	if rules.FleetOf(memstore.New()) != nil {
		t.Error("a store without Redis has a Fleet")
	}
	is := func(want string) {
		t.Helper()
		if got := fmt.Sprint(testkit.Ask(t, api, "k", 50).Allowed, testkit.Allow(t, code, "k").Allowed); got != want {
			t.Errorf("api and login: got %s, want %s", got, want)
		}
	}
	in := func(change int64) {
		t.Helper()
		awaitProcesses(t, rules.RedisOf(store), func(all []rules.Process) error {
			var got []int64
			for _, p := range all {
				got = append(got, p.SwitchChange)
			}
			if s := fmt.Sprint(got); s != fmt.Sprint([]int64{change, -1}) && s != fmt.Sprint([]int64{-1, change}) {
				return fmt.Errorf("got the changes %v", got)
			}
			return nil
		})
	}
	is("false false")
	in(0)
	now, err := fleet.TurnOff(t.Context(), rules.Switch{Rule: "api", By: "ann", Reason: "too strict"})
	testkit.Must(t, err)
	in(now.Change)
	is("true false")
	if p, err := plain.Limiter("api"); err != nil || testkit.Ask(t, p, "k", 50).Allowed {
		t.Errorf("a store that is not resilient follows, %v", err)
	}
	testkit.Must(t, set.Block(t.Context(), "api", "k", time.Time{}))
	awaitProcesses(t, rules.RedisOf(store), func([]rules.Process) error {
		if testkit.Allow(t, api, "k").Allowed {
			return errors.New("a block is not in force while the limits are off")
		}
		return nil
	})
	testkit.Must(t, set.Unblock(t.Context(), "api", "k"))
	now, err = fleet.TurnOff(t.Context(), rules.Switch{Rule: rules.AllLimits, By: "bob"})
	testkit.Must(t, err)
	in(now.Change)
	is("true true")
	all, err := fleet.Switches(t.Context())
	off := all.Off
	if err != nil || all.Change != now.Change || !all.On.Since.IsZero() || len(off) != 2 || off[0].Rule != rules.AllLimits || time.Since(off[0].Since) > time.Minute || off[1].By != "ann" ||
		off[1].Reason != "too strict" || time.Since(off[1].Since) > time.Minute {
		t.Errorf("got %+v, %v", all, err)
	}
	if now, err = fleet.TurnOn(t.Context(), rules.Switch{Rule: "api", By: "eve"}); err != nil || now.On.By != "eve" || len(now.Off) != 1 {
		t.Error(err)
	}
	in(now.Change)
	is("true true")
	if now, err = fleet.TurnOn(t.Context(), rules.Switch{Rule: rules.AllLimits}); err != nil {
		t.Error(err)
	}
	in(now.Change)
	is("false false")
	for name, err := range map[string]error{
		"on, and nothing is off": func() error { _, err := fleet.TurnOn(t.Context(), rules.Switch{Rule: rules.AllLimits}); return err }(),
		"on, another rule":       func() error { _, err := fleet.TurnOn(t.Context(), rules.Switch{Rule: "api"}); return err }(),
	} {
		if !errors.Is(err, rules.ErrNotOff) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, s := range []rules.Switch{{}, {Rule: "a\n"}, {Rule: strings.Repeat("x", 65)}, {Rule: "x", By: strings.Repeat("x", 201)}, {Rule: "x", Reason: strings.Repeat("x", 201)}} {
		if _, err := fleet.TurnOff(t.Context(), s); err == nil {
			t.Errorf("%.30v: got no error", s)
		}
	}
}

// Figures are those of all processes.
func TestFleet_Figures(t *testing.T) {
	rdb := redistest.NewServer(t).Client()
	fleet := rules.Redis(rdb, "shop").Fleet()
	if f, err := fleet.Figures(t.Context(), time.Hour); err != nil || len(f.Rules) > 0 || f.Requests.Total() > 0 {
		t.Errorf("without a process: got %+v, %v", f, err)
	}
	record := processes.NewRecord(func(ctx context.Context, args ...any) (any, error) { return rdb.Do(ctx, args...).Result() }, "weir:shop:", "shop")
	testkit.Must(t, record.Add(t.Context(), time.Now(), map[string]processes.Counts{"": {driver.Allowed: 3, driver.Denied: 1}, "api": {driver.Denied: 1}},
		map[processes.DeniedKey]uint64{{Tag: fleet.Tag("ann"), Rule: "api"}: 1, {Tag: "b", Rule: "api"}: 7}))
	for _, period := range []time.Duration{0, 2 * time.Minute, 100 * time.Hour} {
		f, err := fleet.Figures(t.Context(), max(period, 2*time.Minute))
		if err != nil || f.Requests.Total() != 4 || f.Rules["api"].Denied() != 1 || fmt.Sprint(f.Denied) != "[{b api 7} {"+fleet.Tag("ann")+" api 1}]" {
			t.Errorf("%v: got %+v, %v", period, f, err)
		}
	}
}

// Differences names rules, configurations and secrets in which processes do not agree.
func TestDifferences(t *testing.T) {
	rule := func(limit core.Limit, inSet bool, plans ...core.Plan) rules.PublishedRule {
		spec := core.Spec{Algorithm: driver.SlidingLog, Limit: limit, Plans: plans}
		spec.Name = "api"
		return rules.PublishedRule{Name: "api", Text: core.NewRule(spec).String(), InSet: inSet, Policy: rules.Policy{Rules: []rules.Rule{{Spec: spec}}}}
	}
	with := func(p rules.PublishedRule, others ...rules.PublishedRule) map[string]rules.PublishedRule {
		p.Others = others
		return map[string]rules.PublishedRule{"api": p}
	}
	set := func(source, version string) rules.Process {
		return rules.Process{PID: 7, Host: "web", Sets: []rules.ProcessSet{{Source: source, Config: version}}}
	}
	secret := set("a.yaml", "1")
	secret.Sets[0].OtherSecret = true
	lost := set("a.yaml", "1")
	lost.Sets[0].Lost = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		all       []rules.Process
		published map[string]rules.PublishedRule
		want      string
	}{
		"none":       {nil, nil, "[]"},
		"they agree": {[]rules.Process{set("a.yaml", "1"), set("a.yaml", "1"), set("b.yaml", "2")}, with(rule(core.PerHour(5), false)), "[]"},
		"limits": {
			nil, with(rule(core.PerHour(5), false), rule(core.PerHour(7), false)),
			`[the rule "api" differs: sliding_log "api" 5/h, in code; sliding_log "api" 7/h, in code]`,
		},
		"plans": {
			nil, with(rule(core.PerHour(5), false), rule(core.PerHour(5), false, core.Plan{Name: "pro", Limit: core.PerHour(9)})),
			`[the rule "api" differs: sliding_log "api" 5/h, in code; sliding_log "api" 5/h, in code, plan pro 9/h]`,
		},
		"code and a file": {
			nil, with(rule(core.PerHour(5), false), rule(core.PerHour(5), true)),
			`[the rule "api" differs: sliding_log "api" 5/h, in code; sliding_log "api" 5/h, in a configuration]`,
		},
		"configurations": {[]rules.Process{set("a.yaml", "1"), set("a.yaml", "2"), set("a.yaml", "1")}, nil, "[the configuration of a.yaml has several versions: 1, 2]"},
		"a loss":         {[]rules.Process{lost, set("a.yaml", "1")}, nil, "[process 7 of web found at 2027-01-01T00:00:00Z that Redis had lost all overrides and blocks: write them again]"},
		"secrets":        {[]rules.Process{secret, secret}, nil, "[process 7 of web has another key secret]"},
	} {
		if got := fmt.Sprint(rules.Differences(c.all, c.published)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
