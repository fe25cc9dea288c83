package gatetest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/keyfunc"
)

// Rules that many cases use.
var (
	burst   = core.SlidingLog("burst", core.PerMinute(100))
	daily   = core.SlidingLog("daily", core.PerDay(1000))
	hundred = core.SlidingLog("hundred", core.PerHour(100))
)

// A setup is a gate and the handler behind it. Every field has a default.
type setup struct {
	limiter *core.Limiter    // of the rules on the store
	rules   []core.Rule      // hundred
	store   *storetest.Fake  // returns states and err if one of them is set, and decides in memory otherwise
	states  states           // by the name of the rule, or "name key"
	err     error            // of every call
	key     keyfunc.Func     // finds "k"
	and     keyfunc.Func     // adds the limiter once more with this key
	opts    []gate.Option    // none
	refund  bool             // adds RefundIf, which refunds everything
	handler http.HandlerFunc // writes 200 "ok"

	failing failingHandler   // in place of handler, for the option Errors
	answer  http.HandlerFunc // writes the response to the errors of failing
}

// An application is a handler behind a gate.
type application struct {
	http.Handler // the gate
	store        *storetest.Fake
	limiter      *core.Limiter

	mu       sync.Mutex
	runs     int           // of the handler
	decision core.Decision // the last that the handler saw
	decided  bool
	asked    []int // the statuses that RefundIf got
	keep     bool  // RefundIf refunds nothing
}

// start makes the application of c.
func (s *suite) start(c setup) *application {
	a := &application{store: c.store, limiter: c.limiter}
	switch {
	case a.store != nil:
	case c.states != nil || c.err != nil:
		a.store = scripted(c.states, c.err)
	default:
		a.store = memory()
	}
	if c.rules == nil {
		c.rules = []core.Rule{hundred}
	}
	if a.limiter == nil {
		a.limiter = core.Must(core.New(a.store, c.rules...))
	}
	if c.key == nil {
		c.key = constant("k")
	}
	opts := slices.Clone(c.opts)
	if c.and != nil {
		opts = append(opts, gate.And(a.limiter, c.and))
	}
	if c.refund {
		opts = append(opts, gate.RefundIf(a.refundIf))
	}
	if c.failing != nil {
		a.Handler = s.buildFailing(a.limiter, c.key, opts, c.failing, c.answer)
		return a
	}
	a.Handler = s.build(a.limiter, c.key, opts, a.handler(c.handler))
	return a
}

// handler returns a handler that counts the request and calls h.
func (a *application) handler(h http.HandlerFunc) http.HandlerFunc {
	if h == nil {
		h = says("ok\n")
	}
	return func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.runs++
		a.decision, a.decided = gate.FromContext(r.Context())
		a.mu.Unlock()
		h(w, r)
	}
}

func (a *application) refundIf(status int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, status)
	return !a.keep
}

func (a *application) ran() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs
}

func (a *application) saw() (core.Decision, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.decision, a.decided
}

// get sends a request without a server.
func (a *application) get(t *testing.T) reply {
	t.Helper()
	return record(t, a, request("GET", "/"))
}

// gets sends a request without a server, and compares the status.
func (a *application) gets(t *testing.T, status int) {
	t.Helper()
	if got := a.get(t); got.status != status {
		t.Errorf("the status is %d, want %d", got.status, status)
	}
}

// checkRan compares the number of runs of the handler.
func (a *application) checkRan(t *testing.T, want int) {
	t.Helper()
	if got := a.ran(); got != want {
		t.Errorf("the handler ran %d times, want %d", got, want)
	}
}

// checkTaken compares the events of the first rule that are counted for key.
func (a *application) checkTaken(t *testing.T, key string, want int) {
	t.Helper()
	if got := taken(t, a.limiter, key); got != want {
		t.Errorf("%d events are counted for %q, want %d", got, key, want)
	}
}

// checkRefund compares the statuses that RefundIf got, in ascending order, and the events that are
// counted for the key "k".
func (a *application) checkRefund(t *testing.T, asked string, taken int) {
	t.Helper()
	a.mu.Lock()
	got := fmt.Sprint(slices.Sorted(slices.Values(a.asked)))
	a.mu.Unlock()
	if got != asked {
		t.Errorf("RefundIf got the statuses %s, want %s", got, asked)
	}
	a.checkTaken(t, "k", taken)
}

// taken returns the number of events that the first rule of l has counted for key.
func taken(t *testing.T, l *core.Limiter, key string) int {
	t.Helper()
	return testkit.Used(t, l, key)[0]
}

func memory() *storetest.Fake { return &storetest.Fake{Store: memstore.New()} }

// states are the results of a Store, by the name of the rule or by "name key".
type states = map[string]core.State

// scripted returns a Store that returns the states, or fails with err.
func scripted(states states, err error) *storetest.Fake {
	return new(storetest.Fake).Set(func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
		for i := range charges {
			c := &charges[i]
			state, ok := states[c.Rule.Name+" "+c.Key]
			if !ok {
				state = states[c.Rule.Name]
			}
			c.Verdict = driver.Verdict{
				Rule: c.Rule, Allowed: state.Allowed, Unknown: state.Unknown, Soft: state.Soft, Remaining: state.Remaining,
				RetryAfter: state.RetryAfter, ResetAfter: state.ResetAfter, Window: state.Window, Delay: state.Delay,
			}
		}
		return err
	})
}

// onUndo returns a Store in memory that calls f before it undoes a charge, and fails if f does.
func onUndo(f func(ctx context.Context) error) *storetest.Fake {
	return memory().Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if charges[0].Op == driver.Undo {
			if err := f(ctx); err != nil {
				return err
			}
		}
		return next(ctx, charges)
	})
}

// undoFails returns a Store in memory that cannot undo.
func undoFails() *storetest.Fake { return onUndo(func(context.Context) error { return errSecret }) }

// stuck returns a Store whose calls return when the request ends, with err or the error of its
// context. It closes entered when it is called.
func stuck(entered chan<- struct{}, err error) *storetest.Fake {
	return new(storetest.Fake).Set(func(ctx context.Context, _ []driver.Charge, _ storetest.Call) error {
		close(entered)
		<-ctx.Done()
		return cmp.Or(err, ctx.Err())
	})
}

// recording returns a hook that adds the charges of every call to asked.
func recording(asked *[]driver.Charge) storetest.Hook {
	return func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		*asked = append(*asked, charges...)
		return next(ctx, charges)
	}
}

// constant returns a key function that always finds key.
func constant(key string) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// noKey returns a key function that always fails with err.
func noKey(err error) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return "", err }
}

// header returns a key function that takes the key from a header field.
func header(name string) keyfunc.Func {
	return func(_ context.Context, r *http.Request) (string, error) {
		if key := r.Header.Get(name); key != "" {
			return key, nil
		}
		return "", keyfunc.ErrNoKey
	}
}

// Options that many cases use. quiet keeps expected errors out of the log.
var (
	quiet      = gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
	letThrough = gate.OnError(func(*http.Request, error, int) int { return 0 })
	skipped    = gate.Skip(func(context.Context, *http.Request) bool { return true })
	refundAll  = gate.RefundIf(func(int) bool { return true })
	succeeded  = gate.RefundIf(func(status int) bool { return status < 400 })
)

func costs(n int) gate.Option {
	return gate.Cost(func(context.Context, *http.Request) int { return n })
}

// says returns a handler that writes a body.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// The function answers returns a handler that writes a status without a body.
func answers(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
	}
}

// settles returns a handler that settles its request to cost.
func settles(t *testing.T, cost int) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		if err := gate.Settle(r.Context(), cost); err != nil {
			t.Errorf("settling to %d: %v", cost, err)
		}
	}
}

// atOnce calls f n times, each on a goroutine, and waits for all.
func atOnce(n int, f func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(f)
	}
	wg.Wait()
}

// caught returns the value that f panicked with, or nil.
func caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}
