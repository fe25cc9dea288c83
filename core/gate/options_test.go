package gate

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
)

func TestOptions_InvalidArguments(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("once", core.PerDay(1))))
	anyKey := func(context.Context, *http.Request) (string, error) { return "k", nil }
	testkit.Panics(t, "gate: And: limiter is nil", func() { And(nil, anyKey) })
	testkit.Panics(t, "gate: And: key function is nil", func() { And(l, nil) })
	for _, o := range []Option{Headers(), Headers(XRateLimit), FailClosed(), MaxDelay(time.Second), Routes(noRoutes{}), And(l, anyKey), Exempt(anyKey, "::1")} {
		testkit.Panics(t, "gate: And: only Cost and Plan can be given for one limiter", func() { And(l, anyKey, o) })
	}
	testkit.Panics(t, "gate: And: option 0 is nil", func() { And(l, anyKey, nil) })
	testkit.Panics(t, "gate: Plan: function is nil", func() { Plan(nil) })
	testkit.Panics(t, "gate: Cost: function is nil", func() { Cost(nil) })
	testkit.Panics(t, "gate: Skip: function is nil", func() { Skip(nil) })
	testkit.Panics(t, "gate: Exempt: resolver is nil", func() { Exempt(nil, "10.0.0.0/8") })
	testkit.Panics(t, "gate: Exempt: no CIDR is given", func() { Exempt(anyKey) })
	testkit.Panics(t, `gate: Exempt: keyfunc: ParseProxies: "10.0.0/8" is not a CIDR prefix such as 10.0.0.0/8`, func() {
		Exempt(anyKey, "10.0.0.0/8", "10.0.0/8")
	})
	testkit.Panics(t, "gate: DeniedStatus: function is nil", func() { DeniedStatus(nil) })
	testkit.Panics(t, "gate: RefundIf: function is nil", func() { RefundIf(nil) })
	testkit.Panics(t, "gate: MaxDelay: duration is not positive", func() { MaxDelay(0) })
	testkit.Panics(t, "gate: MaxDelay: duration is not positive", func() { MaxDelay(-time.Second) })
	testkit.Panics(t, "gate: OnError: function is nil", func() { OnError(nil) })
	testkit.Panics(t, "gate: Headers: unknown version 0", func() { Headers(0) })
	testkit.Panics(t, "gate: Headers: unknown version 9", func() { Headers(XRateLimit, 9) })
}

// noRoutes has no route.
type noRoutes struct{}

func (noRoutes) ForRequest(*http.Request) *core.Limiter { return nil }
