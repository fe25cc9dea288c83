package gate

import (
	"github.com/weir-go/weir/internal/argument"
)

// CountInFlight makes the gate call c.Begin for every request that it lets through, after the delay
// and before the handler runs, and c.End when the handler has returned or panicked. Requests that
// are let through undecided, because the Store failed, are counted; skipped requests are not. Use
// the option for a limit that depends on the load, such as one with [core.Rule.Elastic]. If a
// request passes several gates, give the option to one of them.
//
// CountInFlight counts the requests of all keys in this process and denies none. A [core.InFlight] limits
// the requests of each key, in all processes that share a store.
//
// CountInFlight panics if c is nil.
func CountInFlight(c InFlightCounter) Option {
	argument.NotNil("gate: CountInFlight", "counter", c)
	return option(func(o *options) { o.countInFlight = c })
}

// An InFlightCounter counts the requests that are being served. Both methods are called
// concurrently and must return quickly.
type InFlightCounter interface {
	Begin() // a handler is about to run
	End()   // the handler has returned, or panicked
}
