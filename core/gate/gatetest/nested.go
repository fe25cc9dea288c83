package gatetest

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
)

// stack puts h behind gates, the outermost first, each in an application of its own.
func (s *suite) stack(gates []Gate, h http.HandlerFunc) http.Handler {
	for _, g := range slices.Backward(gates) {
		h = s.build(g.Limiter, g.Key, g.Opts, h).ServeHTTP
	}
	return h
}

func (s *suite) testGates(t *testing.T) {
	t.Run("applications", func(t *testing.T) { s.testGatesOf(t, s.stack) })
	if s.nest != nil {
		t.Run("one application", func(t *testing.T) { s.testGatesOf(t, s.nest) })
	}
}

// testGatesOf tests several gates that build puts around a handler, the outermost first.
func (s *suite) testGatesOf(t *testing.T, build func(gates []Gate, h http.HandlerFunc) http.Handler) {
	scripted := func(name string, state core.State, err error, opts ...gate.Option) Gate {
		l := core.Must(core.New(apptest.Scripted(states{name: state}, err), core.SlidingLog(name, core.PerMinute(10))))
		return Gate{l, constant("k"), append(opts, quiet)}
	}
	outer, inner := scripted("outer", allowed(9, time.Minute, 0), nil), scripted("inner", allowed(8, time.Minute, 0), nil)
	legacy := scripted("outer", allowed(9, time.Minute, 0), nil, gate.Headers(gate.XRateLimit))
	over := denied(30 * time.Second)
	for _, c := range []struct {
		name                 string
		gates                []Gate
		status               int
		limit, retry, legacy string
		decisions            []string // that the handler sees
	}{
		{"both admit", []Gate{outer, inner}, 200, `"outer";r=9;t=60, "inner";r=8;t=60`, "", "", []string{"outer", "inner"}},
		{"inner denies", []Gate{outer, scripted("inner", over, nil)}, 429, `"outer";r=9;t=60, "inner";r=0;t=30`, "30", "", nil},
		{"outer denies", []Gate{scripted("outer", over, nil), inner}, 429, `"outer";r=0;t=30`, "30", "", nil},
		{"inner Store fails", []Gate{outer, scripted("inner", over, errSecret)}, 200, `"outer";r=9;t=60`, "", "", []string{"outer"}},
		{"outer Store fails", []Gate{scripted("outer", over, errSecret), inner}, 200, `"inner";r=8;t=60`, "", "", []string{"inner"}},
		{"inner skips", []Gate{outer, scripted("inner", over, nil, skipped)}, 200, `"outer";r=9;t=60`, "", "", []string{"outer"}},
		{"inner updates the fields of outer", []Gate{legacy, inner}, 200, "", "", "8", []string{"outer", "inner"}},
		{"outer without fields", []Gate{scripted("outer", allowed(9, time.Minute, 0), nil, gate.Headers()), inner}, 200, "", "", "", []string{"outer", "inner"}},
		{"inner adds fields", []Gate{legacy, scripted("inner", allowed(8, time.Minute, 0), nil, gate.Headers(gate.IETFDraft))}, 200, `"inner";r=8;t=60`, "", "9", []string{"outer", "inner"}},
		{"outer without fields skips", []Gate{scripted("outer", over, nil, skipped, gate.Headers(gate.XRateLimit)), inner}, 200, "", "", "8", []string{"inner"}},
		{"outer names the rule", []Gate{scripted("outer", allowed(9, time.Minute, 0), nil, gate.Headers(gate.XRateLimit), gate.XRateLimitRule("outer")), inner}, 200, "", "", "9", []string{"outer", "inner"}},
		{"inner names another rule", []Gate{
			scripted("outer", allowed(7, time.Minute, 0), nil, gate.Headers(gate.XRateLimit), gate.XRateLimitRule("outer")),
			scripted("inner", allowed(8, time.Minute, 0), nil, gate.XRateLimitRule("inner")),
		}, 200, "", "", "8", []string{"outer", "inner"}},
		{"three, refunded", []Gate{
			scripted("outer", allowed(9, time.Minute, 0), nil, refundAll), inner, scripted("third", allowed(7, time.Minute, 0), nil, refundAll),
		}, 200, `"outer";r=9;t=60, "inner";r=8;t=60, "third";r=7;t=60`, "", "", []string{"outer", "inner", "third"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen []string
			got := exchange(t, build(c.gates, func(w http.ResponseWriter, r *http.Request) {
				for _, d := range gate.DecisionsFrom(r.Context()) {
					seen = append(seen, d.State(0).Rule.Name())
				}
				if d, ok := gate.FromContext(r.Context()); !ok || d.State(0).Rule.Name() != seen[len(seen)-1] {
					t.Errorf("FromContext returns %v, %v, want the decision of the innermost gate", d, ok)
				}
				says("ok\n")(w, r)
			}), request("GET", "/"))
			if got.Status != c.status || !slices.Equal(seen, c.decisions) {
				t.Errorf("got %d after the decisions %v, want %d after %v", got.Status, seen, c.status, c.decisions)
			}
			s.checkFields(t, got, map[string]string{"RateLimit": c.limit, "Retry-After": c.retry, "X-RateLimit-Remaining": c.legacy})
		})
	}
	t.Run("Settle and RefundIf", func(t *testing.T) {
		l := core.Must(core.New(memory(), apptest.Hundred))
		if _, err := l.AllowN(t.Context(), "k", 7); err != nil {
			t.Fatal(err)
		}
		var asked []int
		refund := gate.RefundIf(func(status int) bool { asked = append(asked, status); return true })
		exchange(t, build([]Gate{{l, constant("k"), []gate.Option{refund}}, {l, constant("k"), []gate.Option{refund}}}, func(w http.ResponseWriter, r *http.Request) {
			if err := gate.Settle(r.Context(), 20); err != nil || apptest.Taken(t, l, "k") != 28 {
				t.Errorf("%v, and %d events are counted; want 28: 7 before, 1 of the outer gate and 20 of the inner gate", err, apptest.Taken(t, l, "k"))
			}
			answers(404)(w, r)
		}), request("GET", "/"))
		if n := apptest.Taken(t, l, "k"); n != 7 || !slices.Equal(asked, []int{404, 404}) {
			t.Errorf("%d events are counted, and RefundIf got %v; want 7 and 404 twice", n, asked)
		}
	})
	for _, method := range []string{"GET", "HEAD"} {
		t.Run("RefundIf of the outer gate, "+method+" denied by the inner gate", func(t *testing.T) {
			var asked []int
			refund := gate.RefundIf(func(status int) bool { asked = append(asked, status); return true })
			l := core.Must(core.New(memory(), apptest.Hundred))
			exchange(t, build([]Gate{{l, constant("k"), []gate.Option{refund}}, scripted("inner", over, nil)}, says("ok\n")), request(method, "/"))
			if n := apptest.Taken(t, l, "k"); n != 0 || !slices.Equal(asked, []int{429}) {
				t.Errorf("%d events are counted, and RefundIf got %v; want 0 and 429 once", n, asked)
			}
		})
	}
}
