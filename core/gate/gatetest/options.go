package gatetest

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

func (s *suite) testOptions(t *testing.T) {
	const allFields = "RateLimit, RateLimit-Policy, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
	preflight := func() *http.Request { return request("OPTIONS", "/v1/orders") }
	isPreflight := func(r *http.Request) bool { return r.Method == http.MethodOptions }
	s.table(t, []row{{
		name:   "no headers, allowed",
		why:    "Headers() sends no field at all",
		opts:   []gate.Option{gate.Headers()},
		header: map[string]string{"RateLimit-Policy": "", "RateLimit": "", "X-RateLimit-Limit": "", "Retry-After": ""},
	}, {
		name:   "no headers, denied",
		why:    "Retry-After is sent with a denial in any case",
		opts:   []gate.Option{gate.Headers()},
		states: states{"burst": denied(12 * time.Second)},
		status: 429,
		header: map[string]string{"RateLimit-Policy": "", "RateLimit": "", "X-RateLimit-Limit": "", "Retry-After": "12"},
		body:   document(retry12, `"burst"`),
	}, {
		name:   "legacy headers",
		why:    "the legacy fields are about the rule nearest to exhaustion, by its share",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit)},
		rules:  []core.Rule{burst, daily},
		states: states{"burst": allowed(50, 0, 0), "daily": allowed(60, 0, 0)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "60", "RateLimit": "", "RateLimit-Policy": ""},
	}, {
		name:   "legacy headers, the other way round",
		why:    "the order of the rules is of no importance",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit)},
		rules:  []core.Rule{daily, burst},
		states: states{"burst": allowed(50, 0, 0), "daily": allowed(60, 0, 0)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "60"},
	}, {
		name:   "legacy headers, both exhausted",
		why:    "of two with the same share left it is the one that takes longer",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit)},
		rules:  []core.Rule{burst, daily},
		states: states{"burst": allowed(0, 0, time.Minute), "daily": allowed(0, 0, time.Hour)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "0"},
	}, {
		name:   "legacy headers, denied",
		why:    "a denial has them too",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit)},
		rules:  []core.Rule{burst, daily},
		states: states{"burst": denied(12 * time.Second), "daily": allowed(840, 0, 0)},
		status: 429,
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0", "Retry-After": "12"},
	}, {
		name:   "both versions",
		why:    "versions can be sent together",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit, gate.IETFDraft)},
		states: states{"burst": allowed(3, 12*time.Second, 0)},
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "3", "RateLimit": `"burst";r=3;t=12`},
	}, {
		name:   "the later of two Headers",
		why:    "of two options that set the same thing the later counts",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit), gate.Headers()},
		header: map[string]string{"X-RateLimit-Limit": "", "RateLimit": ""},
	}, {
		name:   "exposed",
		why:    "scripts of other origins may read the fields, of allowed answers too",
		opts:   []gate.Option{gate.ExposeHeaders()},
		header: map[string]string{"Access-Control-Expose-Headers": "RateLimit, RateLimit-Policy, Retry-After"},
	}, {
		name:   "exposed, denied",
		why:    "a denial is where a script needs them",
		opts:   []gate.Option{gate.ExposeHeaders(), gate.Headers(gate.IETFDraft, gate.XRateLimit)},
		states: states{"burst": denied(12 * time.Second)},
		status: 429,
		header: map[string]string{"Access-Control-Expose-Headers": allFields},
	}, {
		name:   "exposed, no fields",
		why:    "what is never sent is not exposed",
		opts:   []gate.Option{gate.ExposeHeaders(), gate.Headers()},
		header: map[string]string{"Access-Control-Expose-Headers": "Retry-After"},
	}, {
		name: "exposed with others",
		why:  "the names that are there stay, and none is there twice",
		opts: []gate.Option{gate.ExposeHeaders()},
		before: func(h http.Header) {
			h.Add("Access-Control-Expose-Headers", "X-Total, retry-after")
			h.Add("Access-Control-Expose-Headers", "ETag")
		},
		header: map[string]string{"Access-Control-Expose-Headers": "X-Total, retry-after, ETag, RateLimit, RateLimit-Policy"},
	}, {
		name:   "exposed, 503",
		why:    "a rejection of any kind can be read",
		opts:   []gate.Option{gate.ExposeHeaders(), gate.FailClosed()},
		err:    core.ErrUnavailable,
		status: 503,
		header: map[string]string{"Access-Control-Expose-Headers": "RateLimit, RateLimit-Policy, Retry-After"},
	}, {
		name:    "skipped",
		why:     "a skipped request needs no key and gets no field",
		opts:    []gate.Option{gate.Skip(isPreflight), gate.ExposeHeaders()},
		key:     noKey(keyfunc.ErrNoKey),
		req:     preflight,
		noStore: true,
		header:  map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Access-Control-Expose-Headers": ""},
	}, {
		name:   "not skipped",
		why:    "Skip is asked about every request",
		opts:   []gate.Option{gate.Skip(isPreflight)},
		states: states{"burst": denied(12 * time.Second)},
		status: 429,
	}})
	t.Run("cost", s.testCost)
	t.Run("handler", s.testHandlerSeesDecision)
}

func (s *suite) testCost(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []gate.Option
		want driver.Charge
	}{
		{"default", nil, driver.Charge{Op: driver.Spend, Cost: 1}},
		{"five", []gate.Option{costs(5)}, driver.Charge{Op: driver.Spend, Cost: 5}},
		{"zero", []gate.Option{costs(0)}, driver.Charge{Op: driver.Peek, Cost: 1}},
		{"the later of two", []gate.Option{costs(5), costs(6)}, driver.Charge{Op: driver.Spend, Cost: 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &script{states: states{"burst": allowed(1, 0, 0)}}
			l := core.Must(core.New(store, burst))
			h := s.build(l, constant("a"), append(c.opts, gate.And(l, constant("b"))), new(probe).ServeHTTP)
			exchange(t, h, request("POST", "/"))
			asked := store.charges()
			if len(asked) != 2 {
				t.Fatalf("the Store was charged %d times, want 2", len(asked))
			}
			for i, key := range []string{"a", "b"} {
				if got := asked[i]; got.Op != c.want.Op || got.Cost != c.want.Cost || got.Key != key {
					t.Errorf("charge %d is op %v cost %d key %q, want op %v cost %d key %q: the cost applies to every ask",
						i, got.Op, got.Cost, got.Key, c.want.Op, c.want.Cost, key)
				}
			}
		})
	}
	s.table(t, []row{{
		name:    "negative",
		why:     "a negative cost is a fault of the application: 500, and nothing is taken",
		opts:    []gate.Option{costs(-1)},
		status:  500,
		noStore: true,
		header:  map[string]string{"RateLimit": "", "Retry-After": ""},
		body:    problem(500, "Internal Server Error", ""),
	}})
}

func costs(n int) gate.Option { return gate.Cost(func(*http.Request) int { return n }) }

func (s *suite) testHandlerSeesDecision(t *testing.T) {
	store := &script{states: states{"burst": allowed(7, time.Second, 0), "daily": allowed(8, time.Second, 0)}}
	p := new(probe)
	h := s.build(core.Must(core.New(store, burst, daily)), constant("k"), nil, p.ServeHTTP)
	exchange(t, h, request("GET", "/"))
	d, ok := p.saw()
	if !ok || !d.Allowed || d.Len() != 2 || d.State(0).Remaining != 7 || d.State(1).Remaining != 8 {
		t.Errorf("the handler sees %+v, %v; want the decision of the gate", d, ok)
	}
}
