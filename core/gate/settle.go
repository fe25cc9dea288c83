package gate

import (
	"context"
	"errors"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/request"
)

var (
	// ErrNotAdmitted is the error of [Settle] and [SettleFor] if no gate has charged the request: it
	// was skipped or denied, its key function returned [keyfunc.ErrNotLimited], the Store failed,
	// or there is no such gate. For a [core.Unlimited] caller, Settle and SettleFor return nil.
	ErrNotAdmitted = errors.New("weir: the request was not admitted by a gate")
	// ErrSeveralCosts is the error of [Settle] if limiters of the gate have a [Cost] of their own.
	ErrSeveralCosts = errors.New("weir: limiters of the gate have costs of their own: use SettleFor")
)

// Settle sets the real cost of a request, for example its bytes, or the tokens of a language model.
// ctx is as for [FromContext]. cost is the total and replaces the cost that was charged before.
// Settle debits or refunds the difference for every limiter of the innermost gate, as
// [core.Reservation.Settle] does. A debit puts a key into debt if necessary. Settling the same cost
// again does nothing. If a limiter of the gate has a cost of its own (see [And]) and cost is not zero,
// Settle returns [ErrSeveralCosts].
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
	return r.Settle(nil, cost)
}

// SettleFor is [Settle] for one limiter: l, or the limiter that l is a view of, whatever plan or
// variant was in force. It looks for the innermost gate that has charged l for the request, and
// returns [ErrNotAdmitted] if there is none. A handler can ignore that error: the request was let
// through without a limit, for example while the Store was down. Defer SettleFor, so that the cost
// of a handler that fails is settled, too, for example at 0.
func SettleFor(ctx context.Context, l *core.Limiter, cost int) error {
	for r := request.From(ctx); r != nil && l != nil; r = r.Outer() {
		if !r.Decision().Allowed {
			continue
		}
		if err := r.Settle(l, cost); !errors.Is(err, core.ErrInvalidAsk) {
			return err
		}
	}
	return ErrNotAdmitted
}
