package load

import (
	"math"
	"syscall"
)

// processSeconds returns the CPU time of this process, or NaN if it is unknown.
func processSeconds() float64 {
	self, err := syscall.GetCurrentProcess()
	var created, exited, kernel, user syscall.Filetime
	if err != nil || syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return math.NaN()
	}
	const unit = 1e-7 // of a Filetime, in seconds
	seconds := func(t syscall.Filetime) float64 {
		return float64(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * unit
	}
	return seconds(kernel) + seconds(user)
}
