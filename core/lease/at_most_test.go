package lease_test

import (
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// The Store behind decides at most a cost, without the held tokens, which stay: no unit is charged
// twice, and all are spent in the end.
func TestStore_Take_AtMost(t *testing.T) {
	bubbleEach(t, bucketAndWindow(core.PerDay(3000)), func(x *fixture, rule core.Rule) {
		s := x.lease()
		held, left := x.hold(s, rule), x.left(rule)
		l := x.limiter(s, rule)
		reserve := func(n, want int) *core.Reservation {
			x.Helper()
			r, err := l.ReserveAtMost(x.Context(), "k", n)
			testkit.Must(x, err)
			if r.Cost() != want {
				x.Errorf("at most %d: got the cost %d, want %d", n, r.Cost(), want)
			}
			return r
		}
		reserve(100, 100)
		x.expect(left-100, left-100, x.left(rule), "units left in the Store behind")
		x.expect(held, held, int(s.Stats().Held), "held tokens")
		// The reply is known: Remaining is that of the Store and of the held tokens, less one.
		x.expect(left-100+held-1, left-100+held-1, x.ask(l, 1).State(0).Remaining, "units left")
		bundle := reserve(5000, left-100)
		reserve(1, 0)
		testkit.Must(x, bundle.Settle(x.Context(), bundle.Cost()-40))
		x.expect(40+held-1, 40+held-1, x.drain(l), "events after the refund")
		reserve(1, 0)
	})
}
