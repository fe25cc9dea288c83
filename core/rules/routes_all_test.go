package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// An api is a handler behind a gate with the routes of a Set. The header field Key has the key of a request.
type api struct {
	*rules.Set
	http.Handler
	served int // by the handler behind the gate
}

func fromHeader(_ context.Context, r *http.Request) (string, error) { return r.Header.Get("Key"), nil }

// newAPI returns an api whose requests without a route have the policy base.
func newAPI(t testing.TB, s core.Store, c *rules.Config, base string, h http.HandlerFunc, opts ...gate.Option) *api {
	t.Helper()
	set, err := rules.New(s, c)
	testkit.Must(t, err)
	a := &api{Set: set}
	a.Handler = nethttplimit.New(limiter(t, set, base), fromHeader, append([]gate.Option{gate.Routes(set)}, opts...)...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.served++; h != nil {
			h(w, r)
		}
	}))
	return a
}

// do sends a request such as "POST /media" with a key.
func (a *api) do(request, key string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Key", key)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// used returns how much of each rule of a policy key has used.
func (a *api) used(t testing.TB, policy, key string) []int {
	t.Helper()
	return testkit.Used(t, limiter(t, a.Set, policy), key)
}

// onStores runs a test on a memory store, on Redis and on a Cluster.
func onStores(t *testing.T, test func(t *testing.T, s core.Store)) {
	t.Helper()
	for name, s := range map[string]func(t *testing.T) core.Store{
		"memory": func(*testing.T) core.Store { return memstore.New() },
		"Redis": func(t *testing.T) core.Store {
			return redisstore.New(redistest.Shared(t).Client(), "test", redisstore.Prefix(newPrefix()), redisstore.Timeout(time.Minute))
		},
		"Cluster": func(t *testing.T) core.Store {
			return redisstore.New(redistest.SharedCluster(t).Client(), "test", redisstore.Prefix(newPrefix()), redisstore.Timeout(time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, s(t)) })
	}
}

// An account with 300 requests in 5 minutes, 30 of which can be to /media, gets 300 in all.
func TestSet_ForAll(t *testing.T) {
	onStores(t, func(t *testing.T, s core.Store) {
		a := newAPI(t, s, parseFile(t, mastodon), "other", nil)
		for range 40 {
			a.do("POST /media", "k")
		}
		if a.served != 30 || !slices.Equal(a.used(t, "account", "k"), []int{30}) {
			t.Errorf("got %d requests and %v of the account, want 30: a denied request is charged to neither policy", a.served, a.used(t, "account", "k"))
		}
		for range 300 {
			a.do("GET /statuses", "k")
		}
		if a.served != 300 {
			t.Errorf("got %d requests, want 300", a.served)
		}
		if got := a.used(t, "other", "k"); !slices.Equal(got, []int{270}) {
			t.Errorf("got %v of the limiter of New, want 270", got)
		}
		for range 400 {
			a.do("GET /own", "own")
		}
		if got := a.used(t, "account", "own"); a.served != 600 || !slices.Equal(got, []int{300}) {
			t.Errorf("got %d requests and %v of a route of the same policy, want 600 and 300", a.served, got)
		}
	})
}

// The pause of each policy denies. A request that one of them denies is charged to no rule.
func TestSet_ForAll_Pause(t *testing.T) {
	file := strings.NewReplacer("[{name: account", "[{name: stop, algorithm: pause}, {name: account", "[{name: media", "[{name: stop, algorithm: pause}, {name: media").Replace(mastodon)
	onStores(t, func(t *testing.T, s core.Store) {
		a := newAPI(t, s, parseFile(t, file), "other", nil)
		pause := func(policy string, length time.Duration) {
			t.Helper()
			testkit.Must(t, limiter(t, a.Set, policy).Pause(t.Context(), "k", length))
		}
		do := func(request, name string, served int) {
			t.Helper()
			before := a.served
			w := a.do(request, "k")
			if retry := w.Header().Get("Retry-After"); a.served-before != served || (retry == "") != (served == 1) {
				t.Errorf("%s, %s: got %d requests with Retry-After %q, want %d", name, request, a.served-before, retry, served)
			}
		}
		do("POST /media", "open", 1)
		pause("media", time.Hour)
		do("POST /media", "media paused", 0)
		do("GET /statuses", "media paused", 1)
		pause("account", time.Hour)
		pause("media", 0)
		do("POST /media", "account paused", 0)
		do("GET /statuses", "account paused", 0)
		pause("account", 0)
		do("POST /media", "open again", 1)
		if media, account := a.used(t, "media", "k")[1], a.used(t, "account", "k")[1]; media != 2 || account != 3 {
			t.Errorf("got %d and %d events of media and account, want 2 and 3", media, account)
		}
	})
}

// Clients see the rules of both policies, and the later Retry-After.
func TestSet_ForAll_Response(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, memstore.New(), parseFile(t, `
policies:
  account: {rules: [{name: account, algorithm: sliding_log, limit: 3/m}]}
  media: {rules: [{name: media, algorithm: sliding_log, limit: 2/h}]}
  brief: {rules: [{name: brief, algorithm: sliding_log, limit: 3/s}]}
routes: {/media: media, /brief: brief}
all_routes: account
`), "account", nil, gate.Headers(gate.IETFDraft, gate.XRateLimit))
		for i, c := range []struct {
			path, fields, limit, retry, violated string
			status                               int
		}{
			{"/media", `"media";q=2;w=3600, "account";q=3;w=60`, `"media";r=1;t=3600, "account";r=2;t=60`, "", "", 200},
			{"/brief", `"brief";q=3;w=1, "account";q=3;w=60`, `"brief";r=2;t=1, "account";r=1;t=60`, "", "", 200},
			{"/", `"account";q=3;w=60`, `"account";r=0;t=60`, "", "", 200},
			{"/", `"account";q=3;w=60`, `"account";r=0;t=60`, "60", `["account"]`, 429},
			{"/brief", `"brief";q=3;w=1, "account";q=3;w=60`, `"brief";r=2;t=1, "account";r=0;t=60`, "60", `["account"]`, 429},
			{"/media", `"media";q=2;w=3600, "account";q=3;w=60`, `"media";r=1;t=3600, "account";r=0;t=60`, "60", `["account"]`, 429},
		} {
			w := a.do("GET "+c.path, "k")
			var problem struct {
				Violated json.RawMessage `json:"violated-policies"`
			}
			if w.Code == 429 {
				testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &problem))
			}
			h := w.Header()
			if w.Code != c.status || h.Get("RateLimit-Policy") != c.fields || h.Get("RateLimit") != c.limit || h.Get("Retry-After") != c.retry || string(problem.Violated) != c.violated {
				t.Errorf("request %d: got %d, %s, %s, Retry-After %s, %s, want %+v", i, w.Code, h.Get("RateLimit-Policy"), h.Get("RateLimit"), h.Get("Retry-After"), problem.Violated, c)
			}
		}
		time.Sleep(time.Minute)
		a.do("GET /media", "k")
		for range 2 {
			a.do("GET /", "k")
		}
		if w := a.do("GET /media", "k"); w.Header().Get("Retry-After") != "3540" || !strings.Contains(w.Body.String(), `"violated-policies":["media","account"]`) || w.Header().Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("both deny: got Retry-After %s, %s, want the later one", w.Header().Get("Retry-After"), w.Body)
		}
		// With the shorter time in the policy of the route:
		for range 3 {
			a.do("GET /brief", "j")
		}
		if w := a.do("GET /brief", "j"); w.Header().Get("Retry-After") != "60" || !strings.Contains(w.Body.String(), `"violated-policies":["brief","account"]`) {
			t.Errorf("both deny: got Retry-After %s, %s, want that of the policy of all routes", w.Header().Get("Retry-After"), w.Body)
		}
	})
}

// Plans, overrides, percentages, candidates and switches of each policy apply to that policy alone. The rules in
// force are those of two limiters that are asked one after the other.
func TestSet_ForAll_Combinations(t *testing.T) {
	forms := map[string]string{
		"plain":          "rules: [R]",
		"plans":          "rules: [{name: N, algorithm: sliding_log, limit: 4/m, plans: {gold: 2/m}}]",
		"other plans":    "rules: [{name: N, algorithm: sliding_log, limit: 4/m, plans: {pro: 2/m}}]",
		"enforced":       "rules: [R], enforce: 100",
		"not enforced":   "rules: [R], enforce: 0",
		"limit of a key": "rules: [R], keys: {k: {limits: {N: 1/m}}}",
		"plan of a key":  "rules: [{name: N, algorithm: sliding_log, limit: 4/m, plans: {silver: 1/m}}], keys: {k: {plan: silver}}",
		"blocked key":    "rules: [R], keys: {k: {blocked: true}}",
		"another key":    "rules: [R], keys: {j: {blocked: true}}",
		"candidate":      "rules: [{name: N, algorithm: sliding_log, limit: 4/m, candidate: {algorithm: sliding_log, limit: 1/m}}]",
		"shadow":         "rules: [{name: N, algorithm: sliding_log, limit: 1/m, mode: shadow}]",
		"disabled":       "rules: [R], disabled: true",
		"unlimited":      "rules: [{name: N, algorithm: sliding_log, limit: unlimited}]",
		"two rules":      "rules: [R, {name: N2, algorithm: sliding_log, limit: 2/m}]",
	}
	policy := func(form, name string, n int) string {
		rule := fmt.Sprintf("{name: N, algorithm: sliding_log, limit: %d/m}", n)
		return strings.NewReplacer("N", name).Replace(strings.ReplaceAll(forms[form], "R", rule))
	}
	for ofRoute := range forms {
		for ofAll := range forms {
			for _, plan := range []string{"", "gold"} {
				name := fmt.Sprintf("%s, %s for all, plan %q", ofRoute, ofAll, plan)
				c := parseFile(t, fmt.Sprintf("policies: {route: {%s}, account: {%s}}\nroutes: {/: route}\nall_routes: account", policy(ofRoute, "r", 3), policy(ofAll, "a", 5)))
				a := newAPI(t, memstore.New(), c, "account", nil)
				planOf := func(context.Context, *http.Request) (string, error) { return plan, nil }
				var decision core.Decision
				a.Handler = nethttplimit.New(limiter(t, a.Set, "account"), fromHeader, gate.Routes(a.Set), gate.Plan(planOf),
					gate.OnDecision(func(_ context.Context, e gate.Event) { decision = e.Decision }))(http.NotFoundHandler())
				// The same rules without a gate.
				single, err := rules.New(memstore.New(), c)
				testkit.Must(t, err)
				route, all := limiter(t, single, "route").Plan(plan), limiter(t, single, "account").Plan(plan)
				for range 7 {
					want, err := core.AllowTogether(t.Context(), core.Ask{Limiter: route, Key: "k"}, core.Ask{Limiter: all, Key: "k"})
					testkit.Must(t, err)
					w := a.do("GET /", "k")
					if got := w.Code == http.StatusNotFound; got != want.Allowed || decision.Len() != want.Len() {
						t.Fatalf("%s: got status %d and %v, want %v", name, w.Code, decision, want)
					}
					for i, s := range want.States() {
						if got := decision.State(i); got.Rule.String() != s.Rule.String() || got.Remaining != s.Remaining || got.Allowed != s.Allowed {
							t.Fatalf("%s: got %+v of rule %d, want %+v", name, got, i, s)
						}
					}
				}
			}
		}
	}
}

// The plan function runs once, also if only one of the limiters has plans.
func TestSet_ForAll_PlanFunction(t *testing.T) {
	store := memstore.New()
	set, err := rules.New(store, parseFile(t, `
policies:
  account: {rules: [{name: a, algorithm: sliding_log, limit: 1/m, plans: {gold: 5/m}}]}
  route: {rules: [{name: r, algorithm: sliding_log, limit: 9/m}]}
routes: {/route: route}
all_routes: account
`))
	testkit.Must(t, err)
	down := errors.New("down")
	base := core.Must(core.New(store, core.SlidingLog("base", core.PerMinute(9)))) // without plans
	for _, c := range []struct {
		path, plan    string
		err           error
		status        int
		account, base int
	}{
		{"/", "gold", nil, 200, 5, 1},
		{"/route", "gold", nil, 200, 5, 0},
		{"/", "", keyfunc.ErrNoKey, 200, 1, 1},
		{"/", "", down, 500, -1, 1}, // the limiter without plans is charged
		{"/", "", keyfunc.ErrNotLimited, 200, -1, 1},
		{"/route", "", down, 500, -1, 0},
	} {
		calls := 0
		plan := func(context.Context, *http.Request) (string, error) { calls++; return c.plan, c.err }
		quiet := gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
		var d core.Decision
		key := func(context.Context, *http.Request) (string, error) { return "k", nil }
		h := nethttplimit.New(base, key, gate.Routes(set), gate.Plan(plan), quiet,
			gate.OnDecision(func(_ context.Context, e gate.Event) { d = e.Decision }))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		account := -1
		if s, ok := d.StateOf("account.a"); ok {
			account = s.Rule.Capacity()
		}
		used := testkit.Peek(t, base, "k").State(0).Used()
		if w.Code != c.status || calls != 1 || account != c.account || used != c.base {
			t.Errorf("%+v: got status %d, %d calls, a limit of %d and %d of the limiter of New", c, w.Code, calls, account, used)
		}
		for _, l := range []*core.Limiter{base, limiter(t, set, "account"), limiter(t, set, "route")} {
			_, err := l.Reset(t.Context(), "k")
			testkit.Must(t, err)
		}
	}
}

// Handlers change the cost of both policies, or that of one of them.
func TestSet_ForAll_Settle(t *testing.T) {
	var set *rules.Set
	for name, c := range map[string]struct {
		opts           []gate.Option
		handler        func(r *http.Request) error
		media, account int
	}{
		"nothing":          {nil, func(*http.Request) error { return nil }, 1, 1},
		"Cost":             {[]gate.Option{gate.Cost(func(context.Context, *http.Request) int { return 4 })}, func(*http.Request) error { return nil }, 4, 4},
		"Settle":           {nil, func(r *http.Request) error { return gate.Settle(r.Context(), 5) }, 5, 5},
		"Refund":           {nil, func(r *http.Request) error { return gate.Refund(r.Context()) }, 0, 0},
		"RefundIf":         {[]gate.Option{gate.RefundIf(func(int) bool { return true })}, func(*http.Request) error { return nil }, 0, 0},
		"SettleFor, route": {nil, func(r *http.Request) error { return gate.SettleFor(r.Context(), limiter(t, set, "media"), 7) }, 7, 1},
		"SettleFor, all":   {nil, func(r *http.Request) error { return gate.SettleFor(r.Context(), limiter(t, set, "account"), 7) }, 1, 7},
		"Reset": {nil, func(r *http.Request) error {
			key, ok := gate.Key(r.Context(), limiter(t, set, "account"))
			if key != "k" || !ok {
				return fmt.Errorf("got the key %q", key)
			}
			return gate.Reset(r.Context(), limiter(t, set, "account"))
		}, 1, 0},
		"Check": {nil, func(r *http.Request) error {
			w := httptest.NewRecorder()
			if !nethttplimit.Check(w, r, limiter(t, set, "other"), "k") {
				return errors.New("denied")
			}
			if got := w.Header().Get("RateLimit-Policy"); strings.Count(got, "q=") != 3 {
				return fmt.Errorf("got the fields %s, want those of three policies", got)
			}
			return gate.Settle(r.Context(), 2)
		}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, s core.Store) {
				a := newAPI(t, s, parseFile(t, mastodon), "other", nil)
				set = a.Set
				a.Handler = nethttplimit.New(limiter(t, set, "other"), fromHeader, append([]gate.Option{gate.Routes(set)}, c.opts...)...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if err := c.handler(r); err != nil {
						t.Error(err)
					}
					w.WriteHeader(200)
				}))
				a.do("POST /media", "k")
				if media, account := a.used(t, "media", "k")[0], a.used(t, "account", "k")[0]; media != c.media || account != c.account {
					t.Errorf("got %d of media and %d of the account, want %d and %d", media, account, c.media, c.account)
				}
			})
		})
	}
}

// An address whose limit of all routes is exhausted is denied before a token is verified, on every route.
func TestSet_ForAll_Exhausted(t *testing.T) {
	const file = `
policies:
  account: {rules: [{name: account, algorithm: sliding_log, limit: ALL/m}]}
  login: {rules: [{name: login, algorithm: sliding_log, limit: ROUTE/m}]}
  user: {rules: [{name: user, algorithm: sliding_log, limit: 1000/m}]}
routes: {/login: login}
all_routes: account
`
	for _, c := range []struct {
		name       string
		all, route string
		and        string // the policy of And
		path       string // of requests with bad tokens
		verified   int
	}{
		{"limit of all routes", "5", "100", "user", "/login", 5},
		{"limit of the route", "100", "5", "user", "/login", 5},
		{"without a route", "5", "100", "user", "/", 5},
		{"And of the limiter of all routes", "5", "100", "account", "/login", 5},
		{"And of the limiter of the route", "5", "100", "login", "/login", 5},
	} {
		a := newAPI(t, memstore.New(), parseFile(t, strings.NewReplacer("ALL", c.all, "ROUTE", c.route).Replace(file)), "user", nil)
		verified := 0
		token := func(_ context.Context, r *http.Request) (string, error) {
			if verified++; r.Header.Get("Token") != "" {
				return "user:" + r.Header.Get("Token"), nil
			}
			return "", keyfunc.ErrNoToken
		}
		base := limiter(t, a.Set, "user")
		quiet := gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
		a.Handler = nethttplimit.New(base, fromHeader, gate.Routes(a.Set), gate.And(limiter(t, a.Set, c.and), token), quiet)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { a.served++ }))
		for i := range 20 {
			want := 401
			if i >= 5 {
				want = 429
			}
			if got := a.do("GET "+c.path, "address").Code; got != want {
				t.Errorf("%s, request %d: got status %d, want %d", c.name, i, got, want)
			}
		}
		if verified != c.verified {
			t.Errorf("%s: %d bad tokens were verified, want %d", c.name, verified, c.verified)
		}
		// Another address with a good token.
		r := httptest.NewRequest("GET", c.path, nil)
		r.Header.Set("Key", "other")
		r.Header.Set("Token", "ann")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != 200 || a.served != 1 {
			t.Errorf("%s: got status %d for a good token", c.name, w.Code)
		}
	}
}

// An address that was exhausted, and is not any more, is charged early, and then once.
func TestSet_ForAll_EarlyCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, memstore.New(), parseFile(t, `
policies:
  account: {rules: [{name: account, algorithm: fixed_window, limit: 2/s}]}
  login: {rules: [{name: login, algorithm: fixed_window, limit: 100/h}]}
  user: {rules: [{name: user, algorithm: fixed_window, limit: 100/h}]}
routes: {/login: login}
all_routes: account
`), "user", nil)
		token := func(context.Context, *http.Request) (string, error) { return "user:ann", nil }
		a.Handler = nethttplimit.New(limiter(t, a.Set, "user"), fromHeader, gate.Routes(a.Set), gate.And(limiter(t, a.Set, "user"), token))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { a.served++ }))
		for range 4 {
			a.do("GET /login", "address")
		}
		time.Sleep(time.Second)
		w := a.do("GET /login", "address")
		if got := w.Header().Get("RateLimit"); w.Code != 200 || a.served != 3 || got != `"login";r=97;t=3599, "account";r=1;t=1, "user";r=97;t=3599` {
			t.Errorf("got status %d, %d requests and %s", w.Code, a.served, got)
		}
		for policy, want := range map[string]int{"login": 3, "account": 1} {
			if got := a.used(t, policy, "address"); got[0] != want {
				t.Errorf("got %v of %s, want %d", got, policy, want)
			}
		}
	})
}

// A part of a key that is known is charged to both limiters.
func TestSet_ForAll_PartialKey(t *testing.T) {
	a := newAPI(t, memstore.New(), parseFile(t, mastodon), "other", nil)
	noToken := func(context.Context, *http.Request) (string, error) { return "", keyfunc.ErrNoToken }
	quiet := gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
	a.Handler = nethttplimit.New(limiter(t, a.Set, "other"), keyfunc.Join(fromHeader, noToken), gate.Routes(a.Set), quiet)(http.NotFoundHandler())
	for i := range 31 {
		want := 401
		if i == 30 {
			want = 429
		}
		if w := a.do("POST /media", "address"); w.Code != want {
			t.Fatalf("request %d: got status %d, want %d", i, w.Code, want)
		}
	}
	for i := range 271 {
		want := 401
		if i == 270 {
			want = 429
		}
		if w := a.do("GET /", "address"); w.Code != want {
			t.Fatalf("request %d without a route: got status %d, want %d", i, w.Code, want)
		}
	}
}

// A request is not limited if its key function says so.
func TestSet_ForAll_NotLimited(t *testing.T) {
	a := newAPI(t, memstore.New(), parseFile(t, mastodon), "other", nil)
	never := func(context.Context, *http.Request) (string, error) { return "", keyfunc.ErrNotLimited }
	a.Handler = nethttplimit.New(limiter(t, a.Set, "other"), never, gate.Routes(a.Set))(http.NotFoundHandler())
	if w := a.do("POST /media", "k"); w.Code != 404 || w.Header().Get("RateLimit") != "" {
		t.Errorf("got status %d, %s", w.Code, w.Header().Get("RateLimit"))
	}
}

// Limiters on several stores cannot decide together.
func TestSet_ForAll_OtherStore(t *testing.T) {
	set, err := rules.New(memstore.New(), parseFile(t, mastodon))
	testkit.Must(t, err)
	base := core.Must(core.New(memstore.New(), core.SlidingLog("base", core.PerMinute(9))))
	var failed error
	h := nethttplimit.New(base, keyfunc.Constant("k"), gate.Routes(set), gate.OnError(func(_ *http.Request, err error, status int) int { failed = err; return status }))(http.NotFoundHandler())
	for request, want := range map[string]int{"POST /media": 404, "GET /": 500} {
		failed = nil
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want || errors.Is(failed, core.ErrInvalidAsk) != (want == 500) {
			t.Errorf("%s: got status %d and the error %v, want %d", request, w.Code, failed, want)
		}
	}
}

// As many rules as an Apply accepts can be decided together in Redis.
func TestSet_ForAll_MostRules(t *testing.T) {
	c := parseFile(t, mastodon)
	media := c.Policies["media"]
	for i := range 128 - 2 {
		media.Rules = append(media.Rules, rules.Rule{Spec: core.Spec{Name: fmt.Sprint("r", i), Algorithm: core.AlgorithmSlidingLog, Limit: core.PerMinute(9)}})
	}
	c.Policies["media"] = media
	onStores(t, func(t *testing.T, s core.Store) {
		a := newAPI(t, s, c, "other", nil)
		if w := a.do("POST /media", "k"); w.Code != 200 || strings.Count(w.Header().Get("RateLimit"), "r=") != 128 {
			t.Errorf("got status %d, %s", w.Code, w.Header().Get("RateLimit"))
		}
	})
}

// While configurations change, each request has the route and the policy of all routes of one of them.
func TestSet_ForAll_Concurrent(t *testing.T) {
	const policies = `
policies:
  a: {rules: [{name: a, algorithm: token_bucket, limit: 1000000/s}]}
  b: {rules: [{name: b, algorithm: token_bucket, limit: 1000000/s}]}
`
	configs := []*rules.Config{
		parseFile(t, policies+"routes: {/: a}\nall_routes: b"), parseFile(t, policies+"routes: {/: b}\nall_routes: a"),
		parseFile(t, policies+"routes: {/: b}"), parseFile(t, policies+"all_routes: a"),
	}
	known := []string{"a.a b.b", "b.b a.a", "b.b", "base a.a"}
	store := memstore.New()
	set, err := rules.New(store, configs[0])
	testkit.Must(t, err)
	base := core.Must(core.New(store, core.TokenBucket("base", core.PerSecond(1_000_000))))
	var mu sync.Mutex
	seen := make(map[string]int)
	h := nethttplimit.New(base, keyfunc.Constant("k"), gate.Routes(set), gate.OnDecision(func(_ context.Context, e gate.Event) {
		var names []string
		for _, s := range e.Decision.States() {
			names = append(names, s.Rule.Name())
		}
		mu.Lock()
		defer mu.Unlock()
		seen[strings.Join(names, " ")]++
	}))(http.NotFoundHandler())
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var applied atomic.Int64
	var served [4]atomic.Int64 // the configurations that were applied when the last request of a client began
	for i := range served {
		clients.Go(func() {
			for ctx.Err() == nil {
				n := applied.Load()
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
				served[i].Store(n)
				runtime.Gosched()
			}
		})
	}
	for n := range int64(2000) {
		if err := set.Apply(configs[n%int64(len(configs))]); err != nil {
			t.Error(err)
		}
		applied.Store(n)
		for i := range served { // the configuration changes once during a request
			for served[i].Load() < n {
				runtime.Gosched()
			}
		}
	}
	cancel()
	clients.Wait()
	for names, n := range seen {
		if !slices.Contains(known, names) {
			t.Errorf("%d requests had the rules %q", n, names)
		}
	}
}
