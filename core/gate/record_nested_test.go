package gate_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
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

// fails returns a layer that lets requests through because its Store fails.
func fails(rule core.Rule, opts ...gate.Option) layer {
	return layer{rules: []core.Rule{rule}, err: errSecret, opts: append(opts, quiet)}
}

// stack puts h behind the gates of layers, the outermost first.
func stack(layers []layer, h http.HandlerFunc) http.Handler {
	for _, l := range slices.Backward(layers) {
		limiter := core.Must(core.New(apptest.Scripted(l.states, l.err), l.rules...))
		h = build(limiter, constant("k"), l.opts, h).ServeHTTP
	}
	return h
}

func TestNested(t *testing.T) {
	global := core.SlidingLog("global", core.PerHour(1000))
	route := core.SlidingLog("route", core.PerMinute(10))
	wide := core.SlidingLog("same", core.PerHour(50))
	narrow := core.SlidingLog("same", core.PerMinute(5))
	const hour, minute = time.Hour, time.Minute
	for _, c := range []struct {
		name   string
		layers []layer // outermost first
		policy string
		limit  string
		retry  string
		legacy string // X-RateLimit-Remaining
		inner  string // the rule of the decision that the handler sees; denied if empty
	}{{
		name:   "both allow: both policies are listed",
		layers: []layer{one(global, allowed(999, hour, 0)), one(route, allowed(9, minute, 0))}, policy: `"global";q=1000;w=3600, "route";q=10;w=60`,
		limit: `"global";r=999;t=3600, "route";r=9;t=60`, inner: "route",
	}, {
		name:   "inner denies: the denial lists both, with the wait of the one that denied",
		layers: []layer{one(global, allowed(999, hour, 0)), one(route, denied(30*time.Second))}, policy: `"global";q=1000;w=3600, "route";q=10;w=60`,
		limit: `"global";r=999;t=3600, "route";r=0;t=30`, retry: "30",
	}, {
		name:   "outer denies: the inner gate does not decide",
		layers: []layer{one(global, denied(30*time.Second)), one(route, allowed(9, minute, 0))}, policy: `"global";q=1000;w=3600`,
		limit: `"global";r=0;t=30`, retry: "30",
	}, {
		name:   "one name, inner is stricter: the inner rule is listed",
		layers: []layer{one(wide, allowed(7, hour, 0)), one(narrow, allowed(3, minute, 0))}, policy: `"same";q=5;w=60`, limit: `"same";r=3;t=60`,
		inner: "same",
	}, {
		name:   "one name, outer is stricter: the outer rule is listed, with its policy",
		layers: []layer{one(wide, allowed(2, hour, 0)), one(narrow, allowed(3, minute, 0))}, policy: `"same";q=50;w=3600`, limit: `"same";r=2;t=3600`,
		inner: "same",
	}, {
		name:   "one name, equal remaining: the longer window is stricter",
		layers: []layer{one(wide, allowed(3, hour, 0)), one(narrow, allowed(3, minute, 0))}, policy: `"same";q=50;w=3600`, limit: `"same";r=3;t=3600`,
		inner: "same",
	}, {
		name: "names across several rules: only rules with the same name are merged",
		layers: []layer{
			{rules: []core.Rule{global, wide}, states: states{"global": allowed(9, hour, 0), "same": allowed(4, hour, 0)}},
			{rules: []core.Rule{narrow, route}, states: states{"same": allowed(1, minute, 0), "route": allowed(2, minute, 0)}},
		},
		policy: `"global";q=1000;w=3600, "same";q=5;w=60, "route";q=10;w=60`, limit: `"global";r=9;t=3600, "same";r=1;t=60, "route";r=2;t=60`,
		inner: "same",
	}, {
		name:   "outer without fields: the inner gate follows it",
		layers: []layer{one(global, allowed(999, hour, 0), gate.Headers()), one(route, denied(30*time.Second))}, retry: "30",
	}, {
		name:   "outer without fields, inner with: the rules of a gate without fields are not listed",
		layers: []layer{one(global, allowed(999, hour, 0), gate.Headers()), one(route, allowed(9, minute, 0), gate.Headers(gate.IETFDraft))}, policy: `"route";q=10;w=60`,
		limit: `"route";r=9;t=60`, inner: "route",
	}, {
		name:   "inner without fields: the fields of the outer gate stay",
		layers: []layer{one(global, allowed(999, hour, 0)), one(route, denied(30*time.Second), gate.Headers())}, policy: `"global";q=1000;w=3600`,
		limit: `"global";r=999;t=3600`, retry: "30",
	}, {
		name: "three: the rules of every gate with fields are listed",
		layers: []layer{
			one(global, allowed(999, hour, 0)),
			one(daily, allowed(1, hour, 0), gate.Headers()),
			one(route, allowed(9, minute, 0), gate.Headers(gate.IETFDraft)),
		},
		policy: `"global";q=1000;w=3600, "route";q=10;w=60`, limit: `"global";r=999;t=3600, "route";r=9;t=60`, inner: "route",
	}, {
		name: "legacy: the legacy fields describe the rule of all gates that is nearest to exhaustion",
		layers: []layer{
			one(global, allowed(30, hour, 0), gate.Headers(gate.XRateLimit)),
			one(route, allowed(9, minute, 0), gate.Headers(gate.XRateLimit)),
		},
		legacy: "30", inner: "route",
	}, {
		name: "legacy outside only: an inner gate updates the fields of the outer gate",
		layers: []layer{
			one(global, allowed(999, hour, 0), gate.Headers(gate.XRateLimit)),
			one(route, denied(30*time.Second)),
		},
		legacy: "0", retry: "30",
	}, {
		name: "both versions: only the inner rule has the field that the inner gate adds",
		layers: []layer{
			one(global, allowed(999, hour, 0), gate.Headers(gate.XRateLimit)),
			one(route, denied(30*time.Second), gate.Headers(gate.XRateLimit, gate.IETFDraft)),
		},
		policy: `"route";q=10;w=60`, limit: `"route";r=0;t=30`, legacy: "0", retry: "30",
	}, {
		name: "store between fails: the innermost gate updates the fields of the outermost",
		layers: []layer{
			one(global, allowed(999, hour, 0), gate.Headers(gate.XRateLimit)), fails(route), one(daily, allowed(5, hour, 0)),
		},
		legacy: "5", inner: "daily",
	}, {
		name:   "outer store fails: the inner gate sends the fields that the outer one has chosen",
		layers: []layer{fails(global, gate.Headers(gate.XRateLimit)), one(route, allowed(9, minute, 0))}, legacy: "9", inner: "route",
	}, {
		name:   "outer skips: the inner gate sends the fields that the outer one has chosen",
		layers: []layer{{rules: []core.Rule{global}, err: errSecret, opts: []gate.Option{skipped, gate.Headers(gate.XRateLimit)}}, one(route, allowed(9, minute, 0))}, legacy: "9", inner: "route",
	}, {
		name:   "inner store fails: the fields of the outer gate stay",
		layers: []layer{one(global, allowed(999, hour, 0)), fails(route)}, policy: `"global";q=1000;w=3600`, limit: `"global";r=999;t=3600`,
		inner: "global",
	}, {
		name:   "outer store fails: the fields describe the inner gate",
		layers: []layer{fails(global), one(route, allowed(9, minute, 0))}, policy: `"route";q=10;w=60`, limit: `"route";r=9;t=60`, inner: "route",
	}} {
		t.Run(c.name, func(t *testing.T) {
			var a application
			var all, decided []string
			for _, l := range c.layers {
				if l.err == nil && c.inner != "" {
					decided = append(decided, l.rules[0].Name())
				}
			}
			h := stack(c.layers, a.Counting(func(_ http.ResponseWriter, r *http.Request) {
				for _, d := range gate.DecisionsFrom(r.Context()) {
					all = append(all, d.State(0).Rule.Name())
				}
			}))
			got := record(t, h, request("GET", "/"))
			if !slices.Equal(all, decided) {
				t.Errorf("the handler sees the decisions %v, want %v", all, decided)
			}
			for field, want := range map[string]string{
				"RateLimit-Policy": c.policy, "RateLimit": c.limit, "Retry-After": c.retry, "X-RateLimit-Remaining": c.legacy,
			} {
				if v := got.Header.Get(field); v != want {
					t.Errorf("%s is %s\n\twant %s", field, v, want)
				}
			}
			status, runs := http.StatusOK, 1
			if c.inner == "" {
				status, runs = http.StatusTooManyRequests, 0
			}
			if got.Status != status {
				t.Errorf("status is %d, want %d", got.Status, status)
			}
			a.CheckRan(t, runs)
			if d, ok := a.Saw(); c.inner != "" && (!ok || d.State(0).Rule.Name() != c.inner) {
				t.Errorf("the handler sees %+v, %v; want the decision about %q, of the innermost gate", d, ok, c.inner)
			}
		})
	}
}

func TestNested_ExposedFields(t *testing.T) {
	got := record(t, stack([]layer{
		one(hundred, allowed(99, time.Hour, 0), gate.Headers(gate.XRateLimit)),
		one(hundred, allowed(99, time.Hour, 0), gate.ExposeHeaders()),
	}, says("ok")), request("GET", "/")).Header.Get("Access-Control-Expose-Headers")
	const want = "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
