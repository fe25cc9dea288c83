// Package load provides signals for elastic throttling: functions that return the free part of a
// resource, from 0 to 1. Pass a signal to [github.com/weir-go/weir/core.Rule.Elastic], and the
// limit of the rule grows while the resource is free:
//
//	connections := func() float64 { return 1 - float64(running.Load())/500 } // any signal of your own
//	spare := load.Min(load.IdleCPU(), load.Smooth(connections, 5*time.Second))
//	rule := core.TokenBucket("search", core.PerSecond(100)).Elastic(spare, 3)
//
//	IdleCPU ──────┬──▶ Min ──▶ Elastic: 100/s ... 300/s
//	Smooth(own) ──┘
//
// [IdleCPU] is ready to use, [Smooth] averages a signal of your own, and [Min] returns the smallest of
// several signals.
//
// A signal that has no measurement returns 0: the limit is that of the rule, or of a
// [github.com/weir-go/weir/core.InFlight] its smallest. Every decision calls the signal, from many goroutines. The signals of this package are safe for concurrent use,
// allocate nothing except for a sample, start no goroutine and need no closing. They use the
// monotonic clock, which testing/synctest controls.
//
// The package depends on the standard library only, and not on net/http.
package load
