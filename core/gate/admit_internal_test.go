package gate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

// A gate calls the functions of the application in this order, each once, and none after it knows the answer.
func TestGate_Admit_Order(t *testing.T) {
	const all = "skip exempt routes cost key1 plan1 cost2 key2 plan2 key3"
	for name, c := range map[string]struct {
		fails     string // the function that returns an error, true for skip and exempt
		err       error
		exhausted bool // key1
		refundIf  bool
		ofBody    bool // the second key has a CostOfBody
		want      string
		status    int
	}{
		"admitted":                 {want: all + " decision"},
		"refund":                   {want: all + " decision", refundIf: true},
		"skipped":                  {fails: "skip", want: "skip decision"},
		"exempt":                   {fails: "exempt", want: "skip exempt decision"},
		"no first key":             {fails: "key1", err: keyfunc.ErrNoKey, want: "skip exempt routes cost key1 error decision", status: 400},
		"no second key":            {fails: "key2", err: keyfunc.ErrNoKey, want: "skip exempt routes cost key1 plan1 cost2 key2 error decision", status: 400},
		"first key is not limited": {fails: "key1", err: keyfunc.ErrNotLimited, want: "skip exempt routes cost key1 cost2 key2 plan2 key3 decision"},
		"no plan":                  {fails: "plan1", err: keyfunc.ErrNoKey, want: all + " decision"},
		"plan fails":               {fails: "plan1", err: errors.New("down"), want: "skip exempt routes cost key1 plan1 error decision", status: 500},
		"negative cost":            {fails: "cost2", want: "skip exempt routes cost key1 plan1 cost2 error decision", status: 500},
		"exhausted key":            {exhausted: true, want: "skip exempt routes cost key1 plan1 denied decision", status: 429},
		"body":                     {ofBody: true, want: "skip exempt routes cost key1 plan1 key2 plan2 key3 body decision"},
		"no cost in the body":      {ofBody: true, fails: "body", want: "skip exempt routes cost key1 plan1 key2 plan2 key3 body error decision", status: 400},
		"body, no second key":      {ofBody: true, fails: "key2", err: keyfunc.ErrNoKey, want: "skip exempt routes cost key1 plan1 key2 error decision", status: 400},
		"body, exhausted key":      {ofBody: true, exhausted: true, want: "skip exempt routes cost key1 plan1 denied decision", status: 429},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []string
			call := func(function string) (fails bool) {
				calls = append(calls, function)
				return function == c.fails
			}
			key := func(function string) keyfunc.Func {
				return func(context.Context, *http.Request) (string, error) {
					if call(function) {
						return "", c.err
					}
					return strings.Replace(function, "plan1", "pro", 1), nil
				}
			}
			s := memstore.New()
			limiter := func(name string, n int) *core.Limiter {
				return core.Must(core.New(s, core.SlidingLog(name, core.PerDay(n)).Plan("pro", core.PerDay(n)).Plan("plan2", core.PerDay(n))))
			}
			first := limiter("first", 1)
			cost2 := Cost(func(context.Context, *http.Request) int {
				if call("cost2") {
					return -1
				}
				return 1
			})
			if c.ofBody {
				cost2 = CostOfBody(9, func(context.Context, *http.Request, []byte) (int, error) {
					if call("body") {
						return 0, errors.New("no cost")
					}
					return 1, nil
				})
			}
			opts := []Option{
				Skip(func(context.Context, *http.Request) bool { return call("skip") }),
				Exempt(func(context.Context, *http.Request) (string, error) {
					if call("exempt") {
						return "192.0.2.1", nil
					}
					return "203.0.113.1", nil
				}, "192.0.2.0/24"),
				Routes(policyFunc(func(*http.Request) *core.Limiter { call("routes"); return nil })),
				Cost(func(context.Context, *http.Request) int { call("cost"); return 1 }),
				Plan(key("plan1")),
				And(limiter("second", 5), key("key2"), Plan(key("plan2")), cost2),
				And(core.Must(core.New(s, core.SlidingLog("third", core.PerDay(5)))), key("key3")), // without plans
				OnError(func(_ *http.Request, _ error, status int) int { call("error"); return status }),
				DeniedStatus(func(core.Decision) int { call("denied"); return 0 }),
				OnDecision(func(context.Context, Event) { call("decision") }),
			}
			if c.refundIf {
				opts = append(opts, RefundIf(func(int) bool { call("refund"); return false }))
			}
			g := newGate("gate", first, key("key1"), opts)
			r := httptest.NewRequest("GET", "/", nil)
			if c.exhausted {
				for range 2 { // the second is denied, and its key is known to be exhausted
					g.Admit(r.Context(), http.Header{}, r, "")
				}
				calls = nil
			}
			_, _, rejection := g.Admit(r.Context(), http.Header{}, r, "")
			status := 0
			if rejection != nil {
				status = rejection.Problem.Status
			}
			if got := strings.Join(calls, " "); got != c.want || status != c.status {
				t.Errorf("got  %s, status %d\nwant %s, status %d", got, status, c.want, c.status)
			}
		})
	}
}

type policyFunc func(*http.Request) *core.Limiter

func (f policyFunc) ForRequest(r *http.Request) *core.Limiter { return f(r) }

// A cost that is negative after a key was charged early refunds this charge, and the decision about it is not
// that of the request.
func TestGate_Admit_NegativeCostAfterEarlyCharge(t *testing.T) {
	s, cost := memstore.New(), 1
	first := core.Must(core.New(s, core.SlidingLog("first", core.PerDay(1))))
	constant := func(key string) keyfunc.Func {
		return func(context.Context, *http.Request) (string, error) { return key, nil }
	}
	var e Event
	g := newGate("gate", first, constant("a"), []Option{
		And(core.Must(core.New(s, core.SlidingLog("second", core.PerDay(9)))), constant("b"), Cost(func(context.Context, *http.Request) int { return cost })),
		OnError(func(*http.Request, error, int) int { return 0 }),
		OnDecision(func(_ context.Context, event Event) { e = event }),
	})
	r := httptest.NewRequest("GET", "/", nil)
	for range 2 {
		g.Admit(r.Context(), http.Header{}, r, "")
	}
	if e.Outcome != Denied {
		t.Fatalf("got %v for the second request, want a denial", e.Outcome)
	}
	if _, err := first.Reset(r.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	cost = -1
	h := http.Header{}
	_, _, rejection := g.Admit(r.Context(), h, r, "")
	if rejection != nil || e.Outcome != LetThrough || e.Decision.Len() != 0 || !errors.Is(e.Err, core.ErrNegativeCost) || len(h) != 0 {
		t.Errorf("got %+v with the fields %v, want a request that is let through undecided", e, h)
	}
	if d, err := first.Peek(r.Context(), "a"); err != nil || d.State(0).Used() != 0 {
		t.Errorf("%v, %v: the early charge was not refunded", d, err)
	}
}
