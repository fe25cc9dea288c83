//go:build unix

package load

import (
	"math"
	"syscall"
)

// processSeconds returns the CPU time of this process, or NaN if it is unknown.
func processSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
