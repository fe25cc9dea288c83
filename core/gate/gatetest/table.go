package gatetest

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// A row contains a request to one gate, and the expected response. Its name states the case and the
// contract.
type row struct {
	name string

	rules  []core.Rule   // burst if nil
	states states        // the results of the Store; if nil, all rules deny for 12 s if status is 429, and allow otherwise
	err    error         // of the Store
	key    keyfunc.Func  // finds "k" if nil
	and    keyfunc.Func  // for the same limiter, in the same decision
	opts   []gate.Option // of the gate
	before func(http.Header)
	req    func() *http.Request // GET /v1/orders if nil
	text   bool                 // the response is text if the adapter writes it

	status  int               // 200 if zero
	header  map[string]string // the header fields; "" means absent
	body    string            // the exact body, unless empty
	noStore bool              // the Store must not be called
}

func (row *row) run(t *testing.T, s *suite) {
	c := setup{rules: row.rules, states: row.states, err: row.err, key: row.key, and: row.and, opts: row.opts}
	if c.rules == nil {
		c.rules = []core.Rule{burst}
	}
	if c.states == nil {
		c.states = states{}
		for _, r := range c.rules {
			c.states[r.Name()] = core.State{Allowed: true}
			if row.status == http.StatusTooManyRequests {
				c.states[r.Name()] = denied(12 * time.Second)
			}
		}
	}
	a := s.start(c)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if row.before != nil {
			row.before(w.Header())
		}
		a.ServeHTTP(w, r)
	})
	req := request("GET", "/v1/orders?token=secret")
	if row.req != nil {
		req = row.req()
	}
	row.compare(t, s, req, exchange(t, h, req))
	runs := 1
	if req.Method == http.MethodHead {
		row.compare(t, s, req, record(t, h, req)) // a server would drop a body
		runs++
	}
	if row.status != 0 {
		runs = 0
	}
	a.checkRan(t, runs)
	if row.noStore && a.store.Calls() > 0 {
		t.Error("the Store was called")
	}
}

func (row *row) compare(t *testing.T, s *suite, req *http.Request, got reply) {
	t.Helper()
	want := maps.Clone(row.header)
	if want == nil {
		want = map[string]string{}
	}
	status, body := row.status, row.body
	if status == 0 {
		status, body = http.StatusOK, "ok\n"
		want["X-Content-Type-Options"] = "" // the handler's to set
	} else {
		want["Cache-Control"] = "no-store"
		want["X-Content-Type-Options"] = "nosniff"
		want["Content-Type"] = cmp.Or(s.errorHandler, gate.ProblemMediaType)
		if row.text && s.errorHandler == "" {
			want["Content-Type"] = "text/plain; charset=utf-8"
		} else if row.text {
			body = ""
		}
	}
	if req.Method == http.MethodHead {
		body = ""
		if s.errorHandler != "" {
			delete(want, "Content-Type")
		}
		if got.body != "" {
			t.Errorf("HEAD has a body: %q", got.body)
		}
	}
	if got.status != status {
		t.Errorf("status is %d, want %d", got.status, status)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		lines := got.header.Values(name)
		switch {
		case want[name] == "" && len(lines) > 0:
			t.Errorf("%s is %q, want none", name, lines)
		case want[name] != "" && (len(lines) != 1 || lines[0] != want[name]):
			t.Errorf("%s is %q\n\twant %q", name, lines, want[name])
		}
	}
	if body != "" && got.body != body {
		t.Errorf("body is %s\n\twant %s", got.body, body)
	}
}

func (s *suite) table(t *testing.T, rows []row) {
	for i := range rows {
		t.Run(rows[i].name, func(t *testing.T) { rows[i].run(t, s) })
	}
}

// allowed and denied return states of one rule.
func allowed(remaining int, window, reset time.Duration) core.State {
	return core.State{Allowed: true, Remaining: remaining, Window: window, ResetAfter: reset}
}

func denied(retry time.Duration) core.State {
	return core.State{RetryAfter: retry, Window: retry, ResetAfter: retry}
}

// atMost returns n, or the largest int of a 32-bit platform.
func atMost(n int64) int { return int(min(n, math.MaxInt)) }
