package sim

import (
	"slices"
	"testing"
)

// The faults that plans expect are still there. If one is mended, this test fails: remove it from the plan.
// A run of a plan that expects a fault ends with it, so that it hides others.
func TestExpected(t *testing.T) {
	if testing.Short() {
		t.SkipNow()
	}
	for _, p := range plans {
		if len(p.expected) == 0 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			for seed := range uint64(20) {
				s := run(t, p, seed, nil, false)
				if s.failed != nil && slices.Contains(p.expected, s.failed.invariant) {
					t.Logf("seed %d, %v", seed, s.failed)
					return
				}
			}
			t.Errorf("20 runs of the plan %s violate none of the invariants that it expects to be violated", p.name)
		})
	}
}
