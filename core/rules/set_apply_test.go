package rules_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func TestSet_Apply(t *testing.T) {
	var changes []rules.Change
	s := newSet(t, "api: {rules: ["+hour+"]}", rules.OnChange(func(c rules.Change) { changes = append(changes, c) }))
	l, first := limiter(t, s, "api"), s.Version()
	testkit.Admit(t, l, "k", 500)
	apply := func(policies string) {
		t.Helper()
		before := s.Version()
		n := len(changes)
		testkit.Must(t, s.Apply(parse(t, policies)))
		switch {
		case s.Version() == before:
			if len(changes) != n {
				t.Errorf("got the change %+v to an equal configuration", changes[n])
			}
		case len(changes) != n+1 || changes[n].Previous != before || changes[n].Version != s.Version() || len(changes[n].Diff) == 0:
			t.Errorf("got the changes %+v, want one from %s to %s", changes[n:], before, s.Version())
		}
	}

	apply("api: {rules: [{name: hour, algorithm: sliding_log, limit: 600/h}]}")
	testkit.Admit(t, l, "k", 100)
	if testkit.Allow(t, l, "k").Allowed {
		t.Error("got event 601 of 600 admitted")
	}
	view := l.Plan("gold")
	apply("api: {rules: [" + second + "]}, login: {rules: [" + hour + "]}")
	want(t, "other rules", view, "k", `token_bucket "api.second" 100/s plan "gold"`)
	want(t, "a new policy", limiter(t, s, "login"), "k", `sliding_log "login.hour" 500/h soft 10%`)

	apply("api: {rules: [" + second + "], keys: {k: {limits: {second: 1/s}}}}")
	want(t, "an override", l, "k", `token_bucket "api.second" 1/s`)
	login := limiter(t, s, "login")
	want(t, "a removed policy", login, "k", `sliding_log "login.hour" 500/h soft 10%`)
	apply("login: {rules: [{name: hour, algorithm: sliding_log, limit: 600/h}]}")
	want(t, "a policy that is there again", login, "k", `sliding_log "login.hour" 600/h`)
	want(t, "a removed policy with an override", l, "k", `token_bucket "api.second" 1/s`)
	off := parse(t, "login: {rules: ["+hour+"]}")
	off.Disabled = true
	testkit.Must(t, s.Apply(off))
	want(t, "all off, a removed policy", l, "k", `token_bucket "api.second" unlimited`)

	apply("api: {rules: [" + hour + "]}")
	if s.Version() != first {
		t.Errorf("got the version %s of the first configuration, which was %s", s.Version(), first)
	}
	apply("api: {rules: [" + hour + "]}")
	if again := limiter(t, s, "api"); again != l {
		t.Error("got another limiter")
	}
	if _, err := s.Limiter("none"); err == nil {
		t.Error("got no error for an unknown policy")
	}
}

// An Apply that fails changes nothing, and does not prevent a later one.
func TestSet_Apply_Errors(t *testing.T) {
	store := memstore.New()
	testkit.Limiter(t, store, core.TokenBucket("other.r", core.PerSecond(1)))
	valid := "api: {rules: [" + second + "," + hour + "], keys: {k: {plan: gold}}}"
	s, err := rules.New(store, parse(t, valid), rules.OnChange(func(c rules.Change) { t.Errorf("got the change %+v", c) }))
	testkit.Must(t, err)
	l, version := limiter(t, s, "api"), s.Version()
	// changed returns a configuration with new policies, one of which is called new, and other rules.
	changed := func(change func(c *rules.Config, api *rules.Policy)) *rules.Config {
		c := parse(t, `a: {rules: [{name: r, algorithm: token_bucket, limit: 1/s}]}, z: {rules: [{name: r, algorithm: token_bucket, limit: 1/s}]},
			api: {rules: [`+second+`, {name: hour, algorithm: sliding_log, limit: 7/h}], keys: {k: {plan: staff}}}`)
		api := c.Policies["api"]
		change(c, &api)
		c.Policies["api"] = api
		return c
	}
	conflict := parse(t, "other: {rules: [{name: r, algorithm: token_bucket, limit: 2/s}]}").Policies["other"]
	for name, c := range map[string]struct {
		config *rules.Config
		err    error  // or nil for any
		text   string // a part of the error
	}{
		"no configuration":          {nil, nil, "nil"},
		"an invalid limit":          {changed(func(_ *rules.Config, api *rules.Policy) { api.Rules[1].Limit = core.Limit{} }), core.ErrInvalidRule, `policy "api": weir: rule "api.hour": limit is zero`},
		"no algorithm":              {changed(func(_ *rules.Config, api *rules.Policy) { api.Rules[1].Algorithm = 0 }), nil, `rule "hour" has no algorithm`},
		"a label":                   {changed(func(_ *rules.Config, api *rules.Policy) { api.Rules[1].Label = "x" }), nil, `rule "hour" has a field that is not one of configurations`},
		"headroom in a plan":        {changed(func(_ *rules.Config, api *rules.Policy) { api.Rules[1].Plans = []core.Plan{{Name: "x", Headroom: 1}} }), nil, `rule "hour" has a field that is not one of configurations`},
		"a candidate without one":   {changed(func(_ *rules.Config, api *rules.Policy) { api.Rules[1].Candidate = &rules.Rule{} }), nil, `rule "hour" has no algorithm`},
		"no rules":                  {changed(func(_ *rules.Config, api *rules.Policy) { api.Rules = nil }), core.ErrInvalidRule, "are missing"},
		"no name":                   {changed(func(_ *rules.Config, api *rules.Policy) { api.Rules[0].Name = strings.Repeat("n", 61) }), core.ErrInvalidRule, "name is 65 bytes long"},
		"a percentage":              {changed(func(_ *rules.Config, api *rules.Policy) { api.Enforce = 101 }), nil, "enforce is 101 percent"},
		"an override, plan":         {changed(func(_ *rules.Config, api *rules.Policy) { api.Keys["j"] = rules.Override{Plan: "none"} }), nil, `key "j": no rule of the policy has the plan "none"`},
		"an override, rule":         {changed(func(_ *rules.Config, api *rules.Policy) { api.Keys["j"] = overrideOf("none", core.PerSecond(1)) }), nil, `key "j": the policy has no rule "none"`},
		"an override, limit":        {changed(func(_ *rules.Config, api *rules.Policy) { api.Keys["j"] = overrideOf("hour", core.PerHour(-1)) }), core.ErrInvalidRule, `key "j": weir: rule "api.hour": events is -1`},
		"a conflict":                {changed(func(c *rules.Config, _ *rules.Policy) { c.Policies["other"] = conflict }), core.ErrRuleConflict, `policy "other"`},
		"a conflict of an old rule": {changed(func(_ *rules.Config, api *rules.Policy) { api.Rules[0].Name = "taken" }), core.ErrRuleConflict, `"api.taken"`},
	} {
		if name == "a conflict of an old rule" {
			testkit.Limiter(t, store, core.TokenBucket("api.taken", core.PerSecond(1)))
		}
		err := s.Apply(c.config)
		if err == nil || c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got error %v, want %v, %s", name, err, c.err, c.text)
		}
		if s.Version() != version {
			t.Errorf("%s: got another version", name)
		}
		want(t, name, l, "k", `token_bucket "api.second" 100/s plan "gold"`, `sliding_log "api.hour" 500/h soft 10%`)
		for _, policy := range []string{"a", "z", "other"} {
			if _, err := s.Limiter(policy); err == nil {
				t.Errorf("%s: got a limiter of the policy %q", name, policy)
			}
		}
		if _, err := rules.New(memstore.New(), c.config); (err == nil) != errors.Is(c.err, core.ErrRuleConflict) {
			t.Errorf("%s: got error %v of New", name, err)
		}
	}
	if _, err := rules.New(nil, parse(t, valid)); !errors.Is(err, core.ErrNoStore) {
		t.Errorf("got error %v, want ErrNoStore", err)
	}
	s, err = rules.New(store, parse(t, valid)) // equal rules are no conflict
	testkit.Must(t, err)
	want(t, "another set", limiter(t, s, "api"), "k", `token_bucket "api.second" 100/s plan "gold"`, `sliding_log "api.hour" 500/h soft 10%`)
}

// A policy of a configuration that was not applied may have other rules in the next one.
func TestSet_Apply_AfterAnError(t *testing.T) {
	store := memstore.New()
	testkit.Limiter(t, store, core.TokenBucket("z.r", core.PerSecond(1)))
	s, err := rules.New(store, parse(t, "api: {rules: ["+second+"]}"))
	testkit.Must(t, err)
	const rule = "{rules: [{name: r, algorithm: token_bucket, limit: %d/s}]}"
	policies := func(limit int, names ...string) string {
		for i, name := range names {
			names[i] = name + ": " + fmt.Sprintf(rule, limit)
		}
		return strings.Join(names, ", ")
	}
	for i := range 20 { // the order of the policies is random
		if err := s.Apply(parse(t, policies(2+i, "a", "b", "c", "z"))); !errors.Is(err, core.ErrRuleConflict) {
			t.Fatalf("got error %v, want ErrRuleConflict", err)
		}
	}
	testkit.Must(t, s.Apply(parse(t, policies(30, "a", "b"))))
	for _, name := range []string{"a", "b"} {
		want(t, "applied", limiter(t, s, name), "k", fmt.Sprintf(`token_bucket "%s.r" 30/s`, name))
	}
	testkit.Must(t, s.Apply(parse(t, policies(31, "c"))))
	want(t, "applied later", limiter(t, s, "c"), "k", `token_bucket "c.r" 31/s`)
}

// A caller that waits asks again if only its override changes.
func TestSet_Apply_WakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const policy = "api: {rules: [{name: r, algorithm: token_bucket, limit: 1/h}]"
		s := newSet(t, policy+"}")
		l := limiter(t, s, "api")
		testkit.Admit(t, l, "k", 1)
		begin := time.Now()
		go func() {
			time.Sleep(time.Second)
			if err := s.Apply(parse(t, policy+", keys: {k: {limits: {r: unlimited}}}}")); err != nil {
				t.Error(err)
			}
		}()
		testkit.Must(t, l.Wait(t.Context(), "k"))
		if got := time.Since(begin); got != time.Second {
			t.Errorf("got a wait of %v, want 1s", got)
		}
	})
}

// numbered returns a configuration of two policies with n in every limit, and in the override of
// the key "vip". The rules of even and odd numbers have different names and algorithms.
func numbered(n int) *rules.Config {
	l := core.PerDay(100_000 + n)
	rule := []rules.Rule{{Spec: core.Spec{Name: "even", Algorithm: driver.FixedWindow, Limit: l}}, {Spec: core.Spec{Name: "odd", Algorithm: driver.TokenBucket, Limit: l}}}[n%2]
	always := rules.Rule{Spec: core.Spec{Name: "always", Algorithm: []driver.Algorithm{driver.SlidingLog, driver.SlidingWindow}[n%2], Limit: l}}
	p := rules.Policy{Rules: []rules.Rule{rule, always}, Enforce: 100, Keys: map[string]rules.Override{
		"vip": {Limits: map[string]core.Limit{rule.Name: core.PerDay(200_000 + n), "always": core.PerDay(200_000 + n)}},
	}}
	if n%3 == 0 {
		p.Enforce = 50
	}
	return &rules.Config{Policies: map[string]rules.Policy{"a": p, "b": p, fmt.Sprint("c", n%5): p}}
}

// Each decision uses one configuration, for all rules, overrides and policies, and none fails.
func TestSet_Apply_Concurrent(t *testing.T) {
	ctx := t.Context()
	s, err := rules.New(memstore.New(), numbered(0))
	testkit.Must(t, err)
	a, b := limiter(t, s, "a"), limiter(t, s, "b")
	decide := []func() (core.Decision, error){
		func() (core.Decision, error) { return a.Allow(ctx, "k") },
		func() (core.Decision, error) { return a.Allow(ctx, "vip") },
		func() (core.Decision, error) {
			return core.AllowTogether(ctx, core.Ask{Limiter: a, Key: "k"}, core.Ask{Limiter: b, Key: "vip"})
		},
		func() (core.Decision, error) {
			return core.AllowTogether(ctx, core.Ask{Limiter: a, Key: "vip"}, core.Ask{Limiter: a, Key: "vip"})
		},
		func() (core.Decision, error) {
			r, err := core.ReserveTogether(ctx, core.Ask{Limiter: b, Key: "vip"}, core.Ask{Limiter: b, Key: "k"})
			if err == nil {
				err = r.Settle(ctx, 2)
			}
			return r.Decision(), err
		},
		func() (core.Decision, error) {
			if err := a.Debit(ctx, "vip", 1); err != nil {
				return core.Decision{}, err
			}
			_, err := a.Reset(ctx, "vip")
			return core.Decision{}, err
		},
		func() (core.Decision, error) { return core.Decision{}, b.Wait(ctx, "vip") },
		func() (core.Decision, error) { _, err := s.Limiter("a"); return core.Decision{}, err },
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for !done.Load() {
				d, err := decide[i%len(decide)]()
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				for _, state := range d.States() {
					if state.Limit().Events%100_000 != d.State(0).Limit().Events%100_000 {
						t.Errorf("caller %d: got rules of two configurations: %v", i, d)
						return
					}
				}
			}
		})
	}
	for i := range 300 {
		if err := s.Apply(numbered(i)); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
}

// While a limit changes between 100 and 10 an hour, and for one key between 200 and 20, a key is
// never admitted more often than the larger limit.
func TestSet_Apply_Bound(t *testing.T) {
	configs := []*rules.Config{
		parse(t, "api: {rules: [{name: r, algorithm: sliding_log, limit: 100/h}], keys: {vip: {limits: {r: 200/h}}}}"),
		parse(t, "api: {rules: [{name: r, algorithm: sliding_log, limit: 10/h}], keys: {vip: {limits: {r: 20/h}}}}"),
	}
	s, err := rules.New(memstore.New(), configs[1])
	testkit.Must(t, err)
	l := limiter(t, s, "api")
	admitted := map[string]*atomic.Int64{"k": new(atomic.Int64), "vip": new(atomic.Int64)}
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 16 {
		key := []string{"k", "vip"}[i%2]
		wg.Go(func() {
			for !done.Load() {
				d, err := l.Allow(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted[key].Add(1)
				}
			}
		})
	}
	for i := range 301 {
		if err := s.Apply(configs[i%2]); err != nil {
			t.Error(err)
		}
	}
	for admitted["k"].Load() < 100 || admitted["vip"].Load() < 200 {
		if _, err := l.Peek(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	wg.Wait()
	if k, vip := admitted["k"].Load(), admitted["vip"].Load(); k != 100 || vip != 200 {
		t.Errorf("got %d and %d admitted, want 100 and 200", k, vip)
	}
}

// The policy of all routes changes with the rest of the configuration.
func TestSet_Apply_AllRoutes(t *testing.T) {
	without := parseFile(t, strings.Replace(mastodon, "all_routes: account", "", 1))
	other := parseFile(t, strings.Replace(mastodon, "all_routes: account", "all_routes: other", 1))
	var changes [][]string
	set, err := rules.New(memstore.New(), without, rules.OnChange(func(c rules.Change) { changes = append(changes, c.Diff) }))
	testkit.Must(t, err)
	versions := map[string]bool{set.Version(): true}
	if set.ForAll() != nil {
		t.Error("got a limiter of all routes")
	}
	for _, c := range []struct {
		config *rules.Config
		policy string
		diff   string
	}{
		{parseFile(t, mastodon), "account", "all_routes: added (account)"},
		{other, "other", "all_routes: account to other"},
		{without, "", "all_routes: removed (was other)"},
	} {
		testkit.Must(t, set.Apply(c.config))
		versions[set.Version()] = true
		if got := changes[len(changes)-1]; !slices.Equal(got, []string{c.diff}) {
			t.Errorf("got the changes %q, want %s", got, c.diff)
		}
		if got := set.ForAll(); c.policy == "" && got != nil || c.policy != "" && got != limiter(t, set, c.policy) {
			t.Errorf("got another limiter than that of %q", c.policy)
		}
	}
	if len(versions) != 3 {
		t.Errorf("got %d versions of 3 configurations", len(versions))
	}
	for want, change := range map[string]func(*rules.Config){
		`weir: all_routes: there is no policy "none"`: func(c *rules.Config) { c.AllRoutes = "none" },
		`weir: all_routes: policy "account" has 1 rules, candidates and bans, and "media" of the route "POST /media" has 128: a decision can have 128`: func(c *rules.Config) {
			p := c.Policies["media"]
			for i := range 127 {
				p.Rules = append(slices.Clip(p.Rules), rules.Rule{Spec: core.Spec{Name: fmt.Sprint("r", i), Algorithm: core.AlgorithmSlidingLog, Limit: core.PerMinute(1)}})
			}
			c.Policies["media"] = p
		},
	} {
		c, version := parseFile(t, mastodon), set.Version()
		change(c)
		if err := set.Apply(c); err == nil || err.Error() != want || set.Version() != version {
			t.Errorf("Apply: got %v, want %s", err, want)
		}
		if _, err := rules.New(memstore.New(), c); err == nil || err.Error() != want {
			t.Errorf("New: got %v, want %s", err, want)
		}
		if _, err := c.Format(); err == nil {
			t.Error("Format: got no error")
		}
	}
}

// Rules that change while requests are decided: each request is decided by the old or the new ones.
func TestSet_Apply_RoutesInUse(t *testing.T) {
	config := func(routes map[string]string) *rules.Config {
		c := &rules.Config{Policies: make(map[string]rules.Policy), Routes: routes}
		for i, name := range []string{"base", "user", "all"} {
			rule := rules.Rule{Spec: core.Spec{Name: name, Algorithm: driver.TokenBucket, Limit: core.PerMinute(1000 + i)}}
			c.Policies[name] = rules.Policy{Enforce: 100, Rules: []rules.Rule{rule}}
		}
		return c
	}
	configs := []*rules.Config{config(map[string]string{"/users/{id}": "user"}), config(map[string]string{"/users/": "all"}), config(nil)}
	set, err := rules.New(memstore.New(), configs[0])
	testkit.Must(t, err)
	base, err := set.Limiter("base")
	testkit.Must(t, err)
	h := nethttplimit.New(base, keyfunc.Constant("k"), gate.Routes(set))(http.NotFoundHandler())
	var seen [3]atomic.Bool
	testkit.Concurrently(4, func(int) {
		for i := range 200 {
			if err := set.Apply(configs[i%3]); err != nil {
				t.Error(err)
			}
			got := httptest.NewRecorder()
			h.ServeHTTP(got, httptest.NewRequest("GET", "/users/1", nil))
			name, _, _ := strings.Cut(got.Header().Get("RateLimit-Policy"), ";")
			policy := slices.Index([]string{`"user"`, `"all"`, `"base"`}, name)
			if policy < 0 {
				t.Errorf("got status %d and policy %q", got.Code, name)
				return
			}
			seen[policy].Store(true)
		}
	})
	for i := range seen {
		if !seen[i].Load() {
			t.Errorf("no request had the policy of configuration %d", i)
		}
	}
}

// A Config in code can have the faults that Parse finds in a file.
func TestSet_Apply_Timezone(t *testing.T) {
	s := newSet(t, "api: {rules: [{name: r, algorithm: quota, limit: 5/day, timezone: Asia/Tokyo}]}")
	version := s.Version()
	for timezone, want := range map[string]string{"Europe/Berlinn": `timezone "Europe/Berlinn" is unknown`, "Local": `timezone "Local" differs`} {
		c := parse(t, "api: {rules: [{name: r, algorithm: quota, limit: 5/day}]}")
		c.Policies["api"].Rules[0].Timezone = timezone
		var e *core.RuleError
		if err := s.Apply(c); !errors.As(err, &e) || e.Field != "timezone" || !errors.Is(err, core.ErrInvalidRule) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", timezone, err, want)
		}
	}
	c := parse(t, "api: {rules: [{name: r, algorithm: sliding_log, limit: 5/d, candidate: {algorithm: sliding_log, limit: 5/d}}]}")
	c.Policies["api"].Rules[0].Candidate.Timezone = "UTC"
	if err := s.Apply(c); err == nil || !strings.Contains(err.Error(), "timezone has no meaning for sliding_log") {
		t.Errorf("got error %v", err)
	}
	want(t, "after errors", limiter(t, s, "api"), "k", `quota "api.r" 5/day in Asia/Tokyo`)
	if s.Version() != version {
		t.Error("an invalid configuration has changed the version")
	}
	testkit.Must(t, s.Apply(parse(t, "api: {rules: [{name: r, algorithm: quota, limit: 5/day, timezone: Asia/Seoul}]}")))
	if s.Version() == version {
		t.Error("the version does not depend on the time zone")
	}
}

// New rules are logged and counted by a store of package observe.
func TestSet_Apply_Logged(t *testing.T) {
	var log bytes.Buffer
	s := observe.New(memstore.New(), observe.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	config := func(limit string) *rules.Config {
		return parse(t, "search: {rules: [{name: search, algorithm: sliding_window, limit: "+limit+"}]}")
	}
	set, err := rules.New(s, config("5/m"))
	testkit.Must(t, err)
	s.Add(set)
	testkit.Must(t, set.Apply(config("6/m")))
	if want := `level=INFO msg="weir: new configuration" previous=`; !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, &log)
	}
	testkit.Must(t, set.Apply(config("6/h")))
	if want := `changes=2 begin_unused=[search.search]`; strings.Count(log.String(), "begin_unused") != 1 || !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, &log)
	}
	for _, m := range s.Snapshot().Measures {
		if m.Name == "weir.rules.changes" && m.Value != 2 {
			t.Errorf("got %v changes, want 2", m.Value)
		}
	}
}

// Many policies are applied, and replaced while one of them is used.
func TestSet_ManyPolicies(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	c, err := rules.Parse("f", manyPolicies(3000))
	testkit.Must(t, err)
	s, err := rules.New(memstore.New(), c)
	testkit.Must(t, err)
	l := limiter(t, s, "p0")
	changed, err := rules.Parse("f", manyPolicies(2999))
	testkit.Must(t, err)
	applied := make(chan error)
	go func() { applied <- s.Apply(changed) }()
	var longest time.Duration
	for done := false; !done; {
		select {
		case err := <-applied:
			testkit.Must(t, err)
			done = true
		default:
			begin := time.Now()
			testkit.Allow(t, l, "k")
			longest = max(longest, time.Since(begin))
		}
	}
	t.Log("the longest decision took", longest)
	want(t, "changed", l, "k", `token_bucket "p0.r" 2999/s`)
}
