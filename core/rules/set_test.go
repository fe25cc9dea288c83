package rules_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/nethttplimit"
)

const stop = `{name: stop, algorithm: pause}`

func TestSet_Rules(t *testing.T) {
	const (
		base   = `token_bucket "api.second" 10/s burst 20`
		hourly = `sliding_log "api.hour" 500/h soft 10%`
	)
	both := "api: {rules: [" + second + "," + hour + "]"
	for _, c := range []struct{ name, policies, key, plan, want string }{
		{"base", both + "}", "k", "", base + "|" + hourly},
		{"a plan", both + "}", "k", "gold", `token_bucket "api.second" 100/s plan "gold"|` + hourly},
		{"an unknown plan", both + "}", "k", "none", base + ` plan "unknown"|` + hourly + ` plan "unknown"`},
		{"another key", both + ", keys: {k: {plan: gold}}}", "j", "", base + "|" + hourly},
		{"the plan of a key", both + ", keys: {k: {plan: gold}}}", "k", "staff", `token_bucket "api.second" 100/s plan "gold"|` + hourly},
		{"a limit of a key", both + ", keys: {k: {limits: {second: 5/s}}}}", "k", "", `token_bucket "api.second" 5/s|` + hourly},
		{"a limit of a key with a plan", both + ", keys: {k: {limits: {second: 5/s}}}}", "k", "gold", `token_bucket "api.second" 5/s plan "gold"|` + hourly},
		{
			"limits and a plan of a key", both + ", keys: {k: {plan: silver, limits: {second: blocked}}}}", "k", "",
			`token_bucket "api.second" blocked|sliding_log "api.hour" 900/h soft 10% plan "silver"`,
		},
		{
			"a blocked key, without its plan and limits", both + ", keys: {k: {blocked: true, plan: gold, limits: {hour: 9/h}}}}", "k", "staff",
			`token_bucket "api.second" blocked plan "gold"|sliding_log "api.hour" blocked soft 10%`,
		},
		{"a blocked key, enforced for no key", both + ", enforce: 0, keys: {k: {blocked: true}}}", "k", "", `token_bucket "api.second" blocked|sliding_log "api.hour" blocked soft 10%`},
		{"a blocked key, off", both + ", disabled: true, keys: {k: {blocked: true}}}", "k", "", `token_bucket "api.second" unlimited|sliding_log "api.hour" unlimited`},
		{"before the end", both + ", keys: {k: {plan: gold, until: 2000-01-01T00:00:01Z}}}", "k", "", `token_bucket "api.second" 100/s plan "gold"|` + hourly},
		{"after the end", both + ", keys: {k: {plan: gold, until: 2000-01-01T00:00:00Z}}}", "k", "", base + "|" + hourly},
		{"enforced for no key", both + ", enforce: 0}", "k", "gold", `token_bucket "api.second" 100/s shadow plan "gold"|` + hourly + " shadow"},
		{"enforced for no key, limits of a key", both + ", enforce: 0, keys: {k: {limits: {hour: 1/h}}}}", "k", "", base + ` shadow|sliding_log "api.hour" 1/h soft 10% shadow`},
		{"enforced for all keys", both + ", enforce: 100}", "k", "", base + "|" + hourly},
		{"off", both + ", disabled: true, keys: {k: {plan: gold}}}", "k", "silver", `token_bucket "api.second" unlimited|sliding_log "api.hour" unlimited`},
		{"all off", both + "}}#", "k", "", `token_bucket "api.second" unlimited|sliding_log "api.hour" unlimited`},
		{"shadow", "api: {rules: [{name: r, algorithm: leaky_bucket, limit: 1/s, mode: shadow}]}", "k", "", `leaky_bucket "api.r" 1/s shadow`},
		{
			"a candidate", "api: {rules: [{name: r, algorithm: sliding_window, limit: 9/s, sub_windows: 5, candidate: {algorithm: fixed_window, limit: 8/s}}], keys: {k: {limits: {r: 1/s}}}}", "k", "",
			`sliding_window "api.r" 1/s in 5 sub-windows|fixed_window "api.r.candidate" 8/s shadow`,
		},
		{"a pause", "api: {rules: [" + stop + "," + hour + "]}", "k", "silver", `pause "api.stop"|sliding_log "api.hour" 900/h soft 10% plan "silver"`},
		{"a pause, enforced for no key", "api: {rules: [" + stop + "," + hour + "], enforce: 0}", "k", "", `pause "api.stop" shadow|` + hourly + " shadow"},
		{"a pause, blocked", "api: {rules: [" + stop + "," + hour + "], keys: {k: {blocked: true}}}", "k", "", `pause "api.stop" blocked|sliding_log "api.hour" blocked soft 10%`},
		{"a pause, off", "api: {rules: [" + stop + "," + hour + "], disabled: true}", "k", "", `pause "api.stop"|sliding_log "api.hour" unlimited`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := parse(t, strings.TrimSuffix(c.policies, "}#"))
				config.Disabled = strings.HasSuffix(c.policies, "#")
				s, err := rules.New(memstore.New(), config)
				testkit.Must(t, err)
				l := limiter(t, s, "api")
				d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: c.key, Plan: c.plan})
				testkit.Must(t, err)
				var got []string
				for _, s := range d.States() {
					got = append(got, s.Rule.String())
					if name, _, _ := strings.Cut(strings.TrimPrefix(s.Rule.Name(), "api."), "."); !s.Rule.IsShadow() && !config.Disabled && !config.Policies["api"].Disabled && cmp.Or(s.Rule.Spec().Label, s.Rule.Name()) != name {
						t.Errorf("got the name %q for clients, want %q", cmp.Or(s.Rule.Spec().Label, s.Rule.Name()), name)
					}
				}
				if got := strings.Join(got, "|"); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		})
	}
}

// A blocked key is denied by every rule until the end, without a call of the store. Wait waits for
// the end.
func TestSet_Blocked(t *testing.T) {
	for name, policy := range map[string]string{
		"an unlimited plan":   "rules: [" + second + "," + hour + "]",
		"shadow rules":        "rules: [{name: r, algorithm: leaky_bucket, limit: 1/s, mode: shadow}, {name: s, algorithm: sliding_log, limit: unlimited, mode: shadow}]",
		"enforced for no key": "rules: [" + second + "], enforce: 0",
		"candidate":           "rules: [{name: r, algorithm: fixed_window, limit: 9/s, candidate: {algorithm: sliding_log, limit: 9/s}}]",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(storetest.Fake)
				s, err := rules.New(store, parse(t, "api: {"+policy+", keys: {k: {blocked: true, until: 2000-01-01T00:00:01Z}}}"))
				testkit.Must(t, err)
				l := limiter(t, s, "api").Plan("staff")
				d := testkit.Allow(t, l, "k")
				if d.Allowed || !d.Blocked() || d.RetryAfter != time.Second {
					t.Errorf("got %v, want a denial for a second", d)
				}
				for _, s := range d.States() {
					if candidate := strings.HasSuffix(s.Rule.Name(), ".candidate"); candidate != s.Rule.IsShadow() || candidate != s.Unknown {
						t.Errorf("got the state %+v", s)
					}
				}
				if n := store.Calls(); n != 0 {
					t.Errorf("got %d calls of the store, want none", n)
				}
				testkit.Admit(t, l, "another key", 1)
				time.Sleep(time.Second - 1)
				if d := testkit.Allow(t, l, "k"); d.Allowed || d.RetryAfter != 1 {
					t.Errorf("just before the end: got %v, want a denial for a nanosecond", d)
				}
				begin := time.Now()
				if err := l.Wait(t.Context(), "k"); err != nil || time.Since(begin) != 1 {
					t.Errorf("got %v of Wait after %v, want nil at the end of the block", err, time.Since(begin))
				}
			})
		})
	}
}

// An application pauses a key of a policy with the limiter of the policy. The pause stays when the configuration
// changes, and denies as far as the configuration in force says.
func TestSet_Pause(t *testing.T) {
	const rule = "{name: r, algorithm: sliding_log, limit: 9/m}"
	synctest.Test(t, func(t *testing.T) {
		store := new(storetest.Fake)
		s, err := rules.New(store, parse(t, "api: {rules: ["+stop+"]}"))
		testkit.Must(t, err)
		l := limiter(t, s, "api")
		testkit.Must(t, l.Pause(t.Context(), "k", time.Minute))
		for _, c := range []struct {
			policy string
			denied bool // RetryAfter is the rest of the pause
			calls  int
		}{
			{"rules: [" + stop + "]", true, 1},
			{"rules: [" + rule + "," + stop + "], keys: {k: {limits: {r: unlimited}}}", true, 1},
			{"rules: [" + stop + "," + rule + "], enforce: 0", false, 1},
			{"rules: [" + strings.Replace(stop, "}", ", mode: shadow}", 1) + "]", false, 1},
			{"rules: [" + stop + "], disabled: true", false, 0},
			{"rules: [" + rule + "]", false, 1},
			{"rules: [" + rule + "," + stop + "]", true, 1},
		} {
			testkit.Must(t, s.Apply(parse(t, "api: {"+c.policy+"}")))
			time.Sleep(time.Second)
			before := store.Calls()
			d := testkit.Allow(t, l, "k")
			if d.Allowed == c.denied || d.Blocked() || c.denied && d.RetryAfter != time.Minute-time.Since(time.Unix(946684800, 0)) {
				t.Errorf("%s: got %v", c.policy, d)
			}
			if n := store.Calls() - before; n != c.calls {
				t.Errorf("%s: got %d calls of the store, want %d", c.policy, n, c.calls)
			}
			testkit.Admit(t, l, "another key", 1)
		}
		testkit.Must(t, s.Apply(parse(t, "api: {rules: ["+stop+"], keys: {k: {blocked: true, until: 2000-01-01T00:00:20Z}}}")))
		if d := testkit.Allow(t, l, "k"); d.RetryAfter != 13*time.Second {
			t.Errorf("a block: got %v, want a denial until its end", d)
		}
		time.Sleep(13 * time.Second)
		if d := testkit.Allow(t, l, "k"); d.RetryAfter != 40*time.Second {
			t.Errorf("after the block: got %v, want the rest of the pause", d)
		}
		testkit.Must(t, s.Apply(parse(t, "api: {rules: ["+stop+"], disabled: true}")))
		testkit.Must(t, l.Pause(t.Context(), "k", 0))
		testkit.Must(t, s.Apply(parse(t, "api: {rules: ["+stop+"]}")))
		testkit.Admit(t, l, "k", 1)
	})
}

// RetryAfter is the end of an override that blocks, and Never if the policy itself or an override
// without an end does.
func TestSet_Blocked_RetryAfter(t *testing.T) {
	const policy = `api: {rules: [{name: r, algorithm: token_bucket, limit: 10/s, plans: {gold: 20/s, banned: blocked}}, {name: s, algorithm: sliding_log, limit: 9/m}], keys: {k: `
	const end = 5 * time.Second
	for name, c := range map[string]struct {
		override, plan string
		want           time.Duration // of the decision
	}{
		"a block":                          {"{blocked: true, until: 2000-01-01T00:00:05Z}", "", end},
		"a block under a plan":             {"{blocked: true, until: 2000-01-01T00:00:05Z}", "gold", end},
		"a block under a blocked plan":     {"{blocked: true, until: 2000-01-01T00:00:05Z}", "banned", core.Never},
		"a block without an end":           {"{blocked: true}", "", core.Never},
		"a block for 300 years":            {"{blocked: true, until: 2300-01-01T00:00:00Z}", "", core.Never},
		"a blocked limit":                  {"{limits: {s: blocked}, until: 2000-01-01T00:00:05Z}", "", end},
		"a blocked limit without an end":   {"{limits: {s: blocked}}", "", core.Never},
		"a blocked plan":                   {"{plan: banned, until: 2000-01-01T00:00:05Z}", "gold", end},
		"another limit, of a blocked plan": {"{limits: {s: 8/m}, until: 2000-01-01T00:00:05Z}", "banned", core.Never},
		"another plan":                     {"{plan: gold, until: 2000-01-01T00:00:05Z}", "banned", 0},
		"an ended block":                   {"{blocked: true, until: 2000-01-01T00:00:00Z}", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter(t, newSet(t, policy+c.override+"}}"), "api")
				d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: "k", Plan: c.plan})
				testkit.Must(t, err)
				if d.Allowed != (c.want == 0) || d.Blocked() != (c.want > 0) || d.RetryAfter != c.want {
					t.Errorf("got %v, blocked: %t, want RetryAfter %v", d, d.Blocked(), c.want)
				}
			})
		})
	}
}

// Clients see the end of a block.
func TestSet_BlockWithEnd(t *testing.T) {
	const policies = `policies:
  api:
    rules:
      - {name: minute, algorithm: sliding_log, limit: 9/m, unit: bytes}
      - {name: day, algorithm: fixed_window, limit: 99/d, unit: tokens}
    keys:
      short: {blocked: true, until: 2000-01-01T00:00:05Z}
      ever: {blocked: true}
      one: {limits: {day: blocked}, until: 2000-01-01T00:00:05Z}
`
	const blocked, open = `"minute";q=0;qu="content-bytes", "day";q=0`, `"minute";q=9;qu="content-bytes";w=60, "day";q=99;w=86400`
	for name, c := range map[string]struct {
		key                         string
		after                       time.Duration
		policy, limit, retry, reset string
		detail                      string // empty if the request is admitted
	}{
		"a block":          {"short", 0, blocked, `"minute";r=0;t=5, "day";r=0;t=5`, "5", "946684805", `Policy "minute" allows no bytes until 2000-01-01T00:00:05Z. Retry in 5 s.`},
		"near its end":     {"short", 5*time.Second - 1, blocked, `"minute";r=0;t=1, "day";r=0;t=1`, "1", "946684805", `Policy "minute" allows no bytes until 2000-01-01T00:00:05Z. Retry in 1 s.`},
		"at its end":       {"short", 5 * time.Second, open, `"minute";r=8;t=60, "day";r=98;t=86395`, "", "946684865", ""},
		"without an end":   {"ever", 0, blocked, `"minute";r=0, "day";r=0`, "", "", `Policy "minute" allows no bytes.`},
		"one blocked rule": {"one", 0, `"day";q=0`, `"day";r=0;t=5`, "5", "946684805", `Policy "day" allows no tokens until 2000-01-01T00:00:05Z. Retry in 5 s.`},
		"another key":      {"other", 0, open, `"minute";r=8;t=60, "day";r=98;t=86400`, "", "946684860", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, err := rules.Parse("test", []byte(policies))
				testkit.Must(t, err)
				set, err := rules.New(memstore.New(), config)
				testkit.Must(t, err)
				l, err := set.Limiter("api")
				testkit.Must(t, err)
				key := func(context.Context, *http.Request) (string, error) { return c.key, nil }
				limited := nethttplimit.New(l, key, gate.Headers(gate.IETFDraft, gate.XRateLimit))(http.NotFoundHandler())
				time.Sleep(c.after)
				for range 2 { // the second text is remembered
					w := httptest.NewRecorder()
					limited.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
					h, got := w.Header(), map[string]string{"detail": ""}
					if w.Code == http.StatusTooManyRequests {
						var problem struct{ Detail string }
						testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &problem))
						got["detail"] = problem.Detail
					}
					want := map[string]string{"detail": c.detail, "RateLimit-Policy": c.policy, "RateLimit": c.limit, "Retry-After": c.retry, "X-RateLimit-Reset": c.reset}
					for name, want := range want {
						if name != "detail" {
							got[name] = h.Get(name)
						}
						if got[name] != want {
							t.Errorf("%s: got  %s\n\twant %s", name, got[name], want)
						}
					}
					if _, err := l.Reset(t.Context(), c.key); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// Blocks with different ends share their rules, so that any number of them takes no more memory.
func TestSet_Blocked_SharedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := parse(t, "api: {rules: [{name: r, algorithm: token_bucket, limit: 10/s}]}")
		api := config.Policies["api"]
		api.Keys = make(map[string]rules.Override)
		for i := range 1000 {
			api.Keys[fmt.Sprint("user:", i)] = rules.Override{Blocked: true, Until: time.Now().Add(time.Duration(1+i) * time.Second)}
		}
		config.Policies["api"] = api
		s, err := rules.New(memstore.New(), config)
		testkit.Must(t, err)
		l := limiter(t, s, "api")
		first := testkit.Allow(t, l, "user:0").State(0).Rule
		for i := range 1000 {
			d := testkit.Allow(t, l, fmt.Sprint("user:", i))
			if want := time.Duration(1+i) * time.Second; d.RetryAfter != want || d.State(0).Rule != first {
				t.Fatalf("key %d: got %v, want RetryAfter %v and the rule of other keys", i, d, want)
			}
		}
	})
}

// A unit is that of a rule with any limit: of the policy, a plan or an override.
func TestSet_Unit(t *testing.T) {
	const policy = `api: {rules: [{name: r, algorithm: token_bucket, limit: 10/s, unit: tokens, plans: {gold: 20/s}}, {name: s, algorithm: sliding_log, limit: 9/m}], keys: {plan: {plan: gold}, limit: {limits: {r: 3/s}}, blocked: {blocked: true}}`
	s := newSet(t, policy+"}")
	l := limiter(t, s, "api")
	check := func(step, key string, want ...string) {
		t.Helper()
		var got []string
		for _, s := range testkit.Peek(t, l, key).States() {
			got = append(got, cmp.Or(s.Rule.Spec().Unit, "requests"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, key %q: got the units %q, want %q", step, key, got, want)
		}
	}
	for _, key := range []string{"other", "plan", "limit", "blocked"} {
		check("before", key, "tokens", "requests")
	}
	testkit.Must(t, s.Apply(parse(t, strings.Replace(policy, "tokens", "bytes", 1)+", enforce: 0}")))
	for _, key := range []string{"other", "plan", "limit", "blocked"} {
		check("after another configuration", key, "bytes", "requests")
	}
}

// A candidate has states of its own and counts the same events. It denies nothing.
func TestSet_Candidate(t *testing.T) {
	s := newSet(t, "api: {rules: [{name: r, algorithm: fixed_window, limit: 5/h, candidate: {algorithm: fixed_window, limit: 3/h}}]}")
	l := limiter(t, s, "api")
	for i := range 5 {
		d := testkit.Admit(t, l, "k", 1)
		if c := d.State(1); c.Allowed != (i < 3) || d.State(0).Remaining != 4-i {
			t.Errorf("event %d: got %v, want a candidate that admits 3", i, d)
		}
	}
	if testkit.Allow(t, l, "k").Allowed {
		t.Error("got event 6 admitted")
	}
}

// The percentage selects keys by their hash, for all policies alike.
func TestSet_Enforce(t *testing.T) {
	s := newSet(t, "login: {rules: [{name: r, algorithm: fixed_window, limit: 5/h}], enforce: 25, keys: {plain: {limits: {r: 4/h}}}}")
	l := limiter(t, s, "login")
	enforced := 0
	for i := range 1000 {
		key := fmt.Sprint("user:", i)
		shadow := testkit.Peek(t, l, key).State(0).Rule.IsShadow()
		if shadow == rules.InPercent("login", key, 25) {
			t.Errorf("%s: got a shadow rule %v", key, shadow)
		}
		if !shadow {
			enforced++
		}
	}
	if enforced < 200 || enforced > 300 {
		t.Errorf("got %d keys of 1000, want 250", enforced)
	}
}

func TestSet_Version(t *testing.T) {
	versions := make(map[string]string)
	base := "api: {rules: [" + second + "], keys: {k: {plan: gold}, j: {limits: {second: 2/s}}}}"
	for _, policies := range []string{
		base, strings.Replace(base, "10/s", "11/s", 1), strings.Replace(base, "burst 20", "burst 21", 1), strings.Replace(base, "token", "leaky", 1),
		strings.Replace(base, "k:", "l:", 1), strings.Replace(base, "plan: gold", "plan: staff", 1), strings.Replace(base, "2/s", "3/s", 1),
		strings.Replace(base, "keys", "enforce: 5, keys", 1), strings.Replace(base, "keys", "disabled: true, keys", 1),
		strings.Replace(base, "plan: gold", "plan: gold, until: 2030-01-01T00:00:00Z", 1), strings.Replace(base, "plan: gold", "plan: gold, blocked: true", 1),
	} {
		v := newSet(t, policies).Version()
		if other, ok := versions[v]; ok {
			t.Errorf("got one version of %s and %s", other, policies)
		}
		versions[v] = policies
	}
	if v := newSet(t, base).Version(); versions[v] != base {
		t.Errorf("got the version %s, want one of %q", v, slices.Collect(maps.Keys(versions)))
	}
	testkit.Panics(t, "rules: OnChange: function is nil", func() { rules.OnChange(nil) })
	testkit.Panics(t, "rules: OnError: function is nil", func() { rules.OnError(nil) })
	testkit.Panics(t, "rules: New: option 0 is nil", func() { _, _ = rules.New(memstore.New(), parse(t, base), nil) })
}

// Keys with equal overrides share the rules, which are made when a key is used. A policy remembers
// the rules of 10 000 different overrides.
func TestSet_Overrides_Shared(t *testing.T) {
	c := parse(t, "api: {rules: ["+second+"], keys: {a: {plan: gold, limits: {second: 1/s}}, b: {plan: gold, limits: {second: 1/s}, until: 2100-01-01T00:00:00Z}}}")
	for i := range 10_000 {
		c.Policies["api"].Keys[fmt.Sprint(i)] = overrideOf("second", core.PerSecond(1+i))
	}
	s, err := rules.New(memstore.New(), c)
	testkit.Must(t, err)
	l := limiter(t, s, "api")
	rule := func(key string) core.Rule { return testkit.Peek(t, l, key).State(0).Rule }
	first := rule("a")
	if rule("b") != first || rule("a") != first {
		t.Error("got other rules for an equal override")
	}
	for i := range 10_000 {
		if got := rule(fmt.Sprint(i)).Limit(); got != core.PerSecond(1+i) {
			t.Fatalf("key %d: got the limit %v", i, got)
		}
	}
	if again := rule("a"); again == first || again.String() != first.String() {
		t.Errorf("got the rule %v after 10 000 others, want a new one like %v", again, first)
	}
}

// The measures of every store of the module are found, with names and descriptions for metrics.
func TestStore_MeasuresOfStores(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	leased := lease.New(redisstore.New(rdb, "test"))
	over := failover.New(leased, memstore.New())
	t.Cleanup(func() { _, _ = over.Close(), leased.Close() })
	s := observe.New(denycache.New(over))
	set, err := rules.New(s, &rules.Config{}, rules.Overrides(rules.Redis(rdb, "test")))
	testkit.Must(t, err)
	s.Add(set)
	prefixes := map[string]int{}
	seen := map[string]bool{}
	for _, m := range s.Snapshot().Measures {
		name := fmt.Sprint(m.Role, m.Name)
		if seen[name] || !strings.HasPrefix(m.Name, "weir.") || !strings.HasSuffix(m.Help, ".") || m.Unit == "" {
			t.Errorf("got %+v, want a new name, a sentence and a unit", m)
		}
		seen[name] = true
		prefixes[m.Role+" "+strings.Split(m.Name, ".")[1]]++
	}
	if got, want := fmt.Sprint(prefixes), "map[ attempts:1  denycache:3  failover:7  peeks:1  rules:9  store:1 backup memstore:4 primary lease:5 primary redis:8]"; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The blocks of Redis and of the configuration that are in force are counted once each.
func TestSet_Measures_Blocks(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, source := t.Context(), rules.Redis(rdb, "test", rules.Prefix(newPrefix()))
	rules.PollEvery(source, 20*time.Millisecond)
	set, err := rules.New(memstore.New(), parse(t, `api: {rules: [{name: r, algorithm: fixed_window, limit: 10/h, plans: {gold: 100/h}}],
		keys: {a: {blocked: true}, b: {blocked: true}, c: {blocked: true}, ended: {blocked: true, until: 2020-01-01T00:00:00Z}, d: {plan: gold}}},
		off: {disabled: true, rules: [{name: o, algorithm: token_bucket, limit: 5/h}], keys: {a: {blocked: true}}}`), rules.Overrides(source), rules.OnError(func(error) {}))
	testkit.Must(t, err)
	blocks := func() string {
		for _, m := range set.Measures() {
			if m.Name == "weir.rules.blocks" {
				return fmt.Sprint(m.Value)
			}
		}
		return "none"
	}
	if got := blocks(); got != "-1" {
		t.Errorf("got %s before Watch", got)
	}
	go func() { _ = set.Watch(ctx, source) }()
	becomes(t, "blocks of the configuration", "3", blocks)
	testkit.Must(t, set.Block(ctx, "api", "a", time.Time{}))                      // counts once
	testkit.Must(t, set.Override(ctx, "api", "b", rules.Override{Plan: "gold"}))  // is not blocked
	testkit.Must(t, set.Override(ctx, "api", "d", rules.Override{Blocked: true})) // as by Block
	testkit.Must(t, set.Block(ctx, "api", "short", time.Now().Add(time.Second)))  // ends
	becomes(t, "blocks", "3", blocks)
	testkit.Must(t, set.Unblock(ctx, "api", "d"))
	becomes(t, "blocks after Unblock", "2", blocks)
}
