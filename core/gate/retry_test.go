package gate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.Per(2, 3*time.Second))))
		for _, c := range []struct {
			cost    int
			seconds int64
			ok      bool
		}{{2, 0, false}, {1, 2, true}, {3, 0, false}} { // admitted, denied for 1.5 s, and for ever
			if s, ok := gate.RetryAfter(testkit.Ask(t, l, "k", c.cost)); s != c.seconds || ok != c.ok {
				t.Errorf("cost %d: got %d, %v, want %d, %v", c.cost, s, ok, c.seconds, c.ok)
			}
		}
	})
}

// The seconds are rounded up, also for the longest wait that ends.
func TestRetryAfter_Rounding(t *testing.T) {
	for wait, want := range map[time.Duration]int64{
		0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, core.Never - 1: 9_223_372_037,
	} {
		t.Run(wait.String(), func(t *testing.T) {
			if got, ok := gate.RetryAfter(core.Decision{RetryAfter: wait}); got != want || !ok {
				t.Errorf("got %d, %v, want %d", got, ok, want)
			}
		})
	}
}
