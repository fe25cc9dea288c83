package gate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/keyfunc"
)

// by returns a table of limiters by the header field X-Policy.
func by(limiters map[string]*core.Limiter) gate.Option {
	return gate.Routes(apptest.PolicyFunc(func(r *http.Request) *core.Limiter { return limiters[r.Header.Get("X-Policy")] }))
}

// TestRoutes tests gate.Routes with any Policy.
func TestRoutes(t *testing.T) {
	store := memory()
	limit := func(name string, n int) *core.Limiter {
		return core.Must(core.New(store, core.SlidingLog(name, core.PerMinute(n)).Plan("pro", core.PerMinute(10*n))))
	}
	t.Run("options", func(t *testing.T) {
		base := core.Must(core.New(store, core.SlidingLog("base", core.PerMinute(5)))) // without plans
		login, and := limit("login", 2), limit("and", 9)
		for name, c := range map[string]struct {
			opts  []gate.Option
			login string
			base  string
		}{
			"none":                              {nil, `"login";r=1;t=60`, `"base";r=4;t=60`},
			"And":                               {[]gate.Option{gate.And(and, constant("x"))}, `"login";r=1;t=60, "and";r=8;t=60`, `"base";r=4;t=60, "and";r=8;t=60`},
			"Plan":                              {[]gate.Option{gate.Plan(constant("pro"))}, `"login";r=19;t=60`, `"base";r=4;t=60`},
			"Cost":                              {[]gate.Option{costs(2)}, `"login";r=0;t=60`, `"base";r=3;t=60`},
			"refund":                            {[]gate.Option{refundAll}, `"login";r=1;t=60`, `"base";r=4;t=60`},
			"skipped":                           {[]gate.Option{skipped, gate.Routes(apptest.PolicyFunc(func(*http.Request) *core.Limiter { panic("called") }))}, "", ""},
			"And with the same limiter and key": {[]gate.Option{gate.And(login, constant("k"))}, `"login";r=1;t=60`, `"base";r=4;t=60, "login";r=1;t=60`},
		} {
			for _, l := range []*core.Limiter{base, login, and} {
				reset(t, l, "k", "x")
			}
			h := build(base, constant("k"), append([]gate.Option{by(map[string]*core.Limiter{"login": login})}, c.opts...), says("ok"))
			got := record(t, h, with("X-Policy", "login")).Header.Get("RateLimit")
			if n := taken(t, base, "k"); got != c.login || n != 0 {
				t.Errorf("%s: got RateLimit %s and %d events of the limiter of New, want %s and 0", name, got, n, c.login)
			}
			for _, l := range []*core.Limiter{login, and} {
				reset(t, l, "k", "x")
			}
			if got := record(t, h, with()).Header.Get("RateLimit"); got != c.base {
				t.Errorf("%s, no route: got RateLimit %s, want %s", name, got, c.base)
			}
		}
	})
	t.Run("denied", func(t *testing.T) {
		base, login := limit("denied base", 1), limit("denied login", 1)
		h := build(base, constant("k"), []gate.Option{by(map[string]*core.Limiter{"login": login})}, says("ok"))
		for i, c := range []struct {
			policy, fields, violated string
			status                   int
		}{
			{"login", `"denied login";q=1;w=60`, "", 200},
			{"login", `"denied login";q=1;w=60`, `"violated-policies":["denied login"]`, 429},
			{"", `"denied base";q=1;w=60`, "", 200},
			{"", `"denied base";q=1;w=60`, `"violated-policies":["denied base"]`, 429},
		} {
			if got := record(t, h, with("X-Policy", c.policy)); got.Status != c.status || got.Header.Get("RateLimit-Policy") != c.fields || !strings.Contains(got.Body, c.violated) {
				t.Errorf("request %d: got %d, %s, %s, want %+v", i, got.Status, got.Header.Get("RateLimit-Policy"), got.Body, c)
			}
		}
	})
	t.Run("settle", func(t *testing.T) {
		base, login, and := limit("settle base", 9), limit("settle login", 9), limit("settle and", 9)
		h := build(base, constant("k"), []gate.Option{by(map[string]*core.Limiter{"login": login}), gate.And(and, constant("x"))},
			func(w http.ResponseWriter, r *http.Request) {
				err := errors.Join(gate.SettleFor(r.Context(), login.Plan("pro"), 5), gate.SettleFor(r.Context(), and, 3))
				fmt.Fprint(w, err, errors.Is(gate.SettleFor(r.Context(), base, 7), gate.ErrNotAdmitted))
			})
		got := record(t, h, with("X-Policy", "login"))
		if l, a, b := taken(t, login, "k"), taken(t, and, "x"), taken(t, base, "k"); got.Body != "<nil> true" || l != 5 || a != 3 || b != 0 {
			t.Errorf("got %s and %d, %d and %d events, want 5, 3 and 0", got.Body, l, a, b)
		}
	})
	t.Run("another store", func(t *testing.T) {
		other := core.Must(core.New(memory(), core.SlidingLog("elsewhere", core.PerMinute(9))))
		base := limit("of New", 9)
		var failed error
		onError := gate.OnError(func(_ *http.Request, err error, status int) int { failed = err; return status })
		for name, c := range map[string]struct {
			and    []gate.Option
			status int
		}{"alone": {nil, 200}, "And": {[]gate.Option{gate.And(base, constant("x"))}, 500}} {
			failed = nil
			h := build(base, constant("k"), append(c.and, onError, by(map[string]*core.Limiter{"login": other})), says("ok"))
			if got := record(t, h, with("X-Policy", "login")); got.Status != c.status || (c.status == 500) != errors.Is(failed, core.ErrInvalidAsk) {
				t.Errorf("%s: got status %d, error %v, want %d", name, got.Status, failed, c.status)
			}
		}
	})
	// A key is exhausted for the limiter that has denied it, also if another And has that limiter.
	t.Run("exhausted keys", func(t *testing.T) {
		base, login, last := limit("exhausted base", 1), limit("exhausted login", 1), limit("exhausted last", 100)
		verified := 0
		token := func(_ context.Context, r *http.Request) (string, error) {
			verified++
			return cmp.Or(r.Header.Get("X-Key"), "bad"), map[bool]error{true: keyfunc.ErrNoToken}[r.Header.Get("X-Key") == ""]
		}
		h := build(base, constant("k"), []gate.Option{by(map[string]*core.Limiter{"login": login, "last": last}), gate.And(last, token), quiet}, says("ok"))
		for i, c := range []struct {
			policy, key      string
			status, verified int
		}{
			{"login", "", 401, 1}, // exhausts k
			{"login", "", 429, 1},
			{"login", "a", 429, 1},
			{"", "a", 200, 2},
			{"", "", 429, 3}, // base has no exhausted key yet
			{"", "", 429, 3},
			{"login", "a", 429, 3},
			{"last", "a", 200, 4},
		} {
			if got := record(t, h, with("X-Policy", c.policy, "X-Key", c.key)); got.Status != c.status || verified != c.verified {
				t.Errorf("request %d: got status %d and %d tokens verified, want %+v", i, got.Status, verified, c)
			}
		}
	})
	t.Run("construction", func(t *testing.T) {
		for name, f := range map[string]func(){
			"nil": func() { gate.Routes(nil) }, "nil function": func() { gate.Routes(apptest.PolicyFunc(nil)) },
		} {
			if got := fmt.Sprint(caught(f)); got != "gate: Routes: policy is nil" {
				t.Errorf("%s: panicked with %v", name, got)
			}
		}
	})
}
