package adapter

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
)

// An attempt is a request that was admitted by a gate with RefundIf.
type attempt struct {
	*Outcome
	limiter *core.Limiter
	asked   []int
}

func newAttempt(t *testing.T) *attempt {
	t.Helper()
	a := &attempt{limiter: core.Must(core.New(memstore.New(), core.SlidingLog("five", core.PerHour(5))))}
	g := newGate("test", a.limiter, anyKey, []gate.Option{gate.RefundIf(func(status int) bool { a.asked = append(a.asked, status); return true })})
	r := get("/")
	_, outcome, rejection := g.Admit(r.Context(), header(), r)
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

func TestNilOutcome(t *testing.T) {
	var o *Outcome
	w, ran := httptest.NewRecorder(), 0
	o.Run(func() bool { ran++; return false })
	if o.NeedsStatus() || o.Watch(w) != http.ResponseWriter(w) || ran != 1 {
		t.Errorf("an outcome that nobody waits for: the handler ran %d times", ran)
	}
}

// TestNoOutcome has requests after which a gate does nothing. A skipped one stays as it is.
func TestNoOutcome(t *testing.T) {
	skip := gate.Skip(func(*http.Request) bool { return true })
	for name, opts := range map[string][]gate.Option{"admitted": nil, "skipped": {skip}} {
		r := get("/")
		got, outcome, rejection := newGate("test", once(), anyKey, opts).Admit(r.Context(), header(), r)
		if outcome != nil || rejection != nil || (got == r) != (opts != nil) {
			t.Errorf("%s: got %v, %v, the same request: %v", name, outcome, rejection, got == r)
		}
	}
}

// TestAnswer has answers in every order that a framework may write them in.
func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler func(o *Outcome) (answered bool)
		after   func(o *Outcome)
		want    int // what RefundIf is asked, once; 0 is nothing
	}{
		{"nothing", func(*Outcome) bool { return true }, nil, 200},
		{"the first", func(o *Outcome) bool { o.Answer(404); o.Answer(200); return true }, nil, 404},
		{"informational", func(o *Outcome) bool { o.Answer(100); o.Answer(103); o.Answer(403); return true }, nil, 403},
		{"nonsense", func(o *Outcome) bool { o.Answer(0); o.Answer(-5); o.Answer(42); return true }, nil, 200},
		{"switched", func(o *Outcome) bool { o.Answer(101); return true }, nil, 101},
		{"hijacked", func(o *Outcome) bool { o.Hijacked(); o.Answer(200); return true }, nil, 101},
		{"hijacked late", func(o *Outcome) bool { o.Answer(200); o.Hijacked(); return true }, nil, 101},
		{"hijacked, with an error", func(o *Outcome) bool { o.Hijacked(); return false }, func(o *Outcome) { o.Answer(500) }, 101},
		{"by others", func(*Outcome) bool { return false }, func(o *Outcome) { o.Answer(409) }, 409},
		{"by others, twice", func(*Outcome) bool { return false }, func(o *Outcome) { o.Answer(409); o.Answer(200) }, 409},
		{"by others, informational", func(*Outcome) bool { return false }, func(o *Outcome) { o.Answer(103); o.Answer(409) }, 409},
		{"by nobody", func(*Outcome) bool { return false }, nil, 0},
		{"written before an error", func(o *Outcome) bool { o.Answer(202); return false }, func(o *Outcome) { o.Answer(500) }, 202},
		{"written after all", func(*Outcome) bool { return true }, func(o *Outcome) { o.Answer(500) }, 200},
	} {
		a := newAttempt(t)
		a.Run(func() bool { return c.handler(a.Outcome) })
		if c.after != nil {
			c.after(a.Outcome)
		}
		switch {
		case c.want == 0 && (len(a.asked) > 0 || a.taken(t) != 1):
			t.Errorf("%s: asked about %v, and %d are taken; want nothing and 1", c.name, a.asked, a.taken(t))
		case c.want != 0 && (len(a.asked) != 1 || a.asked[0] != c.want || a.taken(t) != 0):
			t.Errorf("%s: asked about %v, and %d are taken; want %d, once, and 0", c.name, a.asked, a.taken(t), c.want)
		}
	}
}

// TestAnswersAtOnce: however many answer, one decides.
func TestAnswersAtOnce(t *testing.T) {
	a := newAttempt(t)
	a.Run(func() bool { return false })
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() { a.Answer(404) })
	}
	wg.Wait()
	if len(a.asked) != 1 || a.taken(t) != 0 {
		t.Errorf("asked about %v, and %d are taken; want one question and 0", a.asked, a.taken(t))
	}
}

// TestGoexit: a handler that ends its goroutine has not answered well.
func TestGoexit(t *testing.T) {
	a := newAttempt(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		a.Run(func() bool {
			runtime.Goexit()
			return true
		})
	})
	wg.Wait()
	if len(a.asked) != 1 || a.asked[0] != 500 {
		t.Errorf("asked about %v, want [500]", a.asked)
	}
}
