package gate_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/nethttplimit"
)

// The header fields and documents about places have no time, because a place ends by an event.
func TestInFlight_Fields(t *testing.T) {
	const (
		policy = `"exports";q=5;qu="concurrent-requests"`
		none   = `Policy \"exports\" allows 5 requests at the same time.`
	)
	five, tokens := exports(5), core.InFlight("tokens", 90_000).ByCost().Unit("tokens")
	const tooMuch = `Policy \"tokens\" allows 90000 tokens at the same time. This request costs more than the policy ever allows.`
	full := states{"exports": denied(7 * time.Second)} // an estimate
	both := []core.Rule{five, burst}
	legacy := []gate.Option{gate.Headers(gate.XRateLimit)}
	stale := func(h http.Header) { h.Set("Retry-After", "5"); h.Set("X-RateLimit-Reset", "5") }
	table(t, []row{{
		name: "allowed: no w and no t", rules: []core.Rule{five}, states: states{"exports": allowed(4, 0, 7*time.Second)},
		header: map[string]string{"RateLimit-Policy": policy, "RateLimit": `"exports";r=4`, "Retry-After": ""},
	}, {
		name: "the last place: no t", rules: []core.Rule{five}, states: states{"exports": allowed(0, 0, 7*time.Second)},
		header: map[string]string{"RateLimit-Policy": policy, "RateLimit": `"exports";r=0`, "Retry-After": ""},
	}, {
		name: "denied: no t and no Retry-After", rules: []core.Rule{five}, states: full, status: 429, before: stale,
		header: map[string]string{"RateLimit-Policy": policy, "RateLimit": `"exports";r=0`, "Retry-After": ""},
		body:   document(none, `"exports"`),
	}, {
		name: "denied, beside an unknown rule", rules: both, states: states{"exports": denied(7 * time.Second), "burst": {Allowed: true, Unknown: true}}, status: 429,
		header: map[string]string{"RateLimit": `"exports";r=0`, "Retry-After": ""},
		body:   document(none, `"exports"`),
	}, {
		name: "denied, text", rules: []core.Rule{five}, states: full, status: 429, req: accept("text/plain"), text: true,
		header: map[string]string{"RateLimit": `"exports";r=0`, "Retry-After": ""},
		body:   "Policy \"exports\" allows 5 requests at the same time.\n",
	}, {
		name: "denied, another status", rules: []core.Rule{five}, states: full, status: 403, before: stale,
		opts:   []gate.Option{gate.DeniedStatus(func(core.Decision) int { return 403 }), gate.Headers()},
		header: map[string]string{"Retry-After": "", "RateLimit": ""},
		body:   apptest.Problem(403, "Forbidden", none, `"exports"`),
	}, {
		name: "denied, beside a rate that admits", rules: both, states: states{"exports": denied(7 * time.Second), "burst": allowed(3, time.Minute, 0)}, status: 429,
		header: map[string]string{"RateLimit-Policy": policy + `, "burst";q=100;w=60`, "RateLimit": `"exports";r=0, "burst";r=3;t=60`, "Retry-After": ""},
		body:   document(none, `"exports"`),
	}, {
		name: "denied by a rate: its Retry-After, however short", rules: both, states: states{"exports": allowed(2, 0, 0), "burst": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"RateLimit": `"exports";r=2, "burst";r=0;t=12`, "Retry-After": "12"},
		body:   document(retry12, `"burst"`),
	}, {
		name: "denied by both: Retry-After and the text are those of the rate", rules: both, states: states{"exports": denied(time.Hour), "burst": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"RateLimit": `"exports";r=0, "burst";r=0;t=12`, "Retry-After": "12"},
		body:   document(retry12, `"exports","burst"`),
	}, {
		name: "denied by both, the rate first", rules: []core.Rule{burst, five}, states: states{"exports": denied(time.Hour), "burst": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"RateLimit": `"burst";r=0;t=12, "exports";r=0`, "Retry-After": "12"},
		body:   document(retry12, `"burst","exports"`),
	}, {
		name: "denied by a rate for ever: no Retry-After", rules: both, states: states{"exports": denied(time.Hour), "burst": denied(core.Never)}, status: 429,
		header: map[string]string{"RateLimit": `"exports";r=0, "burst";r=0`, "Retry-After": ""},
		body:   document(`Policy \"burst\" allows 100 requests per 60 s. This request costs more than the policy ever allows.`, `"exports","burst"`),
	}, {
		name: "a shadow that denies changes nothing", rules: []core.Rule{five, burst.Shadow()}, states: states{"exports": denied(time.Hour), "burst": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"RateLimit-Policy": policy, "RateLimit": `"exports";r=0`, "Retry-After": ""},
		body:   document(none, `"exports"`),
	}, {
		name: "one place", rules: []core.Rule{exports(1)}, states: full, status: 429,
		body: document(`Policy \"exports\" allows 1 request at a time.`, `"exports"`),
	}, {
		name: "a unit", rules: []core.Rule{five.Unit("jobs")}, states: full, status: 429,
		header: map[string]string{"RateLimit-Policy": policy},
		body:   document(`Policy \"exports\" allows 5 jobs at the same time.`, `"exports"`),
	}, {
		name: "a unit, one place", rules: []core.Rule{exports(1).Unit("jobs")}, states: full, status: 429,
		body: document(`Policy \"exports\" allows 1 at a time (jobs).`, `"exports"`),
	}, {
		name: "by cost: the unit is none of the draft", rules: []core.Rule{tokens}, states: states{"tokens": allowed(60_000, 0, 7*time.Second)},
		header: map[string]string{"RateLimit-Policy": `"tokens";q=90000`, "RateLimit": `"tokens";r=60000`, "Retry-After": ""},
	}, {
		name: "by cost of requests", rules: []core.Rule{five.ByCost()}, states: states{"exports": allowed(2, 0, 7*time.Second)},
		header: map[string]string{"RateLimit-Policy": policy, "RateLimit": `"exports";r=2`},
	}, {
		name: "by cost of requests, by name", rules: []core.Rule{five.ByCost().Unit("requests")}, states: states{"exports": allowed(2, 0, 7*time.Second)},
		header: map[string]string{"RateLimit-Policy": policy},
	}, {
		name: "by cost of bytes", rules: []core.Rule{five.ByCost().Unit("bytes")}, states: states{"exports": allowed(2, 0, 7*time.Second)},
		header: map[string]string{"RateLimit-Policy": `"exports";q=5;qu="content-bytes"`},
	}, {
		name: "a plan by cost", rules: []core.Rule{tokens.Plan("pro", core.Limit{Events: 1_000_000})}, states: states{"tokens": allowed(7, 0, 0)},
		opts:   []gate.Option{gate.Plan(func(context.Context, *http.Request) (string, error) { return "pro", nil })},
		header: map[string]string{"RateLimit-Policy": `"tokens";q=1000000`, "RateLimit": `"tokens";r=7`},
	}, {
		name: "denied by cost: some places are left", rules: []core.Rule{tokens},
		states: states{"tokens": core.State{Remaining: 60_000, RetryAfter: 7 * time.Second, ResetAfter: 9 * time.Second}}, status: 429, before: stale,
		header: map[string]string{"RateLimit-Policy": `"tokens";q=90000`, "RateLimit": `"tokens";r=60000`, "Retry-After": ""},
		body:   document(`Policy \"tokens\" allows 90000 tokens at the same time.`, `"tokens"`),
	}, {
		name: "denied by cost for ever", rules: []core.Rule{tokens}, states: states{"tokens": denied(core.Never)}, status: 429, before: stale,
		header: map[string]string{"RateLimit": `"tokens";r=0`, "Retry-After": ""},
		body:   document(tooMuch, `"tokens"`),
	}, {
		name: "denied by cost for ever, with another status", rules: []core.Rule{tokens}, states: states{"tokens": denied(core.Never)}, status: 413,
		opts: []gate.Option{gate.DeniedStatus(func(d core.Decision) int {
			if d.RetryAfter == core.Never && !d.Blocked() {
				return 413
			}
			return 429
		})},
		body: apptest.Problem(413, "Request Entity Too Large", tooMuch, `"tokens"`),
	}, {
		name: "denied by cost for ever, and by a rate: no Retry-After", rules: []core.Rule{tokens, burst}, states: states{"tokens": denied(core.Never), "burst": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"RateLimit": `"tokens";r=0, "burst";r=0;t=12`, "Retry-After": ""},
		body:   document(tooMuch, `"tokens","burst"`),
	}, {
		name: "denied by cost for ever, and by other places", rules: []core.Rule{five, tokens}, states: states{"exports": denied(time.Hour), "tokens": denied(core.Never)}, status: 429,
		header: map[string]string{"RateLimit": `"exports";r=0, "tokens";r=0`, "Retry-After": ""},
		body:   document(tooMuch, `"exports","tokens"`),
	}, {
		name: "denied by cost and by a rate: Retry-After and the text are those of the rate", rules: []core.Rule{tokens, burst}, states: states{"tokens": denied(time.Hour), "burst": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"Retry-After": "12"},
		body:   document(retry12, `"tokens","burst"`),
	}, {
		name: "legacy: no Reset", rules: []core.Rule{five}, states: full, opts: legacy, status: 429, before: stale,
		header: map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "", "Retry-After": ""},
	}, {
		name: "legacy, beside a rate with more left: the rate", rules: both, states: states{"exports": allowed(1, 0, 0), "burst": allowed(99, time.Minute, time.Minute)}, opts: legacy,
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "99"},
	}, {
		name: "legacy, denied by places: the rate", rules: both, states: states{"exports": denied(time.Hour), "burst": allowed(99, time.Minute, time.Minute)}, opts: legacy, status: 429,
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "99", "Retry-After": ""},
	}, {
		name: "legacy, the places are named", rules: both, states: states{"exports": allowed(4, 0, 0), "burst": allowed(3, time.Minute, time.Minute)},
		opts:   append(legacy, gate.XRateLimitRule("exports")),
		header: map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": ""},
	}, {
		name: "legacy, two rules of places: the one with the smaller part left", rules: []core.Rule{five, core.InFlight("imports", 10)},
		states: states{"exports": allowed(4, 0, 0), "imports": allowed(1, 0, 0)}, opts: legacy,
		header: map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": ""},
	}, {
		name: "OnDenied sets a Retry-After", rules: []core.Rule{five}, states: full, status: 429, opts: []gate.Option{
			nethttplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
				if s, ok := gate.RetryAfter(d); ok {
					t.Errorf("RetryAfter returns %d, want none", s)
				}
				w.Header().Set("Retry-After", "3")
				w.Header().Set("Content-Type", gate.ProblemMediaType)
				w.Header().Set("X-Content-Type-Options", "nosniff")
				w.WriteHeader(429)
			}),
		},
		header: map[string]string{"Retry-After": "3", "RateLimit": `"exports";r=0`},
	}})
}

// The names of two gates with one rule are listed once, with the fewer places.
func TestInFlight_FieldsOfGates(t *testing.T) {
	a := start(setup{Rules: []core.Rule{exports(5)}})
	b := start(setup{Limiter: a.Limiter, Handler: a.ServeHTTP})
	got := b.Get(t)
	if policy, left := got.Header.Get("RateLimit-Policy"), got.Header.Get("RateLimit"); policy != `"exports";q=5;qu="concurrent-requests"` || left != `"exports";r=3` {
		t.Errorf("got %s and %s, want one member with 3 places left", policy, left)
	}
}

// The estimate of a denial by places is no Retry-After; that of another rule is.
func TestRetryAfter_InFlight(t *testing.T) {
	for name, c := range map[string]struct {
		states  states
		seconds int64
		ok      bool
	}{
		"places":            {states{"exports": denied(time.Hour), "burst": allowed(1, 0, 0)}, 0, false},
		"a rate":            {states{"exports": allowed(1, 0, 0), "burst": denied(1500 * time.Millisecond)}, 2, true},
		"both":              {states{"exports": denied(time.Hour), "burst": denied(1500 * time.Millisecond)}, 2, true},
		"by cost, for ever": {states{"exports": denied(core.Never), "burst": allowed(1, 0, 0)}, 0, false},
		"by cost, and both": {states{"exports": denied(core.Never), "burst": denied(1500 * time.Millisecond)}, 0, false},
		"for ever":          {states{"exports": denied(time.Hour), "burst": denied(core.Never)}, 0, false},
	} {
		var got core.Decision
		a := start(setup{Rules: []core.Rule{exports(5), burst}, States: c.states, Opts: []gate.Option{
			gate.OnDecision(func(_ context.Context, e gate.Event) { got = e.Decision }),
		}})
		a.Gets(t, 429)
		if s, ok := gate.RetryAfter(got); s != c.seconds || ok != c.ok {
			t.Errorf("%s: got %d, %v, want %d, %v", name, s, ok, c.seconds, c.ok)
		}
	}
}
