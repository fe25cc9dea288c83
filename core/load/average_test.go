package load

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Two callers have found that a sample is due, and one of them has taken it before the other gets
// the lock. A second sample would be the mean of no time, which is 0 for a CPU, and its time may be
// before that of the first.
func TestAverage_Sample_ConcurrentCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		samples := 0
		a := newAverage(func() float64 { samples++; return 1 / float64(samples) }, cpuHalfLife, cpuEvery)
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
		if got := math.Float64frombits(a.mean.Load()); samples != 1 || got != 1 {
			t.Errorf("got %d samples and an average of %v, want 1 and 1", samples, got)
		}
	})
}
