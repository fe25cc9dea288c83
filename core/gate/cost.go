package gate

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/internal/argument"
)

// Cost makes f determine the cost of a request, which is charged to every limiter of the gate that has no
// Cost of its own (see [And]). The default is 1. A cost of 0 charges nothing, but is denied if the limit is
// exhausted. A request takes one place of a [core.InFlight], or none if its cost is 0, and with
// [core.Rule.ByCost] as many as its cost. A negative cost is a fault of the application: the response is
// 500 unless [OnError] chooses another status.
//
// A cost above the capacity of a rule is denied for ever, without a Retry-After: [DeniedStatus] can make
// the status 413. If f is an estimate that may be too high, bound it by the capacity, or charge a small
// cost here and the rest while the handler works, with core.Limiter.ReserveAtMost for the key that
// [Key] returns.
//
// f runs before the key functions and the handler, so it must not read the body: see [CostOfBody]. ctx is the context
// that key functions get ([keyfunc.Func]). [Settle] corrects the cost afterwards; without it, the
// result of f stays charged. Cost panics if f is nil.
func Cost(f func(ctx context.Context, r *http.Request) int) Option {
	argument.NotNil("gate: Cost", "function", f)
	return option(func(o *options) { o.cost, o.costOfBody = f, nil })
}
