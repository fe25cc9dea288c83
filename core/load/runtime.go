package load

import "runtime/metrics"

// A runtimeCPU measures idle CPU time by what the Go runtime counts. It is used by
// one goroutine at a time.
//
// The runtime counts when a garbage collection ends. Between two of them the
// numbers stand still, and so does the share.
type runtimeCPU struct {
	read    func([]metrics.Sample)
	samples []metrics.Sample
	meter   meter
	share   float64
}

func newRuntimeCPU() *runtimeCPU {
	return &runtimeCPU{
		read:    metrics.Read,
		samples: []metrics.Sample{{Name: "/cpu/classes/idle:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}},
	}
}

// free is the share of CPU time that was idle between the last two collections.
func (c *runtimeCPU) free() float64 {
	c.read(c.samples)
	for _, s := range c.samples {
		if s.Value.Kind() != metrics.KindFloat64 {
			return 0 // a later Go no longer knows it
		}
	}
	idle, total := c.samples[0].Value.Float64(), c.samples[1].Value.Float64()
	if now := (usage{total - idle, total}); now != c.meter.last {
		c.share = c.meter.free(now)
	}
	return c.share
}
