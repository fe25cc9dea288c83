package load

import (
	"errors"
	"math"
	"runtime"
	"time"
)

// How often the CPU is looked at, and how fast what was is forgotten.
const (
	cpuEvery    = 250 * time.Millisecond
	cpuHalfLife = time.Second
)

// IdleCPU is the part of the CPU that is idle, as an average over some seconds.
//
// On Linux that is the smaller of two: what the machine has left (/proc/stat), and
// what this process has left of the CPUs it may use (/proc/self/stat, GOMAXPROCS). In
// a container with a quota the machine may look idle while the process is throttled;
// Go sets GOMAXPROCS to the quota. Elsewhere it is what the Go runtime says
// (runtime/metrics), which moves only when garbage has been collected.
//
// Until there are two samples, and where there is nothing to read, it is 0: what is
// not known to be free is not.
func IdleCPU() func() float64 {
	return newSampler(newCPU(readTimes).idle, cpuEvery, cpuHalfLife).spare
}

// times are counters of CPU time that only grow, each in a unit of its own.
type times struct {
	idle, total float64 // of the machine; or, without a process, of the runtime
	process     float64 // seconds that this process has used; NaN if not known
	at          time.Time
}

var errNoTimes = errors.New("load: cannot read CPU times")

// A cpu turns counters into shares.
type cpu struct {
	read func() (times, error)
	last times
	seen bool
}

func newCPU(read func() (times, error)) *cpu { return &cpu{read: read} }

// idle is the share that was idle since the last call.
func (c *cpu) idle() (share float64, ok bool) {
	now, err := c.read()
	if err != nil {
		c.seen = false
		return 0, false
	}
	last, seen := c.last, c.seen
	c.last, c.seen = now, true
	if !seen || now.total <= last.total {
		return 0, false
	}
	share = (now.idle - last.idle) / (now.total - last.total)
	if used, wall := now.process-last.process, now.at.Sub(last.at).Seconds(); !math.IsNaN(used) && wall > 0 {
		share = min(share, 1-used/(wall*float64(runtime.GOMAXPROCS(0))))
	}
	return share, true
}
