package adapter

import (
	"errors"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

// TestSettleDenied: who was denied has nothing to pay, in whatever gate.
func TestSettleDenied(t *testing.T) {
	for name, opts := range map[string][]gate.Option{"plain": nil, "reserved": {gate.RefundIf(func(int) bool { return true })}} {
		l := core.Must(core.New(memstore.New(), core.TokenBucket("one", core.PerDay(1))))
		g := newGate("test", l, anyKey, opts)
		r := get("/")
		g.Admit(r.Context(), header(), r)
		denied, outcome, rejection := g.Admit(r.Context(), header(), r)
		if rejection == nil || outcome != nil {
			t.Fatalf("%s: %v, %v", name, outcome, rejection)
		}
		for _, cost := range []int{0, 1, 50} {
			if err := gate.Settle(denied.Context(), cost); !errors.Is(err, gate.ErrNotAdmitted) {
				t.Errorf("%s: settling at %d: %v, want ErrNotAdmitted", name, cost, err)
			}
		}
		d, err := l.Peek(t.Context(), "k")
		if err != nil || d.RetryAfter > rejection.Decision.RetryAfter {
			t.Errorf("%s: %+v, %v: something was charged", name, d, err)
		}
	}
}

// TestUndecidedIsBetween: a request that a gate lets through undecided is still one
// that the gates around it have decided.
func TestUndecidedIsBetween(t *testing.T) {
	quiet := gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
	for name, opts := range map[string][]gate.Option{
		"skipped":   {gate.Skip(func(*http.Request) bool { return true })},
		"undecided": {quiet},
	} {
		ten := core.Must(core.New(memstore.New(), core.SlidingLog("ten", core.PerDay(10))))
		never := core.Must(core.New(new(storetest.Fake).Set(storetest.Fail(core.ErrUnavailable)), core.SlidingLog("never", core.PerDay(1))))
		outer, inner := newGate("test", ten, anyKey, []gate.Option{gate.Headers(gate.XRateLimit)}), newGate("test", never, anyKey, opts)
		innermost := newGate("test", once(), anyKey, nil)
		h, r := header(), get("/")
		r, _, _ = outer.Admit(r.Context(), h, r)
		r, outcome, rejection := inner.Admit(r.Context(), h, r)
		if outcome != nil || rejection != nil {
			t.Fatalf("%s: %v, %v", name, outcome, rejection)
		}
		if d, ok := gate.FromContext(r.Context()); !ok || d.State(0).Rule.Name() != "ten" {
			t.Errorf("%s: the decision is %+v, %v; want that of the gate around", name, d, ok)
		}
		if err := gate.Settle(r.Context(), 2); !errors.Is(err, gate.ErrNotAdmitted) {
			t.Errorf("%s: %v, want ErrNotAdmitted", name, err)
		}
		r, _, _ = innermost.Admit(r.Context(), h, r)
		if h.Get("RateLimit-Policy") != `"once";q=1;w=86400` || h.Get("X-RateLimit-Limit") != "1" {
			t.Errorf("%s: the fields are %v; what the outermost tells must stay true", name, h)
		}
		if err := gate.Settle(r.Context(), 2); err != nil {
			t.Errorf("%s: the gate behind: %v", name, err)
		}
	}
}

// TestUndecidedAlone: without a gate around there is nothing to keep, and the
// request stays as it is.
func TestUndecidedAlone(t *testing.T) {
	g := newGate("test", once(), anyKey, []gate.Option{gate.Skip(func(*http.Request) bool { return true })})
	r := get("/")
	if got, _, _ := g.Admit(r.Context(), header(), r); got != r {
		t.Error("a skipped request is a copy")
	}
}
