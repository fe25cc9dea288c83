package adapter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// An attempt is a request that a gate with RefundIf has admitted.
type attempt struct {
	*Outcome
	limiter  *core.Limiter
	statuses []int // of the calls of RefundIf
}

func newAttempt(t *testing.T) *attempt {
	t.Helper()
	a := &attempt{limiter: core.Must(core.New(memstore.New(), core.SlidingLog("five", core.PerHour(5))))}
	g := newGate(a.limiter, gate.RefundIf(func(status int) bool { a.statuses = append(a.statuses, status); return true }))
	r := httptest.NewRequest("GET", "/", nil)
	_, outcome, rejection := g.Admit(r.Context(), http.Header{}, r, "")
	if rejection != nil {
		t.Fatal(rejection)
	}
	a.Outcome = outcome
	return a
}

func (a *attempt) taken(t *testing.T) int {
	t.Helper()
	return testkit.Used(t, a.limiter, "k")[0]
}

func TestOutcome_Nil(t *testing.T) {
	var o *Outcome
	w, ran := httptest.NewRecorder(), 0
	o.Run(func() bool { ran++; return false })
	if o.NeedsStatus() || o.Watch(w) != http.ResponseWriter(w) || ran != 1 {
		t.Errorf("a nil Outcome: the handler ran %d times, want 1 without a status or a wrapper", ran)
	}
}

// Admit returns no Outcome if neither option needs one. A skipped request is returned unchanged.
func TestGate_Admit_NoOutcome(t *testing.T) {
	skip := gate.Skip(func(context.Context, *http.Request) bool { return true })
	for name, opts := range map[string][]gate.Option{"admitted": nil, "skipped": {skip}} {
		r := httptest.NewRequest("GET", "/", nil)
		got, outcome, rejection := newGate(once(), opts...).Admit(r.Context(), http.Header{}, r, "")
		if outcome != nil || rejection != nil || (got == r) != (opts != nil) {
			t.Errorf("%s: got %v, %v, the same request: %v", name, outcome, rejection, got == r)
		}
	}
}

// A framework may write the answer before or after the end of the handler.
func TestOutcome_Answer(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler func(o *Outcome) (answered bool)
		after   func(o *Outcome)
		want    int // the status of the only call of RefundIf; 0 is no call
	}{
		{"nothing", func(*Outcome) bool { return true }, nil, 200},
		{"the first", func(o *Outcome) bool { o.Answer(404); o.Answer(200); return true }, nil, 404},
		{"informational", func(o *Outcome) bool { o.Answer(100); o.Answer(103); o.Answer(403); return true }, nil, 403},
		{"nonsense", func(o *Outcome) bool { o.Answer(0); o.Answer(-5); o.Answer(42); return true }, nil, 200},
		{"switched", func(o *Outcome) bool { o.Answer(101); return true }, nil, 101},
		{"hijacked", func(o *Outcome) bool { o.Answer(101); o.Answer(200); return true }, nil, 101},
		{"hijacked late", func(o *Outcome) bool { o.Answer(200); o.Answer(101); return true }, nil, 101},
		{"hijacked, with an error", func(o *Outcome) bool { o.Answer(101); return false }, func(o *Outcome) { o.Answer(500) }, 101},
		{"by the framework", func(*Outcome) bool { return false }, func(o *Outcome) { o.Answer(409) }, 409},
		{"by the framework, twice", func(*Outcome) bool { return false }, func(o *Outcome) { o.Answer(409); o.Answer(200) }, 409},
		{"by the framework, informational", func(*Outcome) bool { return false }, func(o *Outcome) { o.Answer(103); o.Answer(409) }, 409},
		{"no answer", func(*Outcome) bool { return false }, nil, 0},
		{"written before an error", func(o *Outcome) bool { o.Answer(202); return false }, func(o *Outcome) { o.Answer(500) }, 202},
		{"written after all", func(*Outcome) bool { return true }, func(o *Outcome) { o.Answer(500) }, 200},
	} {
		a := newAttempt(t)
		a.Run(func() bool { return c.handler(a.Outcome) })
		if c.after != nil {
			c.after(a.Outcome)
		}
		switch {
		case c.want == 0 && (len(a.statuses) > 0 || a.taken(t) != 1):
			t.Errorf("%s: RefundIf got %v, and %d are taken; want no call and 1", c.name, a.statuses, a.taken(t))
		case c.want != 0 && (len(a.statuses) != 1 || a.statuses[0] != c.want || a.taken(t) != 0):
			t.Errorf("%s: RefundIf got %v, and %d are taken; want %d, once, and 0", c.name, a.statuses, a.taken(t), c.want)
		}
	}
}

// The first of several concurrent answers decides.
func TestOutcome_Answer_Concurrent(t *testing.T) {
	a := newAttempt(t)
	a.Run(func() bool { return false })
	testkit.Concurrently(32, func(int) { a.Answer(404) })
	if len(a.statuses) != 1 || a.taken(t) != 0 {
		t.Errorf("RefundIf got %v, and %d are taken; want one call and 0", a.statuses, a.taken(t))
	}
}

// A handler that ends its goroutine counts as status 500.
func TestOutcome_Run_Goexit(t *testing.T) {
	a := newAttempt(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		a.Run(func() bool {
			runtime.Goexit()
			return true
		})
	})
	wg.Wait()
	if len(a.statuses) != 1 || a.statuses[0] != 500 {
		t.Errorf("RefundIf got %v, want [500]", a.statuses)
	}
}
