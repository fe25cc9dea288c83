package load

import (
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	cpuEvery    = 250 * time.Millisecond
	cpuHalfLife = time.Second
	// collectionAge is the time for which the idle share of the last garbage collection counts.
	// Under load, most services collect more often. After a load, the signal can rise that late.
	collectionAge = 5 * time.Second
)

// IdleCPU returns a signal that is the share of the CPU time of GOMAXPROCS processors that this
// process leaves idle, from 0 to 1. It is the smaller of two shares:
//
//   - the CPU time that the operating system has not charged to this process, including C code.
//     Every sample updates it.
//   - the time in which the Go scheduler had nothing to run (/cpu/classes/idle:cpu-seconds of
//     runtime/metrics). IdleCPU uses it for 5 seconds after a garbage collection.
//
// IdleCPU measures other processes of the machine, and the CPU quota of a container, only by their
// effect on this process: goroutines that wait for a CPU make the second share smaller. IdleCPU
// does not notice this effect while this process is idle, or collects garbage less often than every
// 5 seconds. (Go sets GOMAXPROCS to the CPU quota of a container, but not below 2.)
//
// Any func() float64 is a signal. For the whole machine, pass [Smooth] the idle share from a
// package such as github.com/shirou/gopsutil/v4/cpu.
//
// A call takes a sample if the last sample is older than 250 ms, in about a microsecond. All other
// calls read the last value. A sample is the mean since the previous sample, smoothed with a
// half-life of one second (see [Smooth]). The first result after a pause is the mean of the pause.
//
// IdleCPU takes the first sample itself. The signal is 0 until the second sample and rises from
// there. It stays 0 on systems that are neither Unix nor Windows. It is safe for concurrent use. A
// process needs only one such signal: each takes its own samples.
func IdleCPU() func() float64 { return idleCPU(newCPU()) }

// idleCPU returns the smoothed signal of c, whose first sample it takes.
func idleCPU(c *cpu) func() float64 {
	a := newAverage(c.free, cpuHalfLife, cpuEvery)
	a.now()
	return a.now
}

// cpuSeconds holds CPU times since the process was started, in seconds.
type cpuSeconds struct {
	used        float64 // by this process; NaN if it is unknown
	idle, total float64 // of GOMAXPROCS processors, at the end of the last garbage collection
}

// A cpu measures idle CPU time. Only one goroutine at a time may use it.
type cpu struct {
	read func() cpuSeconds

	called    time.Time  // of the last call of free
	last      cpuSeconds // at that time
	collected time.Time  // of the call that found the end of a garbage collection
	idle      float64    // the idle share between the last two collections that were found
}

func newCPU() *cpu {
	samples := []metrics.Sample{{Name: "/cpu/classes/idle:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}}
	return &cpu{read: func() cpuSeconds {
		metrics.Read(samples)
		return cpuSeconds{used: processSeconds(), idle: float(samples[0]), total: float(samples[1])}
	}}
}

// float returns the value of s, or 0 if this version of the runtime does not provide it.
func float(s metrics.Sample) float64 {
	if s.Value.Kind() != metrics.KindFloat64 {
		return 0
	}
	return s.Value.Float64()
}

// free returns the idle share since the last call: 0 for the first call, NaN if it is unknown.
func (c *cpu) free() float64 {
	now, last := time.Now(), c.last
	elapsed := now.Sub(c.called).Seconds()
	first := c.called.IsZero()
	c.last, c.called = c.read(), now
	if first {
		return 0
	}
	if total := c.last.total - last.total; last.total > 0 && total > 0 {
		c.idle, c.collected = (c.last.idle-last.idle)/total, now
	}
	share := 1 - (c.last.used-last.used)/(elapsed*float64(runtime.GOMAXPROCS(0)))
	if now.Sub(c.collected) < collectionAge {
		share = min(share, c.idle)
	}
	return share
}
