package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// Nothing of a key is left in Redis, except for changes of overrides, and all of other keys stays.
func TestForget(t *testing.T) {
	server := redistest.NewServer(t)
	rdb := server.Client()
	files(t)
	content := []byte(`{policies: {api: {rules: [{name: minute, algorithm: sliding_log, limit: 5/m, plans: {gold: 9/h}}, {name: month, algorithm: quota, limit: 100/month},
		{name: slots, algorithm: in_flight, limit: 3}, {name: stop, algorithm: pause}]}, jobs: {rules: [{name: day, algorithm: token_bucket, limit: 5/d, block_for: 1h}]}}}`)
	write(t, "api.yaml", string(content))
	store := resilient.New(rdb, "test")
	t.Cleanup(func() { store.Close() })
	config, err := rules.Parse("api.yaml", content)
	testkit.Must(t, err)
	set, err := rules.New(store, config, rules.Overrides(rules.RedisOf(store)))
	testkit.Must(t, err)
	login := testkit.Limiter(t, store, core.SlidingWindow("login", core.PerHour(5)).Plan("pro", core.PerDay(5)).BlockFor(time.Hour))
	fleet := rules.FleetOf(store)
	for _, key := range []string{"user:ann", "user:bob"} {
		for _, policy := range []string{"api", "jobs"} {
			l, err := set.Limiter(policy)
			testkit.Must(t, err)
			for _, plan := range []string{"", "gold"} {
				r := testkit.Reserve(t, l.Plan(plan), key, 1)
				defer func() { _ = r.Release(t.Context()) }()
			}
			testkit.Must(t, set.Override(t.Context(), policy, key, rules.Override{Limits: map[string]core.Limit{map[string]string{"api": "minute", "jobs": "day"}[policy]: core.Per(7, 3*time.Hour)}}, rules.Note("a note"), rules.KeyText()))
			r := testkit.Reserve(t, l, key, 1) // with the length of the override
			defer func() { _ = r.Release(t.Context()) }()
			if policy == "jobs" && testkit.Ask(t, l, key, 7).State(0).Ban == 0 {
				t.Fatal("got no ban")
			}
			testkit.Must(t, set.Block(t.Context(), policy, key, time.Now().Add(time.Hour), rules.KeyText()))
		}
		testkit.Admit(t, login, key, 1)
		testkit.Admit(t, login.Plan("pro"), key, 1)
		testkit.Ask(t, login, key, 5) // begins a ban
		testkit.Must(t, rdb.Do(t.Context(), "zadd", fmt.Sprintf("weir:test:{test}processes:denied:%d", time.Now().Unix()/3600), 3, fleet.Tag(key)+" api", 2, fleet.Tag(key)+" login").Err())
	}
	published(t, fleet, 6)
	// left returns the keys and members that contain the hash or the text of a key.
	left := func(key string) (found []string) {
		t.Helper()
		for _, name := range rdb.Keys(t.Context(), "*").Val() {
			dump := name
			switch rdb.Type(t.Context(), name).Val() {
			case "string":
				dump += " " + rdb.Get(t.Context(), name).Val()
			case "zset":
				dump += " " + fmt.Sprint(rdb.ZRange(t.Context(), name, 0, -1).Val())
			case "hash":
				dump += " " + fmt.Sprint(rdb.HGetAll(t.Context(), name).Val())
			}
			if strings.Contains(dump, fleet.Tag(key)) || strings.Contains(dump, key) {
				found = append(found, name)
			}
		}
		return found
	}
	bob := left("user:bob")
	if n := len(left("user:ann")); n != len(bob) || n < 17 {
		t.Fatalf("%d keys are about ann, %d about bob: %q", n, len(bob), bob)
	}
	var stdout, stderr strings.Builder
	status := run([]string{"forget", "-redis", "redis://" + server.Addr, "user:ann"}, &stdout, &stderr)
	for _, want := range []string{
		"The policy \"api\": the events are forgotten.\n", "The policy \"api\": the block is removed.\n", "The policy \"jobs\": the override {limits: {day: 7/3h}} is removed.\n",
		"The rule \"login\" in code: the events are forgotten.\n", "Nothing of the key is left in the states, overrides and blocks of api, jobs, login.\n",
	} {
		if status != 0 || !strings.Contains(stdout.String(), want) {
			t.Errorf("got status %d, %s%s\nwant %s", status, &stdout, &stderr, want)
		}
	}
	if got := left("user:ann"); len(got) > 0 {
		t.Errorf("%q are left", got)
	}
	if got := left("user:bob"); len(got) != len(bob) {
		t.Errorf("of another key, %d of %d are left", len(got), len(bob))
	}
	for args, want := range map[string]string{"forget": "usage:", "forget §": "empty key", "forget a b": "usage:", "forget nobody": "no event and no override of the key"} {
		stderr.Reset()
		fields := strings.Fields(args)
		if len(fields) > 1 && fields[1] == "§" {
			fields[1] = ""
		}
		run(append([]string{fields[0], "-redis", "redis://" + server.Addr}, fields[1:]...), &stdout, &stderr)
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: got %s, want %s", args, &stderr, want)
		}
	}
}
