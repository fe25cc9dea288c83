package gate

import (
	"context"
	"time"
)

// MaxDelay makes the gate deny a request at once if a leaky bucket would hold it for longer than d, by
// default 10 s. The request is charged nothing, and its Retry-After is the time until the delay would be
// at most d. The Store applies the bound, which therefore also holds for concurrent requests. Choose d below
// the timeouts of clients and load balancers: a client that hangs up keeps its departure unless it is the
// last one in the queue, and later requests wait for it. Rules of other algorithms have no delay. If d is
// less than a microsecond, only requests without a delay are admitted.
//
// MaxDelay panics if d is not positive.
func MaxDelay(d time.Duration) Option {
	if d <= 0 {
		panic("gate: MaxDelay: duration is not positive")
	}
	return option(func(o *options) { o.maxDelay = d })
}

// defaultMaxDelay is the bound without [MaxDelay]. Many load balancers give up after 30 to 60 s, and people sooner.
const defaultMaxDelay = 10 * time.Second

// sleep waits for delay, which is above zero, and returns an error if ctx ends before that.
func sleep(ctx context.Context, delay time.Duration) error {
	departure, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	<-departure.Done()
	return ctx.Err()
}

// refundDelayed refunds the leaky buckets of a request whose client hung up while it was held. Other
// rules stay charged; otherwise sending a request and hanging up would be free.
func refundDelayed(rec *record) {
	ctx := rec.detached()
	if err := inner.RefundDelayed(&rec.reservation, ctx); err != nil {
		rec.gate.log.warn(ctx, "weir: the leaky bucket of a client that hung up could not be refunded", err, ended.status)
	}
}
