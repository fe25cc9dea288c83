// Package load has signals of how much of a resource is free, for
// [core.Rule.Elastic]: functions that return 1 when all of it is, 0 when none is.
//
//	limit := core.TokenBucket("search", core.PerSecond(100)).Elastic(load.IdleCPU(), 2)
//
//	busy := load.NewInFlight(500) // with gate.CountInFlight(busy) on the routes that count
//	limit := core.TokenBucket("search", core.PerSecond(100)).Elastic(load.Min(load.IdleCPU(), busy.Spare), 2)
//
// Signals are safe for concurrent use, and cheap: a decision asks for them. None of
// them needs a goroutine. Whoever finds the last sample too old takes the next one,
// and the others go on with the one at hand.
package load

// Min is the scarcest of several resources: the least of what the signals say. It
// panics if there are none, or if one is nil.
func Min(signals ...func() float64) func() float64 {
	if len(signals) == 0 {
		panic("load: Min: no signals")
	}
	for _, f := range signals {
		if f == nil {
			panic("load: Min: a signal is nil")
		}
	}
	return func() float64 {
		least := signals[0]()
		for _, f := range signals[1:] {
			least = min(least, f())
		}
		return least
	}
}
