package gate

import (
	"context"
	"time"
)

// hold waits for the turn of a request, or until nobody waits for its answer any
// more.
func hold(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives back the places in queues of a client that has gone, and nothing
// else: if other rules came back too, sending and hanging up would be free.
func (r *record) leave() {
	if r.reservation == nil {
		return
	}
	ctx := context.WithoutCancel(r.Context)
	if err := r.reservation.LeaveQueue(ctx); err != nil {
		r.gate.journal.warn(ctx, "weir: the place of a client that has gone could not be given back", err, gone.status)
	}
}
