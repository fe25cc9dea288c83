package load

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Both callers have found that a sample is due, and one of them has taken it by the
// time the other has the lock. A second one would be the mean of no time at all,
// which says 0 for a CPU, and its time may be before that of the first.
func TestTwoCallersAtOnceTakeOneSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		a := newAverage(func() float64 { asked++; return 1 / float64(asked) }, cpuHalfLife, cpuEvery)
		time.Sleep(time.Second)
		early := time.Since(a.start)
		time.Sleep(time.Millisecond)
		late := time.Since(a.start)
		for _, now := range []time.Duration{late, early, late} {
			if !a.mu.TryLock() {
				t.Fatal("the lock is not free after a sample")
			}
			a.sample(now)
		}
		if got := math.Float64frombits(a.mean.Load()); asked != 1 || got != 1 {
			t.Errorf("%d samples and an average of %v, want 1 of 1", asked, got)
		}
	})
}
