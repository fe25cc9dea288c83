package gatetest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/core/storetest"
)

// testContexts checks the contexts that the Store, the functions of the application and the handler get.
func (s *suite) testContexts(t *testing.T) {
	type own struct{}
	ctx, cancel := context.WithDeadline(context.WithValue(t.Context(), own{}, "value"), time.Now().Add(time.Hour))
	defer cancel()
	want, _ := ctx.Deadline()
	check := func(place string, got context.Context) {
		if end, _ := got.Deadline(); got.Value(own{}) != "value" || !end.Equal(want) || got.Err() != nil {
			t.Errorf("%s: the value is %v, the deadline %v and the error %v", place, got.Value(own{}), end, got.Err())
		}
	}
	var views []context.Context // of the functions of the application
	see := func(ctx context.Context, r *http.Request) {
		views = append(views, ctx)
		check("the request of a function", r.Context())
	}
	store := memory().Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		check("the Store", ctx)
		return next(ctx, charges)
	})
	a := s.start(setup{
		Store: store,
		Key:   func(ctx context.Context, r *http.Request) (string, error) { see(ctx, r); return "k", nil },
		Opts: []gate.Option{
			gate.Skip(func(ctx context.Context, r *http.Request) bool { see(ctx, r); return false }),
			gate.Cost(func(ctx context.Context, r *http.Request) int { see(ctx, r); return 1 }),
		},
		Handler: func(_ http.ResponseWriter, r *http.Request) { check("the handler", r.Context()) },
	})
	record(t, a, request("GET", "/").WithContext(ctx))
	a.CheckRan(t, 1)
	if len(views) != 3 || views[0] != views[1] || views[1] != views[2] {
		t.Errorf("Skip, Cost and the key function got the contexts %v, want one", views)
	}
	t.Run("decision", func(t *testing.T) {
		a := s.start(setup{States: states{"hundred": allowed(7, time.Second, 0)}})
		exchange(t, a, request("GET", "/"))
		if d, ok := a.Saw(); !ok || !d.Allowed || d.Len() != 1 || d.State(0).Remaining != 7 {
			t.Errorf("the handler sees %+v, %v; want the decision of the gate", d, ok)
		}
	})
	t.Run("Settle", func(t *testing.T) {
		for name, opts := range map[string][]gate.Option{"plain": nil, "refunded": {gate.RefundIf(func(int) bool { return false })}} {
			var kept context.Context
			a := s.start(setup{Opts: opts, Handler: func(_ http.ResponseWriter, r *http.Request) {
				kept = r.Context()
				if err := gate.Settle(kept, 40); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}})
			exchange(t, a, request("GET", "/"))
			a.CheckTaken(t, "k", 40)
			if err := gate.Settle(kept, 30); err != nil { // after the request
				t.Errorf("%s: %v", name, err)
			}
			a.CheckTaken(t, "k", 30)
		}
	})
	t.Run("no decision", func(t *testing.T) {
		for name, c := range map[string]setup{"skipped": {Opts: []gate.Option{skipped}}, "undecided": {Err: errSecret, Opts: []gate.Option{quiet}}} {
			c.Handler = func(_ http.ResponseWriter, r *http.Request) {
				if err := gate.Settle(r.Context(), 50); !errors.Is(err, gate.ErrNotAdmitted) {
					t.Errorf("%s: %v, want ErrNotAdmitted", name, err)
				}
			}
			a := s.start(c)
			exchange(t, a, request("GET", "/"))
			if d, ok := a.Saw(); ok {
				t.Errorf("%s: the handler sees %+v, want no decision", name, d)
			}
			a.CheckRan(t, 1)
		}
	})
}

// testHangUp checks that a client that hangs up ends the call of the Store, and that the handler does not
// run: otherwise a client could pass the limit by hanging up.
func (s *suite) testHangUp(t *testing.T) {
	for name, opts := range map[string][]gate.Option{"in the Store": nil, "in the Store, all errors let through": {apptest.LetThrough}} {
		t.Run(name, func(t *testing.T) {
			entered, done := make(chan struct{}), make(chan struct{})
			a := s.start(setup{Store: apptest.Stuck(entered, nil), Opts: opts})
			s.hangUp(t, a, entered, done)
			a.CheckRan(t, 0)
		})
	}
	t.Run("in the queue", func(t *testing.T) {
		entered, done := make(chan struct{}, 1), make(chan struct{})
		store := memory().Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			err := next(ctx, charges)
			select {
			case entered <- struct{}{}:
			default: // the refund
			}
			return err
		})
		a := s.start(setup{Store: store, Rules: []core.Rule{core.LeakyBucket("q", core.PerHour(1).WithBurst(9))}, Opts: []gate.Option{gate.MaxDelay(24 * time.Hour)}})
		a.Gets(t, 200)
		<-entered
		s.hangUp(t, a, entered, done)
		a.CheckRan(t, 1)
		a.CheckTaken(t, "k", 1)
	})
}

// hangUp sends a request to a real server, hangs up after entered, and returns after the handlers.
func (s *suite) hangUp(t *testing.T, a *application, entered <-chan struct{}, done chan struct{}) {
	t.Helper()
	server := httptest.NewServer(apptest.ClosesAfter(done, a))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := server.Client().Do(r); err == nil {
		resp.Body.Close()
		t.Errorf("the client got %s after it hung up", resp.Status)
	}
	<-done
}
