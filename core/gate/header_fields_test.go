package gate_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

func TestHeaders_Options(t *testing.T) {
	const allFields = "RateLimit, RateLimit-Policy, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
	table(t, []row{{
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
	}})
}
