package gate_test

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// The tests of this package use nethttplimit. Package gatetest tests every adapter.
func build(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
	return nethttplimit.New(l, key, opts...)(h)
}

func start(c setup) *application { return apptest.Start(build, c) }

// Short names of package apptest.
type (
	setup       = apptest.Setup
	application = apptest.Application
	states      = apptest.States
)

var (
	record, request           = apptest.Record, apptest.Request
	memory, onUndo, recording = apptest.Memory, apptest.OnUndo, apptest.Recording
	allowed, denied           = apptest.Allowed, apptest.Denied
	constant, noKey, costs    = apptest.Constant, apptest.NoKey, apptest.Costs
	says, answers             = apptest.Says, apptest.Answers
	atOnce, caught, taken     = apptest.AtOnce, apptest.Caught, apptest.Taken
	quiet, letThrough         = apptest.Quiet, apptest.LetThrough
	skipped                   = apptest.Skipped
	refundAll, succeeded      = apptest.RefundAll, apptest.Succeeded
	errSecret                 = apptest.ErrSecret
)

// Rules that many cases use.
var (
	burst   = core.SlidingLog("burst", core.PerMinute(100))
	daily   = core.SlidingLog("daily", core.PerDay(1000))
	hundred = apptest.Hundred
)

// header returns a key function that takes the key from a header field.
func header(name string) keyfunc.Func {
	return func(_ context.Context, r *http.Request) (string, error) {
		if key := r.Header.Get(name); key != "" {
			return key, nil
		}
		return "", keyfunc.ErrNoKey
	}
}

// with returns a GET request with header fields, which are names and values in turns.
func with(fields ...string) *http.Request {
	r := request("GET", "/v1/orders")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// reset resets keys of l.
func reset(t *testing.T, l *core.Limiter, keys ...string) {
	t.Helper()
	for _, key := range keys {
		_, err := l.Reset(t.Context(), key)
		testkit.Must(t, err)
	}
}

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
	text   bool                 // the response is text

	status  int               // 200 if zero
	header  map[string]string // the header fields; "" means absent
	body    string            // the exact body, unless empty
	noStore bool              // the Store must not be called
}

func (row *row) run(t *testing.T) {
	c := setup{Rules: row.rules, States: row.states, Err: row.err, Key: row.key, And: row.and, Opts: row.opts}
	if c.Rules == nil {
		c.Rules = []core.Rule{burst}
	}
	if c.States == nil {
		c.States = states{}
		for _, r := range c.Rules {
			c.States[r.Name()] = core.State{Allowed: true}
			if row.status == http.StatusTooManyRequests {
				c.States[r.Name()] = denied(12 * time.Second)
			}
		}
	}
	a := start(c)
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
	row.compare(t, req, record(t, h, req))
	runs := 1
	if row.status != 0 {
		runs = 0
	}
	a.CheckRan(t, runs)
	if row.noStore && a.Store.Calls() > 0 {
		t.Error("the Store was called")
	}
}

func (row *row) compare(t *testing.T, req *http.Request, got apptest.Reply) {
	t.Helper()
	want := maps.Clone(row.header)
	if want == nil {
		want = map[string]string{}
	}
	status, body := cmp.Or(row.status, http.StatusOK), row.body
	if row.status == 0 {
		body = "ok\n"
		want["X-Content-Type-Options"] = "" // the handler's to set
	} else {
		want["Cache-Control"], want["X-Content-Type-Options"], want["Content-Type"] = "no-store", "nosniff", gate.ProblemMediaType
	}
	if row.text {
		want["Content-Type"] = "text/plain; charset=utf-8"
	}
	if req.Method == http.MethodHead && got.Body != "" {
		t.Errorf("HEAD has a body: %q", got.Body)
	}
	if got.Status != status {
		t.Errorf("status is %d, want %d", got.Status, status)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		lines := got.Header.Values(name)
		switch {
		case want[name] == "" && len(lines) > 0:
			t.Errorf("%s is %q, want none", name, lines)
		case want[name] != "" && (len(lines) != 1 || lines[0] != want[name]):
			t.Errorf("%s is %q\n\twant %q", name, lines, want[name])
		}
	}
	if body != "" && got.Body != body {
		t.Errorf("body is %s\n\twant %s", got.Body, body)
	}
}

// table runs each row as a subtest.
func table(t *testing.T, rows []row) {
	for i := range rows {
		t.Run(rows[i].name, rows[i].run)
	}
}

// document is the problem document of a denial, and problem one of the type about:blank.
func document(detail, violated string) string { return apptest.Problem(429, "", detail, violated) }

func problem(status int, title, detail string) string {
	return apptest.Problem(status, title, detail, "")
}

// Texts of problem documents.
const (
	retry12      = `Policy \"burst\" allows 100 requests per 60 s. Retry in 12 s.`
	unidentified = "The request does not say who sent it."
)

// undecided is the problem document of a 503.
var undecided = problem(503, "", "Retry in 1 s.")

var noFields = fields("RateLimit", "")

// fields returns one field with value and no other field about limits.
func fields(name, value string) map[string]string {
	all := map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Retry-After": ""}
	all[name] = value
	return all
}

// accept returns a function that makes a request with this Accept.
func accept(v string) func() *http.Request {
	return func() *http.Request { return with("Accept", v) }
}
