package load

import (
	"runtime"
	"time"
)

// A sample is the mean of the time since the one before, so few are enough.
const (
	cpuEvery    = 250 * time.Millisecond
	cpuHalfLife = time.Second
)

// IdleCPU returns a signal for the share of CPU time that is idle, from 0 to 1.
//
// On Linux it is the smallest of
//
//   - the idle share of the machine, waiting for input and output included (from
//     /proc/stat);
//   - what this process leaves of the time that GOMAXPROCS processors have (from
//     /proc/self/stat);
//   - what is left of the CPU quota of the control group that the process was in
//     when IdleCPU was called, and of every group above it that can be seen
//     (version 2, below /sys/fs/cgroup).
//
// The last two are for containers, where a process is held back by its quota while
// the machine looks idle. GOMAXPROCS follows the quota, but is not set below 2
// for it. Version 1 of control groups is not read: a quota below GOMAXPROCS is not
// seen there.
//
// A call that finds the last sample older than 250 ms takes a new one, which costs
// it some tens of microseconds, and more on a machine with many CPUs; all others
// read the value at hand. A sample is the mean since the one before, and is smoothed
// with a half-life of one second, see [Smooth]. After a pause in which nobody asked,
// the first answer is the mean of the pause.
//
// IdleCPU takes the first sample itself. Until there is a second one the answer is
// 0, and from there it climbs. A file that cannot be read or understood counts as
// nothing free, and so does a /proc/stat that stands still, which some sandboxes
// have.
//
// Elsewhere than on Linux it is the idle share of GOMAXPROCS as runtime/metrics
// knows it (/cpu/classes/idle:cpu-seconds). The runtime renews it when a garbage
// collection ends, which happens at least every two minutes, so the signal is that
// old at times. It is 0 until two collections have been seen. It knows nothing of
// other processes, and takes time in C code for idle.
//
// The signal is safe for concurrent use. One is enough for a process; each has its
// own samples.
func IdleCPU() func() float64 {
	if runtime.GOOS == "linux" {
		return idleCPU(newProcCPU(readFile, maxProcs).free)
	}
	return idleCPU(newRuntimeCPU().free)
}

func maxProcs() int { return runtime.GOMAXPROCS(0) }

// idleCPU smooths free, and asks it for the first time.
func idleCPU(free func() float64) func() float64 {
	a := newAverage(free, cpuHalfLife, cpuEvery)
	a.now()
	return a.now
}
