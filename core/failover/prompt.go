package failover

import (
	"time"

	"github.com/weir-go/weir/core"
)

// A Prompt Store keeps a deadline of its own: Take returns as soon as its context
// ends, and within Deadline in any case, whatever happens on its network. As a
// primary it is called directly, if its deadline is not longer than the [Deadline]
// of this package. Any other is called on a goroutine of its own and on a copy of
// the charges, so that it can be left; that costs a decision about two
// microseconds.
type Prompt interface {
	core.Store
	Deadline() time.Duration
}
