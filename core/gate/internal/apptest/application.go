// Package apptest makes applications behind a gate, sends requests to them and compares the responses.
// It is for the tests of package gate and for package gatetest.
package apptest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// A Build returns an application with a gate around h.
type Build = func(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler

// A Setup is a gate and the handler behind it. Every field has a default.
type Setup struct {
	Limiter *core.Limiter    // of the rules on the store
	Rules   []core.Rule      // Hundred
	Store   *storetest.Fake  // returns States and Err if one of them is set, and decides in memory otherwise
	States  States           // by the name of the rule, or "name key"
	Err     error            // of every call
	Key     keyfunc.Func     // finds "k"
	And     keyfunc.Func     // adds the limiter once more with this key
	Opts    []gate.Option    // none
	Refund  bool             // adds RefundIf, which refunds everything
	Handler http.HandlerFunc // writes 200 "ok"
}

// An Application is a handler behind a gate.
type Application struct {
	http.Handler // the gate
	Store        *storetest.Fake
	Limiter      *core.Limiter

	mu       sync.Mutex
	runs     int           // of the handler
	decision core.Decision // the last that the handler saw
	decided  bool
	asked    []int // the statuses that RefundIf got
}

// Start makes the application of c.
func Start(build Build, c Setup) *Application {
	a := &Application{Store: c.Store, Limiter: c.Limiter}
	switch {
	case a.Store != nil:
	case c.States != nil || c.Err != nil:
		a.Store = Scripted(c.States, c.Err)
	default:
		a.Store = Memory()
	}
	if c.Rules == nil {
		c.Rules = []core.Rule{Hundred}
	}
	if a.Limiter == nil {
		a.Limiter = core.Must(core.New(a.Store, c.Rules...))
	}
	if c.Key == nil {
		c.Key = Constant("k")
	}
	opts := slices.Clone(c.Opts)
	if c.And != nil {
		opts = append(opts, gate.And(a.Limiter, c.And))
	}
	if c.Refund {
		opts = append(opts, gate.RefundIf(a.refundIf))
	}
	if c.Handler == nil {
		c.Handler = Says("ok\n")
	}
	a.Handler = build(a.Limiter, c.Key, opts, a.Counting(c.Handler))
	return a
}

// Counting returns a handler that counts the request and calls h.
func (a *Application) Counting(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.runs++
		a.decision, a.decided = gate.FromContext(r.Context())
		a.mu.Unlock()
		h(w, r)
	}
}

func (a *Application) refundIf(status int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, status)
	return true
}

// Asked returns the statuses that RefundIf got, in ascending order.
func (a *Application) Asked() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(slices.Values(a.asked))
}

// Ran returns the number of runs of the handler.
func (a *Application) Ran() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs
}

// Saw returns the last decision that the handler saw.
func (a *Application) Saw() (core.Decision, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.decision, a.decided
}

// Get sends a request without a server.
func (a *Application) Get(t *testing.T) Reply {
	t.Helper()
	return Record(t, a, Request("GET", "/"))
}

// Gets sends a request without a server, and compares the status.
func (a *Application) Gets(t *testing.T, status int) {
	t.Helper()
	if got := a.Get(t); got.Status != status {
		t.Errorf("the status is %d, want %d", got.Status, status)
	}
}

// CheckRan compares the number of runs of the handler.
func (a *Application) CheckRan(t *testing.T, want int) {
	t.Helper()
	if got := a.Ran(); got != want {
		t.Errorf("the handler ran %d times, want %d", got, want)
	}
}

// CheckTaken compares the events of the first rule that are counted for key.
func (a *Application) CheckTaken(t *testing.T, key string, want int) {
	t.Helper()
	if got := Taken(t, a.Limiter, key); got != want {
		t.Errorf("%d events are counted for %q, want %d", got, key, want)
	}
}

// CheckRefund compares the statuses that RefundIf got, in ascending order, and the events that are
// counted for the key "k".
func (a *Application) CheckRefund(t *testing.T, asked string, taken int) {
	t.Helper()
	if got := fmt.Sprint(a.Asked()); got != asked {
		t.Errorf("RefundIf got the statuses %s, want %s", got, asked)
	}
	a.CheckTaken(t, "k", taken)
}

// Taken returns the number of events that the first rule of l has counted for key.
func Taken(t *testing.T, l *core.Limiter, key string) int {
	t.Helper()
	return testkit.Used(t, l, key)[0]
}
