//go:build !unix && !windows

package load

import "math"

// processSeconds returns NaN: the CPU time of this process is unknown.
func processSeconds() float64 { return math.NaN() }
