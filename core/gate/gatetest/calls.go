package gatetest

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/internal/testkit"
)

// outerGate returns a gate with the rule "outer", which admits ten requests.
func outerGate(opts ...gate.Option) Gate {
	return Gate{core.Must(core.New(memory(), core.SlidingLog("outer", core.PerMinute(10)))), constant("k"), opts}
}

const outerField = `"outer";r=9;t=60`

// inGates calls f without a gate around the handler, behind a gate, and behind a gate with RefundIf. The
// gate has OnDenied and OnRejected, which are not for Check and Deny.
func (s *suite) inGates(t *testing.T, f func(t *testing.T, gates []Gate)) {
	t.Run("without a gate", func(t *testing.T) { f(t, nil) })
	for name, opts := range map[string][]gate.Option{"behind a gate": nil, "behind a gate with RefundIf": {refundAll}} {
		t.Run(name, func(t *testing.T) {
			if s.onDenied != nil {
				opts = append(opts, s.onDenied(func(http.ResponseWriter, *http.Request, core.Decision) { t.Error("OnDenied is called") }))
			}
			if s.onRejected != nil {
				opts = append(opts, s.onRejected(func(http.ResponseWriter, *http.Request, *gate.Rejection) { t.Error("OnRejected is called") }))
			}
			f(t, []Gate{outerGate(opts...)})
		})
	}
}

// compareCall compares the response after Check or Deny. limit is the member of RateLimit of the event.
func (s *suite) compareCall(t *testing.T, got reply, gates []Gate, status int, limit, retry, body string) {
	t.Helper()
	if len(gates) > 0 && limit != "" {
		limit = outerField + ", " + limit
	} else if len(gates) > 0 {
		limit = outerField
	}
	if got.Status != status || got.Body != body {
		t.Errorf("got %d %s\n\twant %d %s", got.Status, got.Body, status, body)
	}
	s.checkFields(t, got, map[string]string{"RateLimit": limit, "Retry-After": retry})
	if status != http.StatusOK {
		s.checkProblem(t, got, http.MethodGet, false)
	}
}

// testCheck checks the responses to events that Check admits, denies and rejects, and their decisions.
func (s *suite) testCheck(t *testing.T) {
	answer := func(status int) gate.Option {
		return gate.OnError(func(*http.Request, error, int) int { return status })
	}
	for _, c := range []struct {
		name   string
		key    string
		state  core.State
		err    error
		opts   []gate.Option
		status int
		limit  string
		retry  string
		body   string
	}{
		{"admitted", "ann", allowed(7, time.Minute, 0), nil, nil, 200, `"hundred";r=7;t=60`, "", "ok\n"},
		{"admitted, without fields", "ann", allowed(7, time.Minute, 0), nil, []gate.Option{gate.Headers()}, 200, "", "", "ok\n"},
		{"denied", "ann", denied(12 * time.Second), nil, nil, 429, `"hundred";r=0;t=12`, "12", overLimit},
		{"denied, without fields", "ann", denied(12 * time.Second), nil, []gate.Option{gate.Headers()}, 429, "", "12", overLimit},
		{"empty key", "", allowed(7, time.Minute, 0), nil, nil, 400, "", "", emptyKey},
		{"empty key, let through", "", denied(time.Second), nil, []gate.Option{apptest.LetThrough}, 200, "", "", "ok\n"},
		{"Store fails", "ann", core.State{}, errSecret, []gate.Option{quiet}, 200, "", "", "ok\n"},
		{"Store fails, FailClosed", "ann", core.State{}, errSecret, []gate.Option{quiet, gate.FailClosed()}, 503, "", "1", undecided},
		{"Store fails, OnError", "ann", core.State{}, errSecret, []gate.Option{answer(500)}, 500, "", "", fault},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.inGates(t, func(t *testing.T, gates []Gate) {
				l := core.Must(core.New(apptest.Scripted(states{"hundred": c.state}, c.err), apptest.Hundred))
				var seen []string
				got := exchange(t, s.buildCalls(gates, func(w http.ResponseWriter, call Call) error {
					err := call.Check(l, c.key, c.opts...)
					if (err != nil) != (c.status != 200) {
						t.Errorf("Check returns %v, want an error: %t", err, c.status != 200)
					}
					seen = decisions(t, call.Context())
					if err == nil {
						says("ok\n")(w, nil)
					}
					return err
				}), request("GET", "/v1/orders"))
				s.compareCall(t, got, gates, c.status, c.limit, c.retry, c.body)
				var want []string
				if gates != nil {
					want = append(want, "outer")
				}
				if c.err == nil && c.key != "" {
					want = append(want, "hundred")
				}
				if !slices.Equal(seen, want) {
					t.Errorf("the handler sees the decisions %v, want %v", seen, want)
				}
			})
		})
	}
	t.Run("compressed", s.testCompressed)
	t.Run("several", s.testSeveralChecks)
	t.Run("corrections", s.testCheckCorrections)
	t.Run("panics", s.testCheckPanics)
}

// testCompressed checks that clients can read the responses of Check and Deny behind a middleware that has
// announced that it compresses the body.
func (s *suite) testCompressed(t *testing.T) {
	l := core.Must(core.New(apptest.Scripted(states{"hundred": denied(12 * time.Second)}, nil), apptest.Hundred))
	for name, call := range map[string]func(Call) error{
		"Check": func(c Call) error { return c.Check(l, "ann") },
		"Deny": func(c Call) error {
			return c.Deny(testkit.Allow(t, l, "ann"))
		},
	} {
		app := s.buildCalls(nil, func(_ http.ResponseWriter, c Call) error { return call(c) })
		got := exchange(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			app.ServeHTTP(compressed{w, z}, r)
		}), request("GET", "/v1/orders")) // the client decompresses the body
		if got.Status != http.StatusTooManyRequests || got.Body != overLimit {
			t.Errorf("%s: got %d %q\n\twant 429 %q", name, got.Status, got.Body, overLimit)
		}
	}
}

// A compressed response has a body that is compressed.
type compressed struct {
	http.ResponseWriter
	body io.Writer
}

func (c compressed) Write(b []byte) (int, error) { return c.body.Write(b) }

// decisions returns the names of the rules of all decisions in ctx, and checks that FromContext returns
// the last of these.
func decisions(t *testing.T, ctx context.Context) (names []string) {
	t.Helper()
	for _, d := range gate.DecisionsFrom(ctx) {
		names = append(names, d.State(0).Rule.Name())
	}
	if d, ok := gate.FromContext(ctx); ok != (len(names) > 0) || ok && d.State(0).Rule.Name() != names[len(names)-1] {
		t.Errorf("FromContext returns %v, %v, want the last decision of %v", d, ok, names)
	}
	return names
}

// testSeveralChecks makes several Checks in one handler, behind several gates.
func (s *suite) testSeveralChecks(t *testing.T) {
	const fields = `"a";r=9;t=60, "b";r=8;t=60, "c";r=0;t=60`
	for name, c := range map[string]struct {
		gates []Gate
		names []string
		limit string
	}{
		"without a gate":   {nil, nil, fields},
		"behind a gate":    {[]Gate{outerGate()}, []string{"outer"}, outerField + ", " + fields},
		"behind two gates": {[]Gate{outerGate(), {outerLimiter("inner"), constant("k"), nil}}, []string{"outer", "inner"}, outerField + `, "inner";r=9;t=60, ` + fields},
		"behind a skip":    {[]Gate{outerGate(), outerGate(skipped)}, []string{"outer"}, outerField + ", " + fields},
	} {
		t.Run(name, func(t *testing.T) {
			store := apptest.Scripted(states{"a": allowed(9, time.Minute, 0), "b": allowed(8, time.Minute, 0), "c": denied(time.Minute)}, nil)
			got := exchange(t, s.buildCalls(c.gates, func(_ http.ResponseWriter, call Call) error {
				want := c.names
				limiters := map[string]*core.Limiter{}
				for _, name := range []string{"a", "b", "b", "c"} { // the second decision about b replaces the first
					if limiters[name] == nil {
						limiters[name] = core.Must(core.New(store, core.SlidingLog(name, core.PerMinute(10))))
						want = append(want[:len(want):len(want)], name)
					}
					err := call.Check(limiters[name], "ann")
					if seen := decisions(t, call.Context()); !slices.Equal(seen, want) {
						t.Errorf("the handler sees the decisions %v, want %v", seen, want)
					}
					if (err != nil) != (name == "c") {
						t.Errorf("Check of %s returns %v", name, err)
					}
					if err != nil {
						return err
					}
				}
				return nil
			}), request("GET", "/v1/orders"))
			if got.Status != http.StatusTooManyRequests {
				t.Errorf("the status is %d, want 429", got.Status)
			}
			s.checkFields(t, got, map[string]string{"RateLimit": c.limit, "Retry-After": "60"})
			s.checkProblem(t, got, http.MethodGet, false)
		})
	}
}

func outerLimiter(name string) *core.Limiter {
	return core.Must(core.New(memory(), core.SlidingLog(name, core.PerMinute(10))))
}

// testCheckCorrections checks that Settle, Refund and RefundIf change the charge of the gate, and SettleFor that of
// Check. Without a gate, all of them change that of Check.
func (s *suite) testCheckCorrections(t *testing.T) {
	var asked []int
	outer := outerGate(gate.RefundIf(func(status int) bool { asked = append(asked, status); return true }))
	l := core.Must(core.New(memory(), apptest.Hundred))
	taken := func(gate, check int) {
		t.Helper()
		if g, c := apptest.Taken(t, outer.Limiter, "k"), apptest.Taken(t, l, "ann"); g != gate || c != check {
			t.Errorf("%d events are counted for the gate and %d for Check, want %d and %d", g, c, gate, check)
		}
	}
	for i, status := range []int{204, 429} {
		exchange(t, s.buildCalls([]Gate{outer}, func(w http.ResponseWriter, call Call) error {
			err := call.Check(l, "ann", apptest.Costs([]int{7, 1000}[i])) // more than the limit is denied
			if err == nil {
				taken(1, 7)
				testkit.Must(t, gate.SettleFor(call.Context(), l, 9))
				taken(1, 9)
				testkit.Must(t, gate.SettleFor(call.Context(), l, 1))
			} else if err := gate.SettleFor(call.Context(), l, 9); !errors.Is(err, gate.ErrNotAdmitted) {
				t.Errorf("the error of SettleFor after a denial is %v", err)
			}
			taken(1, 1)
			if err := gate.Settle(call.Context(), 5); err != nil {
				t.Error(err)
			}
			taken(5, 1)
			if err := gate.Refund(call.Context()); err != nil {
				t.Error(err)
			}
			taken(0, 1)
			if err := gate.Settle(call.Context(), 2); err != nil {
				t.Error(err)
			}
			if err == nil {
				answers(204)(w, nil)
			}
			return err
		}), request("GET", "/"))
		taken(0, 1)
		if len(asked) != i+1 || asked[i] != status {
			t.Errorf("RefundIf got %v, want %d at the end", asked, status)
		}
	}
	exchange(t, s.buildCalls(nil, func(w http.ResponseWriter, call Call) error {
		err := call.Check(l, "ann")
		taken(0, 2)
		testkit.Must(t, gate.Settle(call.Context(), 9))
		taken(0, 10)
		testkit.Must(t, gate.SettleFor(call.Context(), l, 5))
		taken(0, 6)
		if key, ok := gate.Key(call.Context(), l); key != "ann" || !ok {
			t.Errorf("the key is %q, %t", key, ok)
		}
		testkit.Must(t, gate.Refund(call.Context()))
		taken(0, 1)
		return err
	}), request("GET", "/"))
}

// testCheckPanics checks that invalid arguments of Check panic, with the name of the function.
func (s *suite) testCheckPanics(t *testing.T) {
	l := core.Must(core.New(memory(), apptest.Hundred))
	const only = adapterName + `: Check: only Cost, FailClosed, Headers, Jitter, OnDecision, OnError and XRateLimitRule can be given$`
	for name, c := range map[string]struct {
		limiter *core.Limiter
		opt     gate.Option
		want    string
	}{
		"nil limiter": {nil, gate.FailClosed(), adapterName + `: Check: limiter is nil$`}, "nil option": {l, nil, adapterName + `: Check: option 0 is nil$`},
		"Skip": {l, skipped, only}, "RefundIf": {l, refundAll, only}, "And": {l, gate.And(l, constant("k")), only},
		"MaxDelay": {l, gate.MaxDelay(time.Second), only}, "ExposeHeaders": {l, gate.ExposeHeaders(), only},
		"DeniedStatus": {l, gate.DeniedStatus(func(core.Decision) int { return 403 }), only},
		"Plan":         {l, gate.Plan(constant("pro")), only},
		"Routes":       {l, gate.Routes(apptest.PolicyFunc(func(*http.Request) *core.Limiter { return nil })), only},
		"Exempt":       {l, gate.Exempt(constant("k"), "192.0.2.1"), only},
	} {
		record(t, s.buildCalls(nil, func(_ http.ResponseWriter, call Call) error {
			got, _ := caught(func() { _ = call.Check(c.limiter, "ann", c.opt) }).(string)
			if !regexp.MustCompile(c.want).MatchString(got) {
				t.Errorf("%s: panicked with %q, want %s", name, got, c.want)
			}
			return nil
		}), request("GET", "/"))
	}
	if n := apptest.Taken(t, l, "ann"); n != 0 {
		t.Errorf("%d events are counted after panics, want 0", n)
	}
}

// testDeny checks the response to a decision of package core.
func (s *suite) testDeny(t *testing.T) {
	l := core.Must(core.New(memory(), core.SlidingLog("once", core.PerDay(1))))
	var first, second core.Decision
	for _, d := range []*core.Decision{&first, &second} {
		var err error
		if *d, err = l.Allow(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
	}
	const text = `Policy \"once\" allows 1 request per 86400 s. Retry in 86400 s.`
	for _, c := range []struct {
		name         string
		decision     core.Decision
		status       int
		limit, retry string
		body         string
	}{
		{"denial", second, 429, `"once";r=0;t=86400`, "86400", apptest.Problem(429, "", text, `"once"`)},
		{"zero Decision", core.Decision{}, 503, "", "1", undecided},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.inGates(t, func(t *testing.T, gates []Gate) {
				h := s.buildCalls(gates, func(_ http.ResponseWriter, call Call) error { return call.Deny(c.decision) })
				got := exchange(t, h, request("GET", "/v1/orders"))
				s.compareCall(t, got, gates, c.status, c.limit, c.retry, c.body)
				if got := record(t, h, request("HEAD", "/v1/orders")); got.Status != c.status || got.Body != "" {
					t.Errorf("HEAD: got %d %q, want %d without a body", got.Status, got.Body, c.status)
				}
			})
		})
	}
	t.Run("refunded", func(t *testing.T) {
		for _, method := range []string{"GET", "HEAD"} {
			var asked []int
			outer := outerGate(gate.RefundIf(func(status int) bool { asked = append(asked, status); return true }))
			exchange(t, s.buildCalls([]Gate{outer}, func(_ http.ResponseWriter, call Call) error { return call.Deny(second) }), request(method, "/"))
			if n := apptest.Taken(t, outer.Limiter, "k"); n != 0 || !slices.Equal(asked, []int{429}) {
				t.Errorf("%s: RefundIf got %v, and %d events are counted; want 429 once, and 0", method, asked, n)
			}
		}
	})
	t.Run("admitted", func(t *testing.T) {
		record(t, s.buildCalls(nil, func(_ http.ResponseWriter, call Call) error {
			got, _ := caught(func() { _ = call.Deny(first) }).(string)
			if !regexp.MustCompile(adapterName + `: Deny: the decision is allowed$`).MatchString(got) {
				t.Errorf("panicked with %q", got)
			}
			return nil
		}), request("GET", "/"))
	})
}
