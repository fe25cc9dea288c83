package gate_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// A held request is not in flight.
func TestCountInFlight_Held(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := new(gauge)
		a := start(setup{
			Rules: []core.Rule{core.LeakyBucket("q", core.PerSecond(1).WithBurst(2))},
			Opts:  []gate.Option{gate.CountInFlight(count)},
			Handler: func(http.ResponseWriter, *http.Request) {
				if n := count.n.Load(); n != 1 {
					t.Errorf("%d requests are in flight, want 1", n)
				}
			},
		})
		a.Get(t)
		var wg sync.WaitGroup
		wg.Go(func() { a.Get(t) })
		synctest.Wait()
		if n := count.n.Load(); n != 0 || a.Ran() != 1 {
			t.Errorf("%d requests are in flight while one is held and %d ran, want 0 and 1", n, a.Ran())
		}
		wg.Wait()
		a.CheckRan(t, 2)
	})
}

// A request is in flight until its handler returns, and not during its refund.
func TestCountInFlight_Refund(t *testing.T) {
	count := new(gauge)
	store := onUndo(func(context.Context) error {
		if n := count.n.Load(); n != 0 {
			t.Errorf("%d requests are in flight during the refund, want 0", n)
		}
		return nil
	})
	a := start(setup{Store: store, Refund: true, Opts: []gate.Option{gate.CountInFlight(count)}})
	a.Get(t)
	a.CheckRefund(t, "[200]", 0)
}
