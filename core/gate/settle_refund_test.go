package gate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
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
