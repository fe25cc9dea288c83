package gate

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

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
