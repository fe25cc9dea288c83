package gatetest

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// A layer is one of several gates on a request.
type layer struct {
	rules  []core.Rule
	states states
	err    error
	opts   []gate.Option
}

func one(rule core.Rule, state core.State, opts ...gate.Option) layer {
	return layer{rules: []core.Rule{rule}, states: states{rule.Name(): state}, opts: opts}
}

// stack puts h behind layers, the outermost first.
func (s *suite) stack(layers []layer, h http.HandlerFunc) http.Handler {
	for _, l := range slices.Backward(layers) {
		store := &script{states: l.states, err: l.err}
		h = s.build(core.Must(core.New(store, l.rules...)), constant("k"), l.opts, h).ServeHTTP
	}
	return h
}

func (s *suite) testGates(t *testing.T) {
	global := core.SlidingLog("global", core.PerHour(1000))
	route := core.SlidingLog("route", core.PerMinute(10))
	wide := core.SlidingLog("same", core.PerHour(50))
	narrow := core.SlidingLog("same", core.PerMinute(5))
	const hour, minute = time.Hour, time.Minute
	for _, c := range []struct {
		name   string
		why    string
		layers []layer // outermost first
		status int
		policy string
		limit  string
		retry  string
		legacy string // X-RateLimit-Remaining
		inner  string // the rule of the decision that the handler sees
	}{{
		name:   "both allow",
		why:    "both policies are listed",
		layers: []layer{one(global, allowed(999, hour, 0)), one(route, allowed(9, minute, 0))},
		status: 200,
		policy: `"global";q=1000;w=3600, "route";q=10;w=60`,
		limit:  `"global";r=999;t=3600, "route";r=9;t=60`,
		inner:  "route",
	}, {
		name:   "both allow, other order",
		why:    "neither order loses anything",
		layers: []layer{one(route, allowed(9, minute, 0)), one(global, allowed(999, hour, 0))},
		status: 200,
		policy: `"route";q=10;w=60, "global";q=1000;w=3600`,
		limit:  `"route";r=9;t=60, "global";r=999;t=3600`,
		inner:  "global",
	}, {
		name:   "inner denies",
		why:    "the denial lists both, with the wait of the one that denied",
		layers: []layer{one(global, allowed(999, hour, 0)), one(route, denied(30*time.Second))},
		status: 429,
		policy: `"global";q=1000;w=3600, "route";q=10;w=60`,
		limit:  `"global";r=999;t=3600, "route";r=0;t=30`,
		retry:  "30",
	}, {
		name:   "inner denies, other order",
		why:    "the denial lists both, with the wait of the one that denied",
		layers: []layer{one(route, allowed(9, minute, 0)), one(global, denied(30*time.Minute))},
		status: 429,
		policy: `"route";q=10;w=60, "global";q=1000;w=3600`,
		limit:  `"route";r=9;t=60, "global";r=0;t=1800`,
		retry:  "1800",
	}, {
		name:   "outer denies",
		why:    "the inner gate is not asked",
		layers: []layer{one(global, denied(30*time.Second)), one(route, allowed(9, minute, 0))},
		status: 429,
		policy: `"global";q=1000;w=3600`,
		limit:  `"global";r=0;t=30`,
		retry:  "30",
	}, {
		name:   "one name, inner is stricter",
		why:    "a name is listed once, with less left",
		layers: []layer{one(wide, allowed(7, hour, 0)), one(narrow, allowed(3, minute, 0))},
		status: 200,
		policy: `"same";q=5;w=60`,
		limit:  `"same";r=3;t=60`,
		inner:  "same",
	}, {
		name:   "one name, outer is stricter",
		why:    "a name is listed once, with less left, and the policy that belongs to it",
		layers: []layer{one(wide, allowed(2, hour, 0)), one(narrow, allowed(3, minute, 0))},
		status: 200,
		policy: `"same";q=50;w=3600`,
		limit:  `"same";r=2;t=3600`,
		inner:  "same",
	}, {
		name:   "one name, equally left",
		why:    "of equal ones the longer is stricter",
		layers: []layer{one(wide, allowed(3, hour, 0)), one(narrow, allowed(3, minute, 0))},
		status: 200,
		policy: `"same";q=50;w=3600`,
		limit:  `"same";r=3;t=3600`,
		inner:  "same",
	}, {
		name: "names across several rules",
		why:  "only the rules of one name meet",
		layers: []layer{
			{rules: []core.Rule{global, wide}, states: states{"global": allowed(9, hour, 0), "same": allowed(4, hour, 0)}},
			{rules: []core.Rule{narrow, route}, states: states{"same": allowed(1, minute, 0), "route": allowed(2, minute, 0)}},
		},
		status: 200,
		policy: `"global";q=1000;w=3600, "same";q=5;w=60, "route";q=10;w=60`,
		limit:  `"global";r=9;t=3600, "same";r=1;t=60, "route";r=2;t=60`,
		inner:  "same",
	}, {
		name:   "outer without fields",
		why:    "a gate that sends no fields is not listed by others",
		layers: []layer{one(global, allowed(999, hour, 0), gate.Headers()), one(route, allowed(9, minute, 0))},
		status: 200,
		policy: `"route";q=10;w=60`,
		limit:  `"route";r=9;t=60`,
		inner:  "route",
	}, {
		name:   "inner without fields",
		why:    "a gate that sends no fields leaves those of others",
		layers: []layer{one(global, allowed(999, hour, 0)), one(route, denied(30*time.Second), gate.Headers())},
		status: 429,
		policy: `"global";q=1000;w=3600`,
		limit:  `"global";r=999;t=3600`,
		retry:  "30",
	}, {
		name: "three",
		why:  "every gate that sends fields is listed",
		layers: []layer{
			one(global, allowed(999, hour, 0)),
			one(daily, allowed(1, hour, 0), gate.Headers()),
			one(route, allowed(9, minute, 0)),
		},
		status: 200,
		policy: `"global";q=1000;w=3600, "route";q=10;w=60`,
		limit:  `"global";r=999;t=3600, "route";r=9;t=60`,
		inner:  "route",
	}, {
		name: "legacy",
		why:  "the legacy fields are about the rule nearest to exhaustion of all gates",
		layers: []layer{
			one(global, allowed(30, hour, 0), gate.Headers(gate.XRateLimit)),
			one(route, allowed(9, minute, 0), gate.Headers(gate.XRateLimit)),
		},
		status: 200,
		legacy: "30",
		inner:  "route",
	}, {
		name: "legacy outside only",
		why:  "what an outer gate tells stays true: an inner one adds to it",
		layers: []layer{
			one(global, allowed(999, hour, 0), gate.Headers(gate.XRateLimit)),
			one(route, denied(30*time.Second)),
		},
		status: 429,
		policy: `"route";q=10;w=60`,
		limit:  `"route";r=0;t=30`,
		legacy: "0",
		retry:  "30",
	}, {
		name: "inner store fails",
		why:  "what the outer gate says stays",
		layers: []layer{
			one(global, allowed(999, hour, 0)),
			{rules: []core.Rule{route}, err: errSecret, opts: []gate.Option{quiet}},
		},
		status: 200,
		policy: `"global";q=1000;w=3600`,
		limit:  `"global";r=999;t=3600`,
		inner:  "global",
	}, {
		name: "outer store fails",
		why:  "the inner gate speaks for itself",
		layers: []layer{
			{rules: []core.Rule{global}, err: errSecret, opts: []gate.Option{quiet}},
			one(route, allowed(9, minute, 0)),
		},
		status: 200,
		policy: `"route";q=10;w=60`,
		limit:  `"route";r=9;t=60`,
		inner:  "route",
	}} {
		t.Run(c.name, func(t *testing.T) {
			p := new(probe)
			var all, decided []string
			for _, l := range c.layers {
				if l.err == nil && c.inner != "" {
					decided = append(decided, l.rules[0].Name())
				}
			}
			got := record(t, s.stack(c.layers, func(w http.ResponseWriter, r *http.Request) {
				for _, d := range gate.DecisionsFrom(r.Context()) {
					all = append(all, d.State(0).Rule.Name())
				}
				p.ServeHTTP(w, r)
			}), request("GET", "/"))
			if !slices.Equal(all, decided) {
				t.Errorf("the handler sees the decisions %v, want %v", all, decided)
			}
			for field, want := range map[string]string{
				"RateLimit-Policy": c.policy, "RateLimit": c.limit, "Retry-After": c.retry, "X-RateLimit-Remaining": c.legacy,
			} {
				if v := got.header.Get(field); v != want {
					t.Errorf("%s is %s\n\twant %s: %s", field, v, want, c.why)
				}
			}
			if got.status != c.status {
				t.Errorf("status is %d, want %d", got.status, c.status)
			}
			d, ok := p.saw()
			switch {
			case c.inner == "" && p.ran() > 0:
				t.Error("the handler ran")
			case c.inner != "" && (!ok || d.State(0).Rule.Name() != c.inner):
				t.Errorf("the handler sees %+v, %v; want the decision about %q, of the innermost gate", d, ok, c.inner)
			}
		})
	}
}
