package gatetest

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// testOnDenied checks that OnDenied is called only for denials, with all header fields set.
func (s *suite) testOnDenied(t *testing.T) {
	called := 0
	slowDown := s.onDenied(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		called++
		if seen, ok := gate.FromContext(r.Context()); d.Allowed || d.Len() != 1 || !ok || seen.Len() != 1 {
			t.Errorf("the decision is %v, and that of the request %v, %v; want the denial twice", d, seen, ok)
		}
		if err := gate.Settle(r.Context(), 50); !errors.Is(err, gate.ErrNotAdmitted) {
			t.Errorf("settling a denied request: %v, want ErrNotAdmitted", err)
		}
		w.Header().Set("Content-Type", "text/x-own")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, "slow down")
	})
	for _, c := range []struct {
		name   string
		key    keyfunc.Func
		opts   []gate.Option
		status int
		body   string
		called int
	}{
		{"denied", constant("k"), nil, 429, "slow down", 1},
		{"denied, reserved", constant("k"), []gate.Option{refundAll}, 429, "slow down", 1},
		{"denial of another gate", noKey(&gate.Rejection{Problem: new(gate.Problem), Err: gate.ErrDenied}), nil, 500, problem(500, "Internal Server Error", ""), 0},
		{"no key", noKey(keyfunc.ErrNoKey), nil, 400, problem(400, "Bad Request", unidentified), 0},
		{"fault", noKey(errSecret), nil, 500, problem(500, "Internal Server Error", ""), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			called = 0
			a := s.start(setup{states: states{"hundred": denied(12 * time.Second)}, key: c.key, opts: append(c.opts, slowDown, quiet)})
			got := exchange(t, a, request("GET", "/v1/orders"))
			if got.status != c.status || got.body != c.body || called != c.called {
				t.Errorf("the answer is %d %q after %d calls of OnDenied, want %d %q after %d", got.status, got.body, called, c.status, c.body, c.called)
			}
			a.checkRan(t, 0)
			if called == 1 && (got.header.Get("Content-Type") != "text/x-own" || got.header.Get("Retry-After") != "12" ||
				got.header.Get("RateLimit") != `"hundred";r=0;t=12`) {
				t.Errorf("the fields are %v", got.header)
			}
		})
	}
}
