package denycache_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// A cached denial of one unit denies, and one of a larger cost does not. The denial of a larger cost is
// not cached, because there is none.
func TestStore_Take_AtMost(t *testing.T) {
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			f := newFixture(t)
			l := f.limiter(a.Rule("r", core.PerMinute(10)), a.Rule("wide", core.PerMinute(20)))
			reserve := func(n, want int, hit bool) *core.Reservation {
				t.Helper()
				calls := f.behind.Calls()
				r, err := l.ReserveAtMost(t.Context(), "k", n)
				testkit.Must(t, err)
				if got := f.behind.Calls() == calls; r.Cost() != want || got != hit {
					t.Errorf("at most %d: got the cost %d and hit %t, want %d and %t", n, r.Cost(), got, want, hit)
				}
				return r
			}
			reserve(4, 4, false)
			if f.miss(l, "k", 7).Allowed {
				t.Fatal("7 of 6 were admitted")
			}
			f.hit(l, "k", 7)
			r := reserve(7, 6, false)
			reserve(7, 0, true) // nothing remains, which the cache knows from the decision before
			f.hit(l, "k", 1)
			testkit.Must(t, r.Settle(t.Context(), 5))
			reserve(9, 1, false)
			f.elsewhere(l, "other", 10)
			f.advance(time.Millisecond)
			if d := reserve(100, 0, true).Decision(); d.RetryAfter <= 0 || d.State(0).Remaining != 0 || !d.State(1).Unknown {
				t.Errorf("got the hit %+v", d)
			}
			if f.miss(l, "other", 1).Allowed {
				t.Fatal("an 11th event was admitted")
			}
		})
	}
}
