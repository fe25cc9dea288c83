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
		{"denial of another gate", noKey(&gate.Rejection{Problem: new(gate.Problem), Err: gate.ErrDenied}), nil, 500, fault, 0},
		{"no key", noKey(keyfunc.ErrNoKey), nil, 400, badKey, 0},
		{"fault", noKey(errSecret), nil, 500, fault, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			called = 0
			a := s.start(setup{States: states{"hundred": denied(12 * time.Second)}, Key: c.key, Opts: append(c.opts, slowDown, quiet)})
			got := exchange(t, a, request("GET", "/v1/orders"))
			if got.Status != c.status || got.Body != c.body || called != c.called {
				t.Errorf("the answer is %d %q after %d calls of OnDenied, want %d %q after %d", got.Status, got.Body, called, c.status, c.body, c.called)
			}
			a.CheckRan(t, 0)
			if called == 1 {
				s.checkFields(t, got, map[string]string{"Content-Type": "text/x-own", "Retry-After": "12", "RateLimit": `"hundred";r=0;t=12`})
			}
		})
	}
}

// testOnRejected checks that OnRejected is called only for rejections that are no denials, with all
// header fields set, and that the status is that of the Problem if OnRejected writes nothing.
func (s *suite) testOnRejected(t *testing.T) {
	failClosed := gate.FailClosed()
	conflict := gate.OnError(func(*http.Request, error, int) int { return http.StatusConflict })
	for _, c := range []struct {
		name string
		setup
		status int
		err    error // of the Rejection; nil if OnRejected is not called
	}{
		{"no key", setup{Key: noKey(keyfunc.ErrNoKey)}, 400, keyfunc.ErrNoKey},
		{"no token", setup{Key: noKey(keyfunc.ErrNoToken)}, 401, keyfunc.ErrNoToken},
		{"no token, refunded", setup{Key: noKey(keyfunc.ErrNoToken), Refund: true}, 401, keyfunc.ErrNoToken},
		{"fault", setup{Key: noKey(errSecret), Opts: []gate.Option{quiet}}, 500, errSecret},
		{"undecided", setup{Err: core.ErrUnavailable, Opts: []gate.Option{failClosed, quiet}}, 503, core.ErrUnavailable},
		{"status of OnError", setup{Key: noKey(keyfunc.ErrNoKey), Opts: []gate.Option{conflict}}, 409, keyfunc.ErrNoKey},
		{"denied", setup{States: states{"hundred": denied(12 * time.Second)}}, 429, nil},
		{"denied, refunded", setup{States: states{"hundred": denied(12 * time.Second)}, Refund: true}, 429, nil},
		{"admitted", setup{}, 200, nil},
	} {
		for _, writes := range []string{"a body", "a status", "nothing"} {
			t.Run(c.name+"/writes "+writes, func(t *testing.T) {
				called := 0
				own := s.onRejected(func(w http.ResponseWriter, r *http.Request, rejection *gate.Rejection) {
					called++
					if !errors.Is(rejection, c.err) || rejection.Denied() || rejection.Decision.Len() > 0 || rejection.Problem.Status != c.status || r.URL.Path != "/v1/orders" {
						t.Errorf("OnRejected got %s, %+v, want the status %d and %v", r.URL.Path, rejection, c.status, c.err)
					}
					if writes == "nothing" {
						return
					}
					w.Header().Set("Content-Type", "text/x-own")
					w.WriteHeader(http.StatusTeapot)
					if writes == "a body" {
						fmt.Fprint(w, "own")
					}
				})
				opts := append(c.Opts[:len(c.Opts):len(c.Opts)], own)
				if s.onDenied != nil {
					opts = append(opts, s.onDenied(func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
						if c.err != nil {
							t.Errorf("OnDenied is called with %v", d)
						}
						w.Header().Set("Content-Type", "text/x-denied")
						answersBody(429)(w, nil)
					}))
				}
				g := c.setup
				g.Opts = opts
				a := s.start(g)
				got := exchange(t, a, request("GET", "/v1/orders"))
				a.CheckRan(t, map[bool]int{true: 1}[c.status == 200])
				if c.err == nil {
					if got.Status != c.status || called != 0 {
						t.Errorf("the status is %d after %d calls of OnRejected, want %d without a call", got.Status, called, c.status)
					}
					return
				}
				status, body, media := http.StatusTeapot, "", "text/x-own"
				switch writes {
				case "a body":
					body = "own"
				case "nothing":
					status, media = c.status, ""
				}
				if got.Status != status || got.Body != body || called != 1 {
					t.Errorf("got %d %q after %d calls of OnRejected, want %d %q after 1", got.Status, got.Body, called, status, body)
				}
				s.checkFields(t, got, map[string]string{
					"Content-Type": media, "Cache-Control": "no-store",
					"Retry-After": map[int]string{503: "1"}[c.status], "WWW-Authenticate": map[int]string{401: "Bearer"}[c.status],
				})
				if n := a.Asked(); len(n) > 0 {
					t.Errorf("RefundIf got %v, want no call for a rejection", n)
				}
			})
		}
	}
}
