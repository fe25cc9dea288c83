package observe

import (
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
)

// figures are the numbers of a Store itself, besides those of rules and the times of calls.
type figures struct{ sharded[numbers] }

type numbers struct {
	peeks, attempts atomic.Uint64 // decisions that are no events
	failures        atomic.Uint64 // calls that returned a core.ErrUnavailable
}

// Measures implements [Measurer].
func (f *figures) Measures() []driver.Measure {
	var peeks, attempts, failures uint64
	f.all(func(n *numbers) {
		peeks += n.peeks.Load()
		attempts += n.attempts.Load()
		failures += n.failures.Load()
	})
	return []driver.Measure{
		{Name: "weir.peeks", Help: "Decisions that charged nothing.", Unit: "{decision}", Total: true, Value: float64(peeks)},
		{Name: "weir.attempts", Help: "Attempts of waiting callers, and early charges of gates.", Unit: "{decision}", Total: true, Value: float64(attempts)},
		{Name: "weir.store.failures", Help: "Calls that the store could not decide.", Unit: "{call}", Total: true, Value: float64(failures)},
	}
}
