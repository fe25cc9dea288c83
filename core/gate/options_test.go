package gate

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

func TestOptions_invalidArguments(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("once", core.PerDay(1))))
	anyKey := func(context.Context, *http.Request) (string, error) { return "k", nil }
	mustPanic(t, "gate: And: limiter is nil", func() { And(nil, anyKey) })
	mustPanic(t, "gate: And: key function is nil", func() { And(l, nil) })
	mustPanic(t, "gate: Cost: function is nil", func() { Cost(nil) })
	mustPanic(t, "gate: Skip: function is nil", func() { Skip(nil) })
	mustPanic(t, "gate: RefundIf: function is nil", func() { RefundIf(nil) })
	mustPanic(t, "gate: MaxDelay: duration is not positive", func() { MaxDelay(0) })
	mustPanic(t, "gate: MaxDelay: duration is not positive", func() { MaxDelay(-time.Second) })
	mustPanic(t, "gate: CountInFlight: counter is nil", func() { CountInFlight(nil) })
	var none *nobody
	mustPanic(t, "gate: CountInFlight: counter is nil", func() { CountInFlight(none) })
	mustPanic(t, "gate: OnError: function is nil", func() { OnError(nil) })
	mustPanic(t, "gate: Headers: unknown version 0", func() { Headers(0) })
	mustPanic(t, "gate: Headers: unknown version 9", func() { Headers(XRateLimit, 9) })
}

// nobody counts nothing.
type nobody struct{}

func (*nobody) Begin() {}
func (*nobody) End()   {}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("panicked with %v, want %s", got, want)
		}
	}()
	f()
}
