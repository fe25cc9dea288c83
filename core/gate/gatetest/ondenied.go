package gatetest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// testOnDenied checks that OnDenied answers denials, with all fields set, and nothing else.
func (s *suite) testOnDenied(t *testing.T) {
	called := 0
	slowDown := s.onDenied(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		called++
		if seen, ok := gate.FromContext(r.Context()); d.Allowed || d.Len() != 1 || !ok || seen.Len() != 1 {
			t.Errorf("the decision is %v, and that of the request %v, %v; want the denial twice", d, seen, ok)
		}
		w.Header().Set("Content-Type", "text/x-own")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, "slow down")
	})
	for _, c := range []struct {
		name   string
		key    keyfunc.Func
		status int
		body   string
		called int
	}{
		{"denied", constant("k"), 429, "slow down", 1},
		{"no key", noKey(keyfunc.ErrNoKey), 400, problem(400, "Bad Request", "The request does not say who sent it."), 0},
		{"fault", noKey(errSecret), 500, problem(500, "Internal Server Error", ""), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			called = 0
			l := core.Must(core.New(&script{states: states{"burst": denied(12 * time.Second)}}, burst))
			p := new(probe)
			got := exchange(t, s.build(l, c.key, []gate.Option{slowDown, quiet}, p.ServeHTTP), request("GET", "/v1/orders"))
			if got.status != c.status || got.body != c.body || called != c.called || p.ran() > 0 {
				t.Errorf("the answer is %d %q, OnDenied was called %d times and the handler %d times; want %d %q, %d and none",
					got.status, got.body, called, p.ran(), c.status, c.body, c.called)
			}
			if c.called == 1 && (got.header.Get("Content-Type") != "text/x-own" || got.header.Get("Retry-After") != "12" ||
				got.header.Get("RateLimit") != `"burst";r=0;t=12`) {
				t.Errorf("the fields are %v", got.header)
			}
		})
	}
}
