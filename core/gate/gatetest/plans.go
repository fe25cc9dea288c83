package gatetest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// planned has a limit for each of several plans.
var planned = core.SlidingLog("api", core.PerMinute(3)).
	Plan("pro", core.PerMinute(5)).
	Plan("staff", core.Unlimited).
	Plan("banned", core.Blocked)

func (s *suite) testPlans(t *testing.T) {
	const base = `"api";q=3;w=60, "daily";q=1000;w=86400`
	for _, c := range []struct {
		name     string
		plan     keyfunc.Func
		status   int
		policies string
		legacy   string // X-RateLimit-Limit
	}{
		{"none", constant(""), 200, base, "3"},
		{"pro", constant("pro"), 200, `"api";q=5;w=60, "daily";q=1000;w=86400`, "5"},
		{"unlimited", constant("staff"), 200, `"daily";q=1000;w=86400`, "1000"},
		{"blocked", constant("banned"), 429, `"api";q=0`, "0"},
		{"unknown", constant("prr"), 200, base, "3"},
		{"no key", noKey(keyfunc.ErrNoKey), 200, base, "3"},
		{"no token", noKey(keyfunc.ErrNoToken), 200, base, "3"},
		{"not limited", noKey(keyfunc.ErrNotLimited), 200, "", ""},
		{"fault", noKey(errSecret), 500, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.start(setup{
				rules: []core.Rule{planned, daily},
				opts:  []gate.Option{gate.Plan(c.plan), quiet, gate.Headers(gate.IETFDraft, gate.XRateLimit)},
			})
			got := exchange(t, a, request("GET", "/"))
			if policies := got.header.Get("RateLimit-Policy"); got.status != c.status || policies != c.policies {
				t.Errorf("got %d, RateLimit-Policy %s, want %d, %s", got.status, policies, c.status, c.policies)
			}
			if legacy := got.header.Get("X-RateLimit-Limit"); legacy != c.legacy {
				t.Errorf("got X-RateLimit-Limit %s, want %s", legacy, c.legacy)
			}
			if c.status == 429 {
				if limit := got.header.Get("RateLimit"); limit != `"api";r=0` || got.header.Get("Retry-After") != "" || got.header.Get("X-RateLimit-Reset") != "" || a.store.Calls() != 0 {
					t.Errorf("got RateLimit %s, header %v and %d calls of the Store, want no time and no call", limit, got.header, a.store.Calls())
				}
				if want := `"detail":"Policy \"api\" allows no requests."`; !strings.Contains(got.body, want) {
					t.Errorf("got the body %s, want %s", got.body, want)
				}
			}
		})
	}
	t.Run("one state", func(t *testing.T) {
		a := s.start(setup{rules: []core.Rule{planned}, opts: []gate.Option{gate.Plan(header("X-Plan"))}})
		for i, c := range []struct {
			plan, limit string
			status      int
		}{
			{"", `"api";r=2;t=60`, 200},
			{"pro", `"api";r=3;t=60`, 200},
			{"", `"api";r=0;t=60`, 200},
			{"", `"api";r=0;t=60`, 429},
			{"pro", `"api";r=1;t=60`, 200},
			{"staff", "", 200},
			{"pro", `"api";r=0;t=60`, 200},
			{"pro", `"api";r=0;t=60`, 429},
			{"staff", "", 200},
		} {
			r := request("GET", "/")
			r.Header.Set("X-Plan", c.plan)
			if got := record(t, a, r); got.status != c.status || got.header.Get("RateLimit") != c.limit {
				t.Errorf("request %d, plan %q: got %d, %s, want %d, %s", i, c.plan, got.status, got.header.Get("RateLimit"), c.status, c.limit)
			}
		}
	})
	t.Run("of one limiter", func(t *testing.T) {
		a := s.start(setup{opts: []gate.Option{gate.Plan(constant("pro"))}})
		other := core.Must(core.New(a.store, planned))
		a = s.start(setup{limiter: a.limiter, store: a.store, opts: []gate.Option{
			gate.Plan(constant("pro")), gate.And(other, constant("a")), gate.And(other, constant("b"), gate.Plan(constant("staff"))),
		}})
		if got := a.get(t); got.header.Get("RateLimit-Policy") != `"hundred";q=100;w=3600, "api";q=5;w=60` {
			t.Errorf("got %s", got.header.Get("RateLimit-Policy"))
		}
		a.checkRan(t, 1)
	})
	t.Run("labels", func(t *testing.T) {
		a := s.start(setup{rules: []core.Rule{core.SlidingLog("api.minute", core.PerMinute(2)).Plan("pro", core.PerMinute(1)).Label("minute")}})
		other := core.Must(core.New(a.store, core.SlidingLog("login.minute", core.PerMinute(9)).Label("minute")))
		a = s.start(setup{limiter: a.limiter, store: a.store, opts: []gate.Option{gate.Plan(header("X-Plan")), gate.And(other, constant("a"))}})
		for i, c := range []struct {
			plan, policy, limit string
			status              int
		}{
			{"", `"minute";q=2;w=60`, `"minute";r=1;t=60`, 200},
			{"pro", `"minute";q=1;w=60`, `"minute";r=0;t=60`, 429},
		} {
			r := request("GET", "/")
			r.Header.Set("X-Plan", c.plan)
			got := record(t, a, r)
			if policy, limit := got.header.Get("RateLimit-Policy"), got.header.Get("RateLimit"); got.status != c.status || policy != c.policy || limit != c.limit {
				t.Errorf("request %d: got %d, %s, %s, want %+v", i, got.status, policy, limit, c)
			}
			if want := `"detail":"Policy \"minute\" allows 1 request per 60 s. Retry in 60 s.","instance":"/","violated-policies":["minute"]`; c.status == 429 && !strings.Contains(got.body, want) {
				t.Errorf("got the body %s, want %s", got.body, want)
			}
		}
	})
	t.Run("without plans", func(t *testing.T) { // verifications of tokens would escape the limit of the address
		calls := 0
		a := s.start(setup{})
		other := core.Must(core.New(a.store, planned))
		a = s.start(setup{limiter: a.limiter, store: a.store, opts: []gate.Option{
			gate.And(other, constant("a")), gate.Plan(func(context.Context, *http.Request) (string, error) { calls++; return "pro", nil }),
		}})
		if a.gets(t, 200); calls != 1 {
			t.Errorf("the function of Plan was called %d times, want once: for the limiter with plans", calls)
		}
	})
	t.Run("replaced", func(t *testing.T) {
		a := s.start(setup{rules: []core.Rule{planned}})
		for _, c := range []struct {
			limit core.Limit
			want  string
		}{
			{core.PerMinute(3), `"api";q=3;w=60`}, {core.PerMinute(20), `"api";q=20;w=60`}, {core.PerHour(1), `"api";q=1;w=3600`},
		} {
			if err := a.limiter.Replace(core.SlidingLog("api", c.limit)); err != nil {
				t.Fatal(err)
			}
			if got := a.get(t); got.header.Get("RateLimit-Policy") != c.want {
				t.Errorf("got %s, want %s", got.header.Get("RateLimit-Policy"), c.want)
			}
		}
	})
	t.Run("undecidable", func(t *testing.T) { // a client may cause it by its key
		l := s.start(setup{rules: []core.Rule{planned}}).limiter
		for name, a := range map[string]setup{
			"two plans of one key": {limiter: l, opts: []gate.Option{gate.And(l, constant("k"), gate.Plan(constant("pro")))}},
			"the same, FailClosed": {limiter: l, opts: []gate.Option{gate.And(l, constant("k"), gate.Plan(constant("pro"))), gate.FailClosed()}},
			"Choose fails":         {limiter: l.Choose(func(context.Context, string) (*core.Limiter, error) { return nil, errSecret })},
			"Choose is wrong":      {limiter: l.Choose(func(context.Context, string) (*core.Limiter, error) { return new(core.Limiter), nil })},
		} {
			a.key, a.opts = constant("k"), append(a.opts, quiet)
			app := s.start(a)
			if got := app.get(t); got.status != 500 || strings.Contains(got.body, errSecret.Error()) {
				t.Errorf("%s: got %d, %s, want 500", name, got.status, got.body)
			}
			app.checkRan(t, 0)
		}
	})
	t.Run("blocked behind another gate", func(t *testing.T) {
		outer, inner := s.start(setup{}), s.start(setup{rules: []core.Rule{core.SlidingLog("no", core.Blocked)}})
		both := gate.Headers(gate.IETFDraft, gate.XRateLimit)
		got := exchange(t, s.stack([]Gate{
			{outer.limiter, constant("k"), []gate.Option{both}}, {inner.limiter, constant("k"), nil},
		}, says("ok")), request("GET", "/"))
		if reset, ok := got.header["X-Ratelimit-Reset"]; got.status != 429 || got.header.Get("X-RateLimit-Limit") != "0" || ok {
			t.Errorf("got %d, X-RateLimit-Limit %s, X-RateLimit-Reset %s, want 429, 0 and no time", got.status, got.header.Get("X-RateLimit-Limit"), reset)
		}
	})
}

// costHeader returns a Cost that takes the cost from a header field.
func costHeader(name string) gate.Option {
	return gate.Cost(func(_ context.Context, r *http.Request) int {
		n, err := strconv.Atoi(r.Header.Get(name))
		if err != nil {
			return -1
		}
		return n
	})
}

// testSeveralCosts tests a gate that counts requests and tokens.
func (s *suite) testSeveralCosts(t *testing.T) {
	type pair struct{ requests, tokens int }
	start := func(handler func(w http.ResponseWriter, r *http.Request, requests, tokens *core.Limiter), opts ...gate.Option) (http.Handler, func(t *testing.T, want pair)) {
		store := memory()
		requests := core.Must(core.New(store, core.SlidingLog("requests", core.PerMinute(3))))
		tokens := core.Must(core.New(store, core.TokenBucket("tokens", core.PerDay(1000)).Plan("pro", core.PerDay(2000))))
		opts = append(opts, gate.And(tokens, constant("k"), costHeader("X-Tokens")), quiet)
		h := s.build(requests, constant("k"), opts, func(w http.ResponseWriter, r *http.Request) { handler(w, r, requests, tokens) })
		return h, func(t *testing.T, want pair) {
			t.Helper()
			if got := (pair{taken(t, requests, "k"), taken(t, tokens, "k")}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	}
	ask := func(tokens string) *http.Request {
		r := request("POST", "/")
		r.Header.Set("X-Tokens", tokens)
		return r
	}
	t.Run("settle", func(t *testing.T) {
		var check func(*testing.T, pair)
		foreign := s.start(setup{}).limiter
		h, check := start(func(_ http.ResponseWriter, r *http.Request, requests, tokens *core.Limiter) {
			check(t, pair{1, 400})
			for i, c := range []struct {
				limiter *core.Limiter // nil: Settle
				cost    int
				err     error
				want    pair
			}{
				{tokens, 150, nil, pair{1, 150}},
				{tokens.Plan("pro"), 700, nil, pair{1, 700}},
				{tokens, -1, core.ErrNegativeCost, pair{1, 700}},
				{requests, 2, nil, pair{2, 700}},
				{nil, 5, gate.ErrSeveralCosts, pair{2, 700}},
				{foreign, 5, gate.ErrNotAdmitted, pair{2, 700}},
				{nil, -1, core.ErrNegativeCost, pair{2, 700}},
				{nil, 0, nil, pair{0, 0}},
				{tokens, 20, nil, pair{0, 20}},
			} {
				var got error
				if c.limiter == nil {
					got = gate.Settle(r.Context(), c.cost)
				} else {
					got = gate.SettleFor(r.Context(), c.limiter, c.cost)
				}
				if !errors.Is(got, c.err) {
					t.Errorf("call %d: got %v, want %v", i, got, c.err)
				}
				check(t, c.want)
			}
			if err := gate.SettleFor(r.Context(), nil, 1); !errors.Is(err, gate.ErrNotAdmitted) {
				t.Errorf("without a limiter: got %v, want ErrNotAdmitted", err)
			}
		})
		if got := exchange(t, h, ask("400")); got.status != 200 {
			t.Errorf("got status %d", got.status)
		}
	})
	t.Run("one decision", func(t *testing.T) {
		h, check := start(func(http.ResponseWriter, *http.Request, *core.Limiter, *core.Limiter) {})
		for i, c := range []struct {
			tokens string
			status int
			want   pair
		}{
			{"900", 200, pair{1, 900}}, {"200", 429, pair{1, 900}}, {"2000", 429, pair{1, 900}}, {"-5", 500, pair{1, 900}},
			{"0", 200, pair{2, 900}}, {"100", 200, pair{3, 1000}}, {"0", 429, pair{3, 1000}},
		} {
			if got := record(t, h, ask(c.tokens)); got.status != c.status {
				t.Errorf("request %d: got status %d, want %d", i, got.status, c.status)
			}
			check(t, c.want)
		}
	})
	t.Run("refund", func(t *testing.T) {
		h, check := start(func(w http.ResponseWriter, _ *http.Request, _, _ *core.Limiter) { w.WriteHeader(200) }, refundAll)
		exchange(t, h, ask("400"))
		check(t, pair{0, 0})
	})
	t.Run("outer gate", func(t *testing.T) {
		inner := s.start(setup{})
		var tokens *core.Limiter
		inner.Handler = s.build(inner.limiter, constant("k"), nil, func(_ http.ResponseWriter, r *http.Request) {
			if err := gate.SettleFor(r.Context(), tokens, 30); err != nil {
				t.Error(err)
			}
		})
		h, check := start(func(w http.ResponseWriter, r *http.Request, _, l *core.Limiter) {
			tokens = l
			inner.ServeHTTP(w, r)
		})
		exchange(t, h, ask("400"))
		check(t, pair{1, 30})
		inner.checkTaken(t, "k", 1)
	})
	t.Run("of an exhausted key", func(t *testing.T) { // it is charged early, at least 1
		store := memory()
		first := core.Must(core.New(store, core.SlidingLog("first", core.PerMinute(2))))
		last := core.Must(core.New(store, core.SlidingLog("last", core.PerMinute(100))))
		h := s.build(first, constant("k"), []gate.Option{costHeader("X-First"), gate.And(last, header("X-Key"), costs(10)), quiet}, says("ok"))
		for i, c := range []struct {
			first, key  string
			status      int
			taken, rest int
		}{
			{"1", "", 400, 1, 0}, {"1", "", 400, 2, 0}, {"1", "a", 429, 2, 0},
		} {
			r := request("GET", "/")
			r.Header.Set("X-First", c.first)
			r.Header.Set("X-Key", c.key)
			if got := record(t, h, r); got.status != c.status || taken(t, first, "k") != c.taken || taken(t, last, "a") != c.rest {
				t.Errorf("request %d: got status %d, counts %d and %d, want %+v", i, got.status, taken(t, first, "k"), taken(t, last, "a"), c)
			}
		}
		if _, err := first.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		r := request("GET", "/")
		r.Header.Set("X-First", "0")
		r.Header.Set("X-Key", "a")
		if got := record(t, h, r); got.status != 200 || taken(t, first, "k") != 0 || taken(t, last, "a") != 10 {
			t.Errorf("a cost of zero: got status %d, counts %d and %d, want 200, 0 and 10", got.status, taken(t, first, "k"), taken(t, last, "a"))
		}
	})
	t.Run("of an exhausted key, twice", func(t *testing.T) { // the larger cost counts
		l := core.Must(core.New(memory(), core.SlidingLog("r", core.PerMinute(9))))
		h := s.build(l, constant("k"), []gate.Option{costHeader("X-First"), gate.And(l, header("X-Key"), costs(7)), quiet}, says("ok"))
		r := request("GET", "/")
		r.Header.Set("X-First", "9")
		exchange(t, h, r) // exhausts k
		if _, err := l.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-First", "2")
		r.Header.Set("X-Key", "k")
		if got := record(t, h, r); got.status != 200 || taken(t, l, "k") != 7 {
			t.Errorf("got status %d and a count of %d, want 200 and 7", got.status, taken(t, l, "k"))
		}
	})
	t.Run("of an exhausted key, another key of the limiter", func(t *testing.T) { // it stays charged
		l := core.Must(core.New(memory(), core.SlidingLog("r", core.PerMinute(1))))
		h := s.build(l, constant("k"), []gate.Option{costHeader("X-First"), gate.And(l, header("X-Key"), costs(1)), quiet}, says("ok"))
		r := request("GET", "/")
		r.Header.Set("X-First", "1")
		exchange(t, h, r) // exhausts k
		if _, err := l.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-First", "0")
		r.Header.Set("X-Key", "a")
		if got := record(t, h, r); got.status != 200 || taken(t, l, "a") != 1 || taken(t, l, "k") != 0 {
			t.Errorf("got status %d and counts of %d and %d, want 200, 1 and 0", got.status, taken(t, l, "a"), taken(t, l, "k"))
		}
	})
}
