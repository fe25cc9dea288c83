package gate_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// The tests of this package use nethttplimit. Package gatetest tests every adapter.
func build(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
	return nethttplimit.New(l, key, opts...)(h)
}

func start(c setup) *application { return apptest.Start(build, c) }

// Short names of package apptest.
type (
	setup       = apptest.Setup
	application = apptest.Application
	states      = apptest.States
)

var (
	record, request           = apptest.Record, apptest.Request
	memory, onUndo, recording = apptest.Memory, apptest.OnUndo, apptest.Recording
	allowed, denied           = apptest.Allowed, apptest.Denied
	constant, noKey, costs    = apptest.Constant, apptest.NoKey, apptest.Costs
	says, answers             = apptest.Says, apptest.Answers
	atOnce, caught, taken     = apptest.AtOnce, apptest.Caught, apptest.Taken
	quiet, letThrough         = apptest.Quiet, apptest.LetThrough
	skipped                   = apptest.Skipped
	refundAll, succeeded      = apptest.RefundAll, apptest.Succeeded
	errSecret                 = apptest.ErrSecret
)

// Rules that many cases use.
var (
	burst   = core.SlidingLog("burst", core.PerMinute(100))
	daily   = core.SlidingLog("daily", core.PerDay(1000))
	hundred = apptest.Hundred
)

// header returns a key function that takes the key from a header field.
func header(name string) keyfunc.Func {
	return func(_ context.Context, r *http.Request) (string, error) {
		if key := r.Header.Get(name); key != "" {
			return key, nil
		}
		return "", keyfunc.ErrNoKey
	}
}

// with returns a GET request with header fields, which are names and values in turns.
func with(fields ...string) *http.Request {
	r := request("GET", "/v1/orders")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// reset resets keys of l.
func reset(t *testing.T, l *core.Limiter, keys ...string) {
	t.Helper()
	for _, key := range keys {
		_, err := l.Reset(t.Context(), key)
		testkit.Must(t, err)
	}
}
