package gate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
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
