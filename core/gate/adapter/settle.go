package adapter

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// Settle sets the total cost of an admitted request: see [gate.Settle].
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

// refund refunds the reservation of a request whose response has this status. An error of the Store
// is logged and does not change the response.
func (rc *requestContext) refund(status int) {
	ctx := context.WithoutCancel(rc.Context)
	if err := rc.reservation.Refund(ctx); err != nil {
		rc.gate.log.warn(ctx, "weir: the cost of a request could not be refunded", err, status)
	}
}

// leaveQueue refunds the leaky buckets of a request whose client hung up while it was held. Other
// rules stay charged; otherwise sending a request and hanging up would be free.
func (rc *requestContext) leaveQueue() {
	if rc.reservation == nil {
		return
	}
	ctx := context.WithoutCancel(rc.Context)
	if err := rc.reservation.LeaveQueue(ctx); err != nil {
		rc.gate.log.warn(ctx, "weir: the leaky bucket of a client that hung up could not be refunded", err, ended.status)
	}
}
