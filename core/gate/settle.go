package gate

import (
	"context"
	"errors"

	"github.com/weir-go/weir/core/gate/internal/request"
)

var (
	// ErrNotAdmitted: no gate has admitted the request. It was skipped or denied, or
	// let through because the Store failed, or there is no gate.
	ErrNotAdmitted = errors.New("weir: the request was not admitted by a gate")
	// ErrNotReserved: a request cannot be made to cost less than it was charged,
	// because its gate does not remember how that is undone. Use [Cost] or
	// [RefundIf] there.
	ErrNotReserved = errors.New("weir: a request of this gate cannot be made cheaper")
)

// Settle makes the request whose context ctx is cost what it has really cost: bytes,
// or tokens of a language model. ctx is as for [FromContext]. cost is the total, in
// place of what was charged before; the difference is charged to every limiter of
// the innermost gate, into debt if need be, or given back. Settling the same cost
// again does nothing.
//
// A gate with [Cost], [RefundIf] or a leaky bucket goes both ways, as
// [core.Reservation.Settle] does. Others charge 1 at first, and remember no more than
// that: there a cost below what was charged is an [ErrNotReserved], unless a key was
// charged early (see the option [And]).
//
// If the innermost gate has not admitted the request, the error is
// [ErrNotAdmitted], and no gate around it is charged instead. Less than zero is a
// [core.ErrNegativeCost]. The fields of the answer and [FromContext] keep telling what was
// charged at first. An error of the Store says that the difference may have
// been charged or given back; it is not tried again.
//
// Settle may be called from several goroutines, and after the request has ended:
// ctx only says which request it is, and the time that Settle takes is bounded by
// the Store. Of a *gin.Context, which Gin uses again, pass a copy then.
func Settle(ctx context.Context, cost int) error {
	r := request.From(ctx)
	if r == nil || !r.Decision().Allowed {
		return ErrNotAdmitted
	}
	return r.Settle(cost)
}
