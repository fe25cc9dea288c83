package gate

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func TestOptions_InvalidArguments(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("once", core.PerDay(1))))
	anyKey := func(context.Context, *http.Request) (string, error) { return "k", nil }
	testkit.Panics(t, "gate: And: limiter is nil", func() { And(nil, anyKey) })
	testkit.Panics(t, "gate: And: key function is nil", func() { And(l, nil) })
	for _, o := range []Option{Headers(), Headers(XRateLimit), FailClosed(), MaxDelay(time.Second), Routes(noRoutes{}), And(l, anyKey), Exempt(anyKey, "::1"), XRateLimitRule("once"), Options(Cost(oneEach), FailClosed())} {
		testkit.Panics(t, "gate: And: only Cost, CostOfBody and Plan can be given for one limiter", func() { And(l, anyKey, o) })
	}
	testkit.Panics(t, "gate: And: option 0 is nil", func() { And(l, anyKey, nil) })
	testkit.Panics(t, "gate: Plan: function is nil", func() { Plan(nil) })
	testkit.Panics(t, "gate: Cost: function is nil", func() { Cost(nil) })
	testkit.Panics(t, "gate: CostOfBody: function is nil", func() { CostOfBody(1, nil) })
	for _, n := range []int64{0, -1} {
		testkit.Panics(t, "gate: CostOfBody: the number of bytes is not positive", func() {
			CostOfBody(n, func(context.Context, *http.Request, []byte) (int, error) { return 1, nil })
		})
	}
	testkit.Panics(t, "gate: Options: option 1 is nil", func() { Options(FailClosed(), nil) })
	testkit.Panics(t, "gate: XRateLimitRule: the name is empty", func() { XRateLimitRule("") })
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

func oneEach(context.Context, *http.Request) int { return 1 }

// Options has the effect of its list, at its place.
func TestOptions_Bundle(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("once", core.PerDay(9))))
	anyKey := func(context.Context, *http.Request) (string, error) { return "k", nil }
	list := []Option{MaxDelay(1), FailClosed(), Headers(XRateLimit)}
	house := Options(append(list, And(l, anyKey), And(l, anyKey, Options(Cost(oneEach))))...)
	list[0] = MaxDelay(7)
	for name, c := range map[string]struct {
		opts []Option
		want time.Duration
		and  int
	}{
		"alone":         {[]Option{house}, 1, 2},
		"later":         {[]Option{house, MaxDelay(2)}, 2, 2},
		"earlier":       {[]Option{MaxDelay(2), house}, 1, 2},
		"twice":         {[]Option{house, Options(house, MaxDelay(3))}, 3, 4},
		"empty":         {[]Option{MaxDelay(2), Options()}, 2, 0},
		"of one option": {[]Option{Options(Options(Options(MaxDelay(4))))}, 4, 0},
	} {
		g := newGate("test", l, anyKey, c.opts)
		if g.maxDelay != c.want || len(g.asks) != 1+c.and || g.failClosed != (c.and > 0) || g.versions.has(XRateLimit) != (c.and > 0) {
			t.Errorf("%s: got %v, %d keys and fail closed %v", name, g.maxDelay, len(g.asks), g.failClosed)
		}
		for i := 1; i < len(g.asks); i++ {
			if (g.asks[i].cost != nil) != (i%2 == 0) {
				t.Errorf("%s: key %d has a cost of its own: %t", name, i, g.asks[i].cost != nil)
			}
		}
	}
	// The later one of Cost and CostOfBody counts.
	ofBody := CostOfBody(1, func(context.Context, *http.Request, []byte) (int, error) { return 1, nil })
	for i, opts := range [][]Option{{ofBody, Cost(oneEach)}, {Cost(oneEach), ofBody}} {
		for _, opt := range []Option{And(l, anyKey, opts...), Options(opts...)} {
			g := newGate("test", l, anyKey, []Option{opt})
			if last := g.asks[len(g.asks)-1]; g.readsBody != (i == 1) || (last.body != nil) != (i == 1) || i == 0 && last.cost == nil && g.cost == nil {
				t.Errorf("order %d: the gate reads the body: %t", i, g.readsBody)
			}
		}
	}
}

// noRoutes has no route.
type noRoutes struct{}

func (noRoutes) ForRequest(*http.Request) *core.Limiter { return nil }
