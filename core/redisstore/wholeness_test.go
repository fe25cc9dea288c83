package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// A plain client may be connected to a node of a Cluster, which rejects scripts with keys of several slots,
// or to a proxy, which sends them to the server of the first key. Decisions, refunds, places and probes of
// several keys keep one state for each key.
func TestWholeness_SeveralKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		servers int
		strict  int64
	}{
		{"one server", 1, -1},
		{"a node of a Cluster", 1, 0},
		{"a node of a Cluster later", 1, 3},
		{"a proxy for two servers", 2, -1},
	} {
		for _, mode := range modes {
			t.Run(c.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				_, rdb := newProxy(t, c.servers, c.strict)
				s := newStore(rdb, mode.opts...)
				address := testkit.Limiter(t, s, core.SlidingLog("address", core.PerHour(100)))
				user := testkit.Limiter(t, s, core.TokenBucket("user", core.Per(3, century)))
				queue := testkit.Limiter(t, s, core.LeakyBucket("queue", core.Per(3, century)))
				places := testkit.Limiter(t, s, core.InFlight("places", 3))
				all := func(i int) []core.Ask {
					return []core.Ask{{Limiter: address, Key: fmt.Sprint("address", i)}, {Limiter: user, Key: "user"}, {Limiter: queue, Key: "queue"},
						{Limiter: places, Key: fmt.Sprint("place", i%2)}}
				}
				admitted := 0
				var last *core.Reservation
				for i := range 20 {
					r, err := core.ReserveTogether(t.Context(), all(i)...)
					testkit.Must(t, err)
					if r.Decision().Allowed {
						admitted, last = admitted+1, r
					}
				}
				if admitted != 3 {
					t.Errorf("admitted %d of 20 events of one user, want 3", admitted)
				}
				testkit.Must(t, last.Refund(t.Context()))
				used := [4]int{testkit.Used(t, address, "address2")[0], testkit.Used(t, user, "user")[0], testkit.Used(t, places, "place0")[0], testkit.Used(t, address, "address9")[0]}
				if used != [4]int{0, 2, 1, 0} {
					t.Errorf("after a refund of the third event, and denials, %v are used, want 0, 2, 1 and 0", used)
				}
				testkit.Must(t, s.Probe(t.Context(), []driver.Charge{
					{Key: "a", Rule: testkit.Compiled(core.SlidingLog("address", core.PerHour(100))), Op: driver.Peek, Cost: 1},
					{Key: "b", Rule: testkit.Compiled(core.TokenBucket("user", core.PerHour(100))), Op: driver.Peek, Cost: 1},
				}))
			})
		}
	}
}
