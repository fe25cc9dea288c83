// Package load has signals for elastic throttling: functions that say which share of a resource is
// free now, 1 all of it and 0 none. A rule takes one with
// [github.com/weir-go/weir/core.Rule.Elastic], and its limit grows while there is room:
//
//	busy := load.NewInFlight(500) // with gate.CountInFlight(busy) on the routes that count
//	spare := load.Min(load.IdleCPU(), busy.Spare)
//	rule := core.TokenBucket("search", core.PerSecond(100)).Elastic(spare, 3)
//
//	IdleCPU ─────────┐
//	InFlight.Spare ──┼──▶ Min ──▶ Elastic: 100/s ... 300/s
//	Smooth(own) ─────┘
//
// [IdleCPU] and [InFlight] are ready to use, [Smooth] keeps a signal of your own from jumping, and
// [Min] lets the scarcest resource count.
//
// What is not known to be free is not free: a signal that cannot tell answers 0, and the limit
// stays as it was written. Signals are asked on every decision, from many goroutines. They are safe
// for that, allocate nothing while they have a value at hand, start no goroutine and need no
// closing. Time is the monotonic clock, which testing/synctest drives.
//
// The package depends on the standard library only, and not on net/http.
package load
