package gatetest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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
	isPreflight := func(_ context.Context, r *http.Request) bool { return r.Method == http.MethodOptions }
	s.table(t, []row{{
		name:   "no headers, allowed: Headers() sends no field",
		opts:   []gate.Option{gate.Headers()},
		header: map[string]string{"RateLimit-Policy": "", "RateLimit": "", "X-RateLimit-Limit": "", "Retry-After": ""},
	}, {
		name:   "no headers, denied: Retry-After is sent",
		opts:   []gate.Option{gate.Headers()},
		status: 429,
		header: map[string]string{"RateLimit-Policy": "", "RateLimit": "", "X-RateLimit-Limit": "", "Retry-After": "12"},
		body:   document(retry12, `"burst"`),
	}, {
		name:   "legacy headers: the fields describe the rule with the smallest part of its capacity left",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit)},
		rules:  []core.Rule{burst, daily},
		states: states{"burst": allowed(50, 0, 0), "daily": allowed(60, 0, 0)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "60", "RateLimit": "", "RateLimit-Policy": ""},
	}, {
		name:   "legacy headers, other order: the order of the rules does not matter",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit)},
		rules:  []core.Rule{daily, burst},
		states: states{"burst": allowed(50, 0, 0), "daily": allowed(60, 0, 0)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "60"},
	}, {
		name:   "legacy headers, both exhausted: with equal parts left, the rule with the longer reset",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit)},
		rules:  []core.Rule{burst, daily},
		states: states{"burst": allowed(0, 0, time.Minute), "daily": allowed(0, 0, time.Hour)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "0"},
	}, {
		name:   "legacy headers, denied",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit)},
		rules:  []core.Rule{burst, daily},
		states: states{"burst": denied(12 * time.Second), "daily": allowed(840, 0, 0)},
		status: 429,
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0", "Retry-After": "12"},
	}, {
		name:   "both versions",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit, gate.IETFDraft)},
		states: states{"burst": allowed(3, 12*time.Second, 0)},
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "3", "RateLimit": `"burst";r=3;t=12`},
	}, {
		name:   "the later of two Headers counts",
		opts:   []gate.Option{gate.Headers(gate.XRateLimit), gate.Headers()},
		header: map[string]string{"X-RateLimit-Limit": "", "RateLimit": ""},
	}, {
		name:   "exposed",
		opts:   []gate.Option{gate.ExposeHeaders()},
		header: map[string]string{"Access-Control-Expose-Headers": "RateLimit, RateLimit-Policy, Retry-After"},
	}, {
		name:   "exposed, denied",
		opts:   []gate.Option{gate.ExposeHeaders(), gate.Headers(gate.IETFDraft, gate.XRateLimit)},
		status: 429,
		header: map[string]string{"Access-Control-Expose-Headers": allFields},
	}, {
		name:   "exposed, no fields: only Retry-After is exposed",
		opts:   []gate.Option{gate.ExposeHeaders(), gate.Headers()},
		header: map[string]string{"Access-Control-Expose-Headers": "Retry-After"},
	}, {
		name: "exposed with others: existing names stay, and no name is there twice",
		opts: []gate.Option{gate.ExposeHeaders()},
		before: func(h http.Header) {
			h.Add("Access-Control-Expose-Headers", "X-Total, retry-after")
			h.Add("Access-Control-Expose-Headers", "ETag")
		},
		header: map[string]string{"Access-Control-Expose-Headers": "X-Total, retry-after, ETag, RateLimit, RateLimit-Policy"},
	}, {
		name:   "exposed, 503",
		opts:   []gate.Option{gate.ExposeHeaders(), gate.FailClosed()},
		err:    core.ErrUnavailable,
		status: 503,
		header: map[string]string{"Access-Control-Expose-Headers": "RateLimit, RateLimit-Policy, Retry-After"},
	}, {
		name:    "skipped: needs no key and gets no field",
		opts:    []gate.Option{gate.Skip(isPreflight), gate.ExposeHeaders()},
		key:     noKey(keyfunc.ErrNoKey),
		req:     preflight,
		noStore: true,
		header:  map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Access-Control-Expose-Headers": ""},
	}, {
		name:   "not skipped: Skip is called for every request",
		opts:   []gate.Option{gate.Skip(isPreflight)},
		status: 429,
	}, {
		name:    "exempt: needs no key and gets no field",
		opts:    []gate.Option{gate.Exempt(constant("10.1.2.3"), "192.0.2.1", "10.0.0.0/8"), gate.ExposeHeaders()},
		key:     noKey(keyfunc.ErrNoKey),
		noStore: true,
		header:  map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Access-Control-Expose-Headers": ""},
	}, {
		name:    "exempt by the address of the peer",
		opts:    []gate.Option{gate.Exempt(keyfunc.RemoteIP(), "127.0.0.1", "192.0.2.1")},
		noStore: true,
	}, {
		name:    "exempt, a whole prefix",
		opts:    []gate.Option{gate.Exempt(constant("2001:db8:1:2::/64"), "2001:db8::/32")},
		noStore: true,
	}, {
		name:   "not exempt, another address",
		opts:   []gate.Option{gate.Exempt(constant("11.1.2.3"), "10.0.0.0/8")},
		status: 429,
	}, {
		name:   "not exempt, a part of a prefix",
		opts:   []gate.Option{gate.Exempt(constant("2001:db8:1:2::/64"), "2001:db8:1:2::/65")},
		status: 429,
	}, {
		name:   "not exempt, no address",
		opts:   []gate.Option{gate.Exempt(constant("user:10.1.2.3"), "0.0.0.0/0", "::/0")},
		status: 429,
	}, {
		name:   "not exempt, an error",
		opts:   []gate.Option{gate.Exempt(addressAndError, "10.0.0.0/8")},
		status: 429,
	}, {
		name:    "skipped and not exempt",
		opts:    []gate.Option{gate.Skip(isPreflight), gate.Exempt(constant("11.1.2.3"), "10.0.0.0/8")},
		req:     preflight,
		noStore: true,
	}, {
		name:    "exempt and not skipped",
		opts:    []gate.Option{gate.Exempt(constant("10.1.2.3"), "10.0.0.0/8"), gate.Skip(isPreflight)},
		noStore: true,
	}, {
		name:    "negative cost: 500, and no charge",
		opts:    []gate.Option{costs(-1)},
		status:  500,
		noStore: true,
		header:  noFields,
		body:    problem(500, "Internal Server Error", ""),
	}})
	t.Run("denied status", s.testDeniedStatus)
	t.Run("cost", s.testCost)
	t.Run("not limited", s.testNotLimited)
	t.Run("handler", s.testHandlerSeesDecision)
}

// addressAndError is a key function that returns an address beside an error.
func addressAndError(context.Context, *http.Request) (string, error) {
	return "10.1.2.3", keyfunc.ErrNoKey
}

// testNotLimited checks that a limiter whose key function returns keyfunc.ErrNotLimited is ignored.
func (s *suite) testNotLimited(t *testing.T) {
	key := constant("k")
	free := noKey(fmt.Errorf("an administrator: %w", keyfunc.ErrNotLimited))
	both := noKey(fmt.Errorf("%w: %w", keyfunc.ErrNoToken, keyfunc.ErrNotLimited))
	if got := exchange(t, s.start(setup{key: both, opts: []gate.Option{quiet}}), request("GET", "/")).status; got != 401 {
		t.Errorf("an invalid token whose error is also an ErrNotLimited: got status %d, want 401", got)
	}
	for _, c := range []struct {
		name     string
		key, and keyfunc.Func
		opts     []gate.Option
		want     []string // the keys that are charged; without them, there are no header fields
	}{
		{"alone", free, nil, nil, nil},
		{"alone, with refunds", free, nil, []gate.Option{refundAll}, nil},
		{"all", free, free, nil, nil},
		{"first", free, key, nil, []string{"k"}},
		{"last", key, free, nil, []string{"k"}},
		{"last, with refunds", key, free, []gate.Option{succeeded}, []string{"k"}},
		{"first of", keyfunc.FirstOf(noKey(keyfunc.ErrNoKey), free, key), nil, nil, nil},
		{"join", keyfunc.Join(constant("a"), free), key, nil, []string{"k"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []driver.Charge
			a := s.start(setup{store: memory().Set(recording(&asked)), key: c.key, and: c.and, opts: c.opts})
			w := exchange(t, a, request("GET", "/"))
			var keys []string
			for _, charge := range asked {
				if charge.Op == driver.Spend {
					keys = append(keys, charge.Key)
				}
			}
			fields := w.header.Get("RateLimit") != ""
			if w.status != 200 || !slices.Equal(keys, c.want) || fields != (c.want != nil) {
				t.Errorf("got status %d, charged keys %v, header %v; want 200, keys %v", w.status, keys, w.header, c.want)
			}
		})
	}
}

// testCost checks the charge of each ask.
func (s *suite) testCost(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []gate.Option
		op   driver.Op
		cost int
	}{
		{"default", nil, driver.Spend, 1},
		{"five", []gate.Option{costs(5)}, driver.Spend, 5},
		{"zero", []gate.Option{costs(0)}, driver.Peek, 1},
		{"the later of two", []gate.Option{costs(5), costs(6)}, driver.Spend, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []driver.Charge
			exchange(t, s.start(setup{store: memory().Set(recording(&asked)), opts: c.opts, and: constant("b")}), request("POST", "/"))
			if len(asked) != 2 {
				t.Fatalf("the Store was charged %d times, want 2", len(asked))
			}
			for i, key := range []string{"k", "b"} {
				if got := asked[i]; got.Op != c.op || got.Cost != c.cost || got.Key != key {
					t.Errorf("charge %d is op %v cost %d key %q, want op %v cost %d key %q", i, got.Op, got.Cost, got.Key, c.op, c.cost, key)
				}
			}
		})
	}
}

func (s *suite) testHandlerSeesDecision(t *testing.T) {
	a := s.start(setup{rules: []core.Rule{burst, daily}, states: states{"burst": allowed(7, time.Second, 0), "daily": allowed(8, time.Second, 0)}})
	exchange(t, a, request("GET", "/"))
	d, ok := a.saw()
	if !ok || !d.Allowed || d.Len() != 2 || d.State(0).Remaining != 7 || d.State(1).Remaining != 8 {
		t.Errorf("the handler sees %+v, %v; want the decision of the gate", d, ok)
	}
}
