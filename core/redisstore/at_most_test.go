package redisstore_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// At most a cost is taken from a corrupt state as from another, also if a shadow does not admit the cost.
func TestStore_Take_AtMostOfCorruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as in harness
	for _, a := range testkit.Algorithms {
		for _, p := range corruptions[a.Name](now) {
			t.Run(a.Name+"/"+p.name, func(t *testing.T) {
				v := newTarget(t, rdb, a.Rule("corrupt", core.PerHour(corruptLimit)))
				shadow := testkit.Compiled(a.Rule("corrupt", core.PerHour(corruptLimit)).Shadow())
				testkit.Must(t, p.write(t.Context(), rdb, v.key))
				for _, n := range []int{100 * corruptLimit, 2} {
					charges := []driver.Charge{{Key: "k", Rule: shadow, AtMost: true, Cost: n}}
					testkit.Must(t, v.s.Take(t.Context(), charges))
					if c := &charges[0]; c.Cost != n || n > corruptLimit && c.Verdict.Allowed {
						t.Fatalf("got the cost %d of %d, and %+v", c.Cost, n, c.Verdict)
					}
				}
				testkit.Must(t, rdb.Del(t.Context(), v.key).Err())
				testkit.Must(t, p.write(t.Context(), rdb, v.key))
				before := v.s.Stats().Corrupt
				r, err := v.ReserveAtMost(t.Context(), "k", 100*corruptLimit)
				testkit.Must(t, err)
				replaced := v.s.Stats().Corrupt - before
				if r.Cost() > corruptLimit || p.unreadable == 1 && (r.Cost() != corruptLimit || replaced != 1) {
					t.Errorf("got the cost %d of %d, and %d replaced states", r.Cost(), corruptLimit, replaced)
				}
				v.checkLimit(t)
				v.checkExpired(t)
			})
		}
	}
}
