package adapter

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// Settle sets the total cost of a request that was admitted: see [gate.Settle].
func (rc *requestContext) Settle(cost int) error {
	if rc.reservation != nil {
		return rc.reservation.Settle(context.WithoutCancel(rc.Context), cost)
	}
	if cost < 0 {
		return fmt.Errorf("%w: %d", core.ErrNegativeCost, cost)
	}
	for {
		extra := rc.extra.Load()
		charged := extra + 1
		switch {
		case int64(cost) == charged:
			return nil
		case int64(cost) < charged:
			return fmt.Errorf("%w: it was charged %d, and %d is less", gate.ErrNotReserved, charged, cost)
		}
		if rc.extra.CompareAndSwap(extra, int64(cost)-1) {
			return rc.debit(cost - int(charged))
		}
	}
}

// debit charges n more to every ask.
func (rc *requestContext) debit(n int) (err error) {
	ctx := context.WithoutCancel(rc.Context)
	for _, a := range rc.asks {
		err = errors.Join(err, a.Limiter.Debit(ctx, a.Key, n))
	}
	return err
}

// refund refunds the reservation of a request that is answered with status. A failure is
// logged and changes no answer.
func (rc *requestContext) refund(status int) {
	ctx := context.WithoutCancel(rc.Context)
	if err := rc.reservation.Refund(ctx); err != nil {
		rc.gate.log.warn(ctx, "weir: what a request took could not be given back", err, status)
	}
}

// leaveQueue gives back the places in queues of a request whose client has gone. Other rules
// stay charged: otherwise sending and hanging up would be free.
func (rc *requestContext) leaveQueue() {
	if rc.reservation == nil {
		return
	}
	ctx := context.WithoutCancel(rc.Context)
	if err := rc.reservation.LeaveQueue(ctx); err != nil {
		rc.gate.log.warn(ctx, "weir: the place of a client that has gone could not be given back", err, ended.status)
	}
}
