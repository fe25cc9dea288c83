package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// A limiter with a pause asks the Store behind each time, although it holds tokens of its rate. A pause elsewhere
// therefore holds at the next decision. Its denials take no tokens, and the events of a day are those of the limit.
func TestStore_Take_pause(t *testing.T) {
	bubbleEach(t, bucketAndWindow(core.PerDay(3000)), func(x *fixture, rule core.Rule) {
		s := x.lease()
		held := x.hold(s, rule)
		admitted := 3000 - x.left(rule) - held
		pause := core.Pause("partner")
		l, elsewhere := x.limiter(s, rule, pause), x.limiter(x.memory, pause)
		events := func(n int, allowed bool) {
			x.Helper()
			for range n {
				if d := x.ask(l, 1); d.Allowed != allowed {
					x.Fatalf("got %+v, want allowed %t", d, allowed)
				}
			}
		}
		x.expect(10, 1000, x.calls(func() { events(10, true) }), "calls for 10 events")
		admitted += 10
		for range 3 {
			testkit.Must(x, elsewhere.Pause(x.Context(), "k", time.Minute))
			synctest.Wait()
			held, left := int(s.Stats().Held), x.left(rule)
			x.expect(10, 1000, x.calls(func() { events(10, false) }), "calls for 10 events of a pause")
			synctest.Wait()
			x.expect(held+left, held+left, int(s.Stats().Held)+x.left(rule), "tokens after the denials")
			testkit.Must(x, elsewhere.Pause(x.Context(), "k", 0))
			events(5, true)
			admitted += 5
		}
		// Through this Store, it holds at once, too.
		testkit.Must(x, l.Pause(x.Context(), "k", time.Minute))
		events(1, false)
		testkit.Must(x, l.Pause(x.Context(), "k", 0))
		x.expect(3000-admitted, 3000-admitted, x.drain(l), "events after the pauses")
	})
}
