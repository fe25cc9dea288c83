package load

import "slices"

// Min returns a signal with the value of the smallest of signals, for the scarcest resource. NaN
// counts as 0. Every call calls all signals, so that none of them misses a sample. The result is
// safe for concurrent use if the signals are. Min panics if signals is empty or contains nil.
func Min(signals ...func() float64) func() float64 {
	if len(signals) == 0 {
		panic("load: Min: no signals")
	}
	if slices.ContainsFunc(signals, func(s func() float64) bool { return s == nil }) {
		panic("load: Min: a signal is nil")
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
