package adapter

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/internal/unexported"
)

// inner contains the methods of package core that only gates need.
var inner = unexported.Get[*core.Limiter, *core.Reservation, core.Rule]()

// Settle implements [request.Record].
func (rc *requestContext) Settle(l *core.Limiter, cost int) error {
	ctx := context.WithoutCancel(rc.Context)
	switch {
	case l != nil:
		return rc.reservation.SettleFor(ctx, l, cost)
	case cost > 0 && rc.gate.ownCosts:
		return gate.ErrSeveralCosts
	}
	return rc.reservation.Settle(ctx, cost)
}

// refund refunds the reservation of a request whose response has this status. An error of the Store
// is logged and does not change the response.
func (rc *requestContext) refund(status int) {
	ctx := context.WithoutCancel(rc.Context)
	if err := rc.reservation.Refund(ctx); err != nil {
		rc.gate.log.warn(ctx, "weir: the cost of a request could not be refunded", err, status)
	}
}

// settleAsk sets the cost of the ask with index i of an admitted request.
func (rc *requestContext) settleAsk(i, cost int) {
	ctx := context.WithoutCancel(rc.Context)
	if err := inner.SettleAsk(&rc.reservation, ctx, i, cost); err != nil {
		rc.gate.log.warn(ctx, "weir: the cost of a request could not be settled", err, http.StatusOK)
	}
}

// leaveQueue refunds the leaky buckets of a request whose client hung up while it was held. Other
// rules stay charged; otherwise sending a request and hanging up would be free.
func (rc *requestContext) leaveQueue() {
	ctx := context.WithoutCancel(rc.Context)
	if err := inner.LeaveQueue(&rc.reservation, ctx); err != nil {
		rc.gate.log.warn(ctx, "weir: the leaky bucket of a client that hung up could not be refunded", err, ended.status)
	}
}
