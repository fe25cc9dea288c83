package failover_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/testkit"
)

// The parts of the limits of one length share a state of the backup: a caller that alternates
// between the plans gains nothing.
func TestInstances_Plans(t *testing.T) {
	const n, span = 4, 10 * time.Minute
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true, failover.Instances(n))
				base := testkit.Limiter(t, p, a.Rule("r", core.PerMinute(10)).Plan("pro", core.PerMinute(100)))
				pro := base.Plan("pro")
				p.leave()
				used, begun := 0.0, time.Now() // the sum of the admitted parts of the limits
				for time.Since(begun) < span {
					for _, l := range []*core.Limiter{pro, base} {
						d := testkit.Ask(t, l, "k", 1)
						for ; d.Allowed; d = testkit.Ask(t, l, "k", 1) {
							used += n / float64(l.Rules()[0].Capacity())
						}
						if got, want := d.State(0).Rule.PlanName(), l.Rules()[0].PlanName(); got != want {
							t.Fatalf("got the plan %q, want %q", got, want)
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				if most := 1 + float64(span)/float64(time.Minute); used > most*1.001 || used < most*0.6 {
					t.Errorf("got %.2f limits in %v, want %.2f at most", used, span, most)
				}
			})
		})
	}
}
