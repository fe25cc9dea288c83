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

// A row is a request to one gate, and the answer to it.
type row struct {
	name string
	why  string // what the contract says, for whoever breaks it

	rules  []core.Rule           // burst if nil
	states map[string]core.State // what the Store answers; everything is allowed if nil
	err    error                 // what the Store fails with
	key    keyfunc.Func          // a constant if nil
	second keyfunc.Func          // for the same limiter, in the same decision
	opts   []gate.Option
	before func(http.Header)    // what ran before the gate has set
	req    func() *http.Request // GET /v1/orders if nil
	text   bool                 // the answer is text where the adapter writes it

	status  int               // 200 if zero
	header  map[string]string // what the fields are; "" means absent
	body    string            // if not empty, the exact body
	noStore bool              // the Store is not to be asked
}

// Rules that many rows use, and the states of the example in the contract.
var (
	burst = core.SlidingLog("burst", core.PerMinute(100))
	daily = core.SlidingLog("daily", core.PerDay(1000))
)

func (row *row) run(t *testing.T, s *suite) {
	store := &script{states: row.states, err: row.err}
	if row.rules == nil {
		row.rules = []core.Rule{burst}
	}
	if store.states == nil {
		store.states = map[string]core.State{}
		for _, r := range row.rules {
			store.states[r.Name()] = core.State{Allowed: true}
		}
	}
	if row.key == nil {
		row.key = constant("k")
	}
	p := new(probe)
	limiter := core.Must(core.New(store, row.rules...))
	opts := slices.Clone(row.opts)
	if row.second != nil {
		opts = append(opts, gate.And(limiter, row.second))
	}
	h := s.build(limiter, row.key, opts, p.ServeHTTP)
	if row.before != nil {
		inner := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			row.before(w.Header())
			inner.ServeHTTP(w, r)
		})
	}
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
	if p.ran() != runs {
		t.Errorf("the handler ran %d times, want %d", p.ran(), runs)
	}
	if row.noStore && store.called() > 0 {
		t.Error("the Store was asked")
	}
	if t.Failed() {
		t.Log("the contract: " + row.why)
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

// allowed and denied make states of one rule.
func allowed(remaining int, window, reset time.Duration) core.State {
	return core.State{Allowed: true, Remaining: remaining, Window: window, ResetAfter: reset}
}

// atMost is n, or the largest int of a 32-bit platform.
func atMost(n int64) int { return int(min(n, math.MaxInt)) }

func denied(retry time.Duration) core.State {
	return core.State{RetryAfter: retry, Window: retry, ResetAfter: retry}
}

type states = map[string]core.State
