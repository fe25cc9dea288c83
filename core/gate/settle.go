package gate

import (
	"context"
	"errors"

	"github.com/weir-go/weir/core/gate/internal/request"
)

var (
	// ErrNotAdmitted is the error of [Settle] if no gate has admitted the request: it was skipped
	// or denied, its caller has no limit, the Store failed, or there is no gate.
	ErrNotAdmitted = errors.New("weir: the request was not admitted by a gate")
	// ErrNotReserved is the error of [Settle] if the cost is below the charged cost and the gate
	// has no reservation that could be refunded. Gates with [Cost] or [RefundIf] keep reservations.
	ErrNotReserved = errors.New("weir: a request of this gate cannot be made cheaper")
)

// Settle sets the real cost of a request, for example its bytes, or the tokens of a language model.
// ctx is as for [FromContext]. cost is the total and replaces the cost that was charged before.
// Settle debits or refunds the difference for every limiter of the innermost gate. A debit puts a
// key into debt if necessary. Settling the same cost again does nothing.
//
// A gate with [Cost], [RefundIf] or a leaky bucket can raise and lower the cost, as
// [core.Reservation.Settle] does. Any other gate charges 1 at first and can only raise the cost:
// Settle returns [ErrNotReserved] if cost is below the charged cost, unless a key of the request
// was exhausted (see the option [And]).
//
// If the innermost gate has not admitted the request, Settle returns [ErrNotAdmitted], even if an
// outer gate has admitted the request. If cost is negative, Settle returns [core.ErrNegativeCost].
// After an error of the Store, the difference may have been debited or refunded; Settle does not
// try again. The header fields of the response and [FromContext] still describe the first charge.
//
// Settle may be called from several goroutines, and after the request has ended: ctx only
// identifies the request, and the Store bounds the time that Settle takes. After the request has
// ended, pass a copy of a *gin.Context, because Gin reuses the original.
func Settle(ctx context.Context, cost int) error {
	r := request.From(ctx)
	if r == nil || !r.Decision().Allowed {
		return ErrNotAdmitted
	}
	return r.Settle(cost)
}
