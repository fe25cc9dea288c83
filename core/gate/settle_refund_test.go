package gate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/keyfunc"
)

func TestRefundIf_False(t *testing.T) {
	a := start(setup{Handler: answers(404), Opts: []gate.Option{gate.RefundIf(func(status int) bool { return status != 404 })}})
	a.Gets(t, 404)
	a.CheckTaken(t, "k", 1)
}

func TestRefundIf_TwoKeys(t *testing.T) {
	a := start(setup{Refund: true, Opts: []gate.Option{costs(3)}, And: constant("b")})
	a.Gets(t, 200)
	a.CheckRefund(t, "[200]", 0)
	a.CheckTaken(t, "b", 0)
}

// TestRefundIf_FailuresOnly is a login that admits five failures.
func TestRefundIf_FailuresOnly(t *testing.T) {
	login := func(h http.HandlerFunc) *application {
		return start(setup{
			Rules:   []core.Rule{core.SlidingLog("five", core.PerHour(5)), core.TokenBucket("bucket", core.PerHour(5))},
			Opts:    []gate.Option{succeeded},
			Handler: h,
		})
	}
	t.Run("500 failures at once", func(t *testing.T) {
		var rejected atomic.Int64
		a := login(answers(401))
		atOnce(500, func() {
			w := httptest.NewRecorder()
			a.ServeHTTP(w, request("POST", "/login"))
			if w.Code == http.StatusTooManyRequests {
				rejected.Add(1)
			}
		})
		a.CheckRan(t, 5)
		if n := rejected.Load(); n != 495 {
			t.Errorf("%d are denied, want 495", n)
		}
	})
	t.Run("in turns", func(t *testing.T) {
		status := 0
		a := login(func(w http.ResponseWriter, r *http.Request) { answers(status)(w, r) })
		for _, status = range []int{403, 204, 403, 204, 403, 204, 403, 204, 403, 429, 429} {
			a.Gets(t, status)
		}
	})
}

// Requests that were not charged are not refunded.
func TestRefundIf_NotCharged(t *testing.T) {
	over := states{"hundred": denied(time.Second)}
	for name, c := range map[string]setup{
		"denied":              {States: over},
		"skipped":             {States: over, Opts: []gate.Option{skipped}},
		"undecided":           {Err: errSecret, Opts: []gate.Option{quiet}},
		"undecided, closed":   {Err: errSecret, Opts: []gate.Option{quiet, gate.FailClosed()}},
		"no key":              {States: over, Key: noKey(keyfunc.ErrNoKey)},
		"no key, let through": {States: over, Key: noKey(keyfunc.ErrNoKey), Opts: []gate.Option{letThrough}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Refund = true
			a := start(c)
			record(t, a, request("GET", "/"))
			if n := a.Store.Charges(driver.Undo) + a.Store.Charges(driver.Credit); n > 0 || len(a.Asked()) > 0 {
				t.Errorf("RefundIf got %v, and there were %d refunds; want none", a.Asked(), n)
			}
		})
	}
	t.Run("a cost of zero", func(t *testing.T) {
		a := start(setup{Refund: true, Opts: []gate.Option{costs(0)}})
		record(t, a, request("GET", "/"))
		if n := a.Store.Calls(); n != 1 {
			t.Errorf("the Store was called %d times, want once", n)
		}
		a.CheckRefund(t, "[200]", 0)
	})
}

// TestRefundIf_StoreFails checks that the response does not depend on the refund.
func TestRefundIf_StoreFails(t *testing.T) {
	tooLate := gate.OnError(func(_ *http.Request, err error, status int) int {
		t.Errorf("OnError got %v, %d; want no call after the answer", err, status)
		return status
	})
	for name, opts := range map[string][]gate.Option{"": nil, "with OnError": {tooLate}, "closed": {gate.FailClosed()}} {
		t.Run("logged "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(setup{Store: onUndo(func(context.Context) error { return errSecret }), Key: constant("key-of-a-person"), Opts: opts, Refund: true})
				lines := logged(t, func() {
					everySecond(3, 5, func() {
						if got := record(t, a, request("GET", "/?token=secret")); got.Status != 200 || got.Body != "ok\n" {
							t.Errorf("the answer is %d %q, want 200 ok", got.Status, got.Body)
						}
					})
				})
				checkLines(t, lines, 3, "weir: the cost of a request could not be refunded")
				a.CheckTaken(t, "key-of-a-person", 15)
			})
		})
	}
	t.Run("the client leaves with its answer", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := onUndo(func(refund context.Context) error { cancel(); return refund.Err() })
		a := start(setup{Store: store, Refund: true})
		record(t, a, request("GET", "/").WithContext(ctx))
		a.CheckRefund(t, "[200]", 0)
	})
}

func TestSettle(t *testing.T) {
	never := gate.RefundIf(func(int) bool { return false })
	queue := core.LeakyBucket("queue", core.PerHour(100))
	type call struct {
		cost int
		err  error
		want int // taken after it
	}
	for _, c := range []struct {
		name string
		setup
		calls []call
	}{
		{"plain", setup{}, []call{
			{1, nil, 1}, {7, nil, 7}, {7, nil, 7}, {6, nil, 6}, {0, nil, 0},
			{-1, core.ErrNegativeCost, 0}, {100, nil, 100}, {500, nil, 100}, {99, nil, 99},
		}},
		{"plain, into debt", setup{Rules: []core.Rule{core.TokenBucket("bucket", core.PerHour(100))}}, []call{{250, nil, 100}}},
		{"Cost", setup{Opts: []gate.Option{costs(10)}}, []call{
			{10, nil, 10}, {25, nil, 25}, {3, nil, 3}, {0, nil, 0}, {-1, core.ErrNegativeCost, 0}, {8, nil, 8},
		}},
		{"a cost of zero", setup{Opts: []gate.Option{costs(0)}}, []call{{0, nil, 0}, {9, nil, 9}, {4, nil, 4}}},
		{"RefundIf", setup{Opts: []gate.Option{never}}, []call{{5, nil, 5}, {2, nil, 2}, {0, nil, 0}}},
		{"leaky bucket", setup{Rules: []core.Rule{queue}}, []call{{5, nil, 5}, {2, nil, 2}, {0, nil, 0}}},
		{"MaxDelay", setup{Opts: []gate.Option{gate.MaxDelay(time.Second)}}, []call{{5, nil, 5}, {2, nil, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a *application
			c.And = constant("b")
			c.Handler = func(_ http.ResponseWriter, r *http.Request) {
				for i, call := range c.calls {
					if err := gate.Settle(r.Context(), call.cost); !errors.Is(err, call.err) {
						t.Errorf("call %d, to %d: %v, want %v", i, call.cost, err, call.err)
					}
					a.CheckTaken(t, "k", call.want)
					a.CheckTaken(t, "b", call.want)
				}
			}
			a = start(c.setup)
			record(t, a, request("GET", "/"))
			a.CheckRan(t, 1)
		})
	}
	t.Run("innermost", func(t *testing.T) {
		inner := start(setup{
			Rules: []core.Rule{core.TokenBucket("tokens", core.Per(100_000, 1000*time.Hour))}, Opts: []gate.Option{costs(1000)}, Handler: settles(t, 250),
		})
		outer := start(setup{Handler: inner.ServeHTTP})
		record(t, outer, request("GET", "/"))
		outer.CheckTaken(t, "k", 1)
		inner.CheckTaken(t, "k", 250)
	})
	t.Run("ended", func(t *testing.T) {
		for _, opts := range [][]gate.Option{nil, {costs(1)}} {
			var kept context.Context
			a := start(setup{Opts: opts, Handler: func(_ http.ResponseWriter, r *http.Request) { kept = r.Context() }})
			ctx, cancel := context.WithCancel(t.Context())
			record(t, a, request("GET", "/").WithContext(ctx))
			cancel()
			if err := gate.Settle(kept, 30); err != nil {
				t.Error(err)
			}
			a.CheckTaken(t, "k", 30)
		}
	})
	t.Run("at once", func(t *testing.T) { // no call adds to another
		a := start(setup{Handler: func(w http.ResponseWriter, r *http.Request) {
			var wg sync.WaitGroup
			for cost := 1; cost <= 64; cost++ {
				wg.Go(func() {
					if err := gate.Settle(r.Context(), cost); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			settles(t, 64)(w, r)
		}})
		a.Get(t)
		a.CheckTaken(t, "k", 64)
	})
	t.Run("then refunded", func(t *testing.T) {
		var a *application
		a = start(setup{Refund: true, Handler: func(w http.ResponseWriter, r *http.Request) {
			settles(t, 40)(w, r)
			a.CheckTaken(t, "k", 40)
			answers(200)(w, r)
		}})
		record(t, a, request("GET", "/"))
		a.CheckRefund(t, "[200]", 0)
	})
	t.Run("store fails", func(t *testing.T) {
		for name, opts := range map[string][]gate.Option{"plain": nil, "reserved": {costs(1)}} {
			var a *application
			a = start(setup{Opts: opts, Handler: func(w http.ResponseWriter, r *http.Request) {
				a.Store.Set(storetest.Fail(errSecret))
				if err := gate.Settle(r.Context(), 5); !errors.Is(err, errSecret) {
					t.Errorf("%s: %v, want the error of the Store", name, err)
				}
				a.Store.Set()
				settles(t, 5)(w, r)
			}})
			record(t, a, request("GET", "/"))
			if n := a.Store.Calls(); n != 2 {
				t.Errorf("%s: the Store was called %d times, want 2: a charge that may have been made is not repeated", name, n)
			}
		}
	})
}

// Requests that no gate has admitted cannot be settled.
func TestSettle_NotAdmitted(t *testing.T) {
	if err := gate.Settle(t.Context(), 1); !errors.Is(err, gate.ErrNotAdmitted) {
		t.Errorf("without a gate: %v, want ErrNotAdmitted", err)
	}
	for name, c := range map[string]setup{
		"skipped": {Opts: []gate.Option{skipped}}, "undecided": {Err: errSecret, Opts: []gate.Option{quiet}},
	} {
		c.Handler = func(_ http.ResponseWriter, r *http.Request) {
			if err := gate.Settle(r.Context(), 50); !errors.Is(err, gate.ErrNotAdmitted) {
				t.Errorf("%s: %v, want ErrNotAdmitted", name, err)
			}
		}
		inner := start(c)
		outer := start(setup{Handler: inner.ServeHTTP})
		record(t, inner, request("GET", "/"))
		record(t, outer, request("GET", "/"))
		inner.CheckRan(t, 2)
		outer.CheckTaken(t, "k", 1) // not the cost of the inner gate
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
