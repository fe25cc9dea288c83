package gate_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// planned has a limit for each of several plans.
var planned = core.SlidingLog("api", core.PerMinute(3)).
	Plan("pro", core.PerMinute(5)).
	Plan("staff", core.Unlimited).
	Plan("banned", core.Blocked)

func TestPlan(t *testing.T) {
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
			a := start(setup{
				Rules: []core.Rule{planned, daily},
				Opts:  []gate.Option{gate.Plan(c.plan), quiet, gate.Headers(gate.IETFDraft, gate.XRateLimit)},
			})
			got := record(t, a, request("GET", "/"))
			if policies := got.Header.Get("RateLimit-Policy"); got.Status != c.status || policies != c.policies {
				t.Errorf("got %d, RateLimit-Policy %s, want %d, %s", got.Status, policies, c.status, c.policies)
			}
			if legacy := got.Header.Get("X-RateLimit-Limit"); legacy != c.legacy {
				t.Errorf("got X-RateLimit-Limit %s, want %s", legacy, c.legacy)
			}
			if c.status == 429 {
				if limit := got.Header.Get("RateLimit"); limit != `"api";r=0` || got.Header.Get("Retry-After") != "" || got.Header.Get("X-RateLimit-Reset") != "" || a.Store.Calls() != 0 {
					t.Errorf("got RateLimit %s, header %v and %d calls of the Store, want no time and no call", limit, got.Header, a.Store.Calls())
				}
				if want := `"detail":"Policy \"api\" allows no requests."`; !strings.Contains(got.Body, want) {
					t.Errorf("got the body %s, want %s", got.Body, want)
				}
			}
		})
	}
	t.Run("one state", func(t *testing.T) {
		a := start(setup{Rules: []core.Rule{planned}, Opts: []gate.Option{gate.Plan(header("X-Plan"))}})
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
			if got := record(t, a, with("X-Plan", c.plan)); got.Status != c.status || got.Header.Get("RateLimit") != c.limit {
				t.Errorf("request %d, plan %q: got %d, %s, want %d, %s", i, c.plan, got.Status, got.Header.Get("RateLimit"), c.status, c.limit)
			}
		}
	})
	t.Run("of one limiter", func(t *testing.T) {
		a := start(setup{Opts: []gate.Option{gate.Plan(constant("pro"))}})
		other := core.Must(core.New(a.Store, planned))
		a = start(setup{Limiter: a.Limiter, Store: a.Store, Opts: []gate.Option{
			gate.Plan(constant("pro")), gate.And(other, constant("a")), gate.And(other, constant("b"), gate.Plan(constant("staff"))),
		}})
		if got := a.Get(t); got.Header.Get("RateLimit-Policy") != `"hundred";q=100;w=3600, "api";q=5;w=60` {
			t.Errorf("got %s", got.Header.Get("RateLimit-Policy"))
		}
		a.CheckRan(t, 1)
	})
	t.Run("labels", func(t *testing.T) {
		a := start(setup{Rules: []core.Rule{core.NewRule(core.Spec{
			Name: "api.minute", Label: "minute", Algorithm: core.AlgorithmSlidingLog, Limit: core.PerMinute(2), Plans: []core.Plan{{Name: "pro", Limit: core.PerMinute(1)}},
		})}})
		other := core.Must(core.New(a.Store, core.NewRule(core.Spec{Name: "login.minute", Label: "minute", Algorithm: core.AlgorithmSlidingLog, Limit: core.PerMinute(9)})))
		a = start(setup{Limiter: a.Limiter, Store: a.Store, Opts: []gate.Option{gate.Plan(header("X-Plan")), gate.And(other, constant("a"))}})
		for i, c := range []struct {
			plan, policy, limit string
			status              int
		}{
			{"", `"minute";q=2;w=60`, `"minute";r=1;t=60`, 200},
			{"pro", `"minute";q=1;w=60`, `"minute";r=0;t=60`, 429},
		} {
			got := record(t, a, with("X-Plan", c.plan))
			if policy, limit := got.Header.Get("RateLimit-Policy"), got.Header.Get("RateLimit"); got.Status != c.status || policy != c.policy || limit != c.limit {
				t.Errorf("request %d: got %d, %s, %s, want %+v", i, got.Status, policy, limit, c)
			}
			if want := `"detail":"Policy \"minute\" allows 1 request per 60 s. Retry in 60 s.","instance":"/v1/orders","violated-policies":["minute"]`; c.status == 429 && !strings.Contains(got.Body, want) {
				t.Errorf("got the body %s, want %s", got.Body, want)
			}
		}
	})
	t.Run("without plans", func(t *testing.T) { // verifications of tokens would escape the limit of the address
		calls := 0
		a := start(setup{})
		other := core.Must(core.New(a.Store, planned))
		a = start(setup{Limiter: a.Limiter, Store: a.Store, Opts: []gate.Option{
			gate.And(other, constant("a")), gate.Plan(func(context.Context, *http.Request) (string, error) { calls++; return "pro", nil }),
		}})
		if a.Gets(t, 200); calls != 1 {
			t.Errorf("the function of Plan was called %d times, want once: for the limiter with plans", calls)
		}
	})
	t.Run("replaced", func(t *testing.T) {
		a := start(setup{Rules: []core.Rule{planned}})
		for _, c := range []struct {
			limit core.Limit
			want  string
		}{
			{core.PerMinute(3), `"api";q=3;w=60`}, {core.PerMinute(20), `"api";q=20;w=60`}, {core.PerHour(1), `"api";q=1;w=3600`},
		} {
			if err := a.Limiter.Replace(core.SlidingLog("api", c.limit)); err != nil {
				t.Fatal(err)
			}
			if got := a.Get(t); got.Header.Get("RateLimit-Policy") != c.want {
				t.Errorf("got %s, want %s", got.Header.Get("RateLimit-Policy"), c.want)
			}
		}
	})
	t.Run("undecidable", func(t *testing.T) { // a client may cause it by its key
		l := start(setup{Rules: []core.Rule{planned}}).Limiter
		for name, a := range map[string]setup{
			"two plans of one key": {Limiter: l, Opts: []gate.Option{gate.And(l, constant("k"), gate.Plan(constant("pro")))}},
			"the same, FailClosed": {Limiter: l, Opts: []gate.Option{gate.And(l, constant("k"), gate.Plan(constant("pro"))), gate.FailClosed()}},
			"Choose fails":         {Limiter: l.Choose(func(context.Context, string) (*core.Limiter, error) { return nil, errSecret })},
			"Choose is wrong":      {Limiter: l.Choose(func(context.Context, string) (*core.Limiter, error) { return new(core.Limiter), nil })},
		} {
			a.Key, a.Opts = constant("k"), append(a.Opts, quiet)
			app := start(a)
			if got := app.Get(t); got.Status != 500 || strings.Contains(got.Body, errSecret.Error()) {
				t.Errorf("%s: got %d, %s, want 500", name, got.Status, got.Body)
			}
			app.CheckRan(t, 0)
		}
	})
	t.Run("blocked behind another gate", func(t *testing.T) {
		got := record(t, stack([]layer{
			one(hundred, allowed(99, time.Hour, 0), gate.Headers(gate.IETFDraft, gate.XRateLimit)), {rules: []core.Rule{core.SlidingLog("no", core.Blocked)}},
		}, says("ok")), request("GET", "/"))
		if reset, ok := got.Header["X-Ratelimit-Reset"]; got.Status != 429 || got.Header.Get("X-RateLimit-Limit") != "0" || ok {
			t.Errorf("got %d, X-RateLimit-Limit %s, X-RateLimit-Reset %s, want 429, 0 and no time", got.Status, got.Header.Get("X-RateLimit-Limit"), reset)
		}
	})
}

func TestSkip(t *testing.T) {
	preflight := func() *http.Request { return request("OPTIONS", "/v1/orders") }
	isPreflight := func(_ context.Context, r *http.Request) bool { return r.Method == http.MethodOptions }
	table(t, []row{{
		name: "skipped: needs no key and gets no field",
		opts: []gate.Option{gate.Skip(isPreflight), gate.ExposeHeaders()}, key: noKey(keyfunc.ErrNoKey), req: preflight, noStore: true,
		header: map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Access-Control-Expose-Headers": ""},
	}, {
		name: "not skipped: Skip is called for every request", opts: []gate.Option{gate.Skip(isPreflight)}, status: 429,
	}, {
		name: "exempt: needs no key and gets no field",
		opts: []gate.Option{gate.Exempt(constant("10.1.2.3"), "192.0.2.1", "10.0.0.0/8"), gate.ExposeHeaders()}, key: noKey(keyfunc.ErrNoKey),
		noStore: true, header: map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Access-Control-Expose-Headers": ""},
	}, {
		name: "exempt by the address of the peer", opts: []gate.Option{gate.Exempt(keyfunc.RemoteIP(), "127.0.0.1", "192.0.2.1")}, noStore: true,
	}, {
		name: "exempt, a whole prefix", opts: []gate.Option{gate.Exempt(constant("2001:db8:1:2::/64"), "2001:db8::/32")}, noStore: true,
	}, {
		name: "not exempt, another address", opts: []gate.Option{gate.Exempt(constant("11.1.2.3"), "10.0.0.0/8")}, status: 429,
	}, {
		name: "not exempt, a part of a prefix", opts: []gate.Option{gate.Exempt(constant("2001:db8:1:2::/64"), "2001:db8:1:2::/65")}, status: 429,
	}, {
		name: "not exempt, no address", opts: []gate.Option{gate.Exempt(constant("user:10.1.2.3"), "0.0.0.0/0", "::/0")}, status: 429,
	}, {
		name: "not exempt, an error", opts: []gate.Option{gate.Exempt(addressAndError, "10.0.0.0/8")}, status: 429,
	}, {
		name: "skipped and not exempt",
		opts: []gate.Option{gate.Skip(isPreflight), gate.Exempt(constant("11.1.2.3"), "10.0.0.0/8")}, req: preflight, noStore: true,
	}, {
		name: "exempt and not skipped", opts: []gate.Option{gate.Exempt(constant("10.1.2.3"), "10.0.0.0/8"), gate.Skip(isPreflight)}, noStore: true,
	}})
}

// addressAndError is a key function that returns an address beside an error.
func addressAndError(context.Context, *http.Request) (string, error) {
	return "10.1.2.3", keyfunc.ErrNoKey
}
