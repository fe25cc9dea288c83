package gate_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
)

// Requests that end before they are decided are no failure of the Store, and their handlers do not
// run: otherwise a client could pass the limit by hanging up.
func TestAdmit_Ended(t *testing.T) {
	for _, c := range []struct {
		name string
		setup
		storeErr error // of the Store, when the request ends in the Store
		end      string
	}{
		{name: "before the gate", end: "before"},
		{name: "in the key function", end: "key function"},
		{name: "in the Store", end: "store"},
		{name: "in the Store, FailClosed", setup: setup{Opts: []gate.Option{gate.FailClosed()}}, end: "store"},
		{name: "in the Store, all errors let through", setup: setup{Opts: []gate.Option{letThrough}}, end: "store"},
		{name: "in the Store, which fails", end: "store", storeErr: core.ErrUnavailable},
		{name: "out of time", end: "deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				entered := make(chan struct{})
				switch c.end {
				case "before":
					cancel()
				case "key function":
					c.Key = func(context.Context, *http.Request) (string, error) { cancel(); return "", errSecret }
				case "store":
					go func() { <-entered; cancel() }()
					fallthrough
				case "deadline":
					c.Store = apptest.Stuck(entered, c.storeErr)
				}
				a := start(c.setup)
				lines := logged(t, func() {
					if got := record(t, a, request("GET", "/").WithContext(ctx)); got.Status != http.StatusServiceUnavailable {
						t.Errorf("status is %d, want 503", got.Status)
					}
				})
				a.CheckRan(t, 0)
				if lines != "" {
					t.Errorf("the log is %q, want none", lines)
				}
			})
		})
	}
}

// Requests that end before their handlers are not refunded.
func TestRefundIf_Ended(t *testing.T) {
	for name, end := range map[string]func(cancel func()){
		"returns":     func(cancel func()) { cancel() },
		"panics":      func(cancel func()) { cancel(); panic("late") },
		"out of time": func(func()) { time.Sleep(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				a := start(setup{Refund: true, Handler: func(w http.ResponseWriter, r *http.Request) { answers(204)(w, r); end(cancel) }})
				caught(func() { record(t, a, request("GET", "/").WithContext(ctx)) })
				a.CheckRefund(t, "[]", 1)
			})
		})
	}
}
