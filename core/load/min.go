package load

import "slices"

// Min returns the smallest of the signals: the scarcest resource counts. What is not a number
// counts as 0. Every signal is asked every time, so that none of them misses a sample.
//
// The result is safe for concurrent use if the signals are. Min panics if there is no signal or one
// of them is nil.
func Min(signals ...func() float64) func() float64 {
	if len(signals) == 0 {
		panic("load: Min: no signals")
	}
	for _, s := range signals {
		if s == nil {
			panic("load: Min: a signal is nil")
		}
	}
	signals = slices.Clone(signals)
	return func() float64 {
		least := 1.
		for _, s := range signals {
			least = min(least, clamp(s()))
		}
		return least
	}
}
