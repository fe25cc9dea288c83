package failover

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/call"
)

// maxHanging is the largest number of calls that may be unfinished after their callers have left.
const maxHanging = 128

// errPrimary names the primary in the errors of package call.
var errPrimary = fmt.Errorf("%w: the primary", driver.ErrUnavailable)

// A timeout calls a Store and returns by a deadline, even if the Store ignores its context.
type timeout struct {
	store    driver.Store
	deadline time.Duration
	expired  error // the error of a call that the deadline has ended
	stuck    error // the error of a call that is not made, because maxHanging calls hang

	hanging atomic.Int64 // calls that the deadline or the caller has ended and that have not returned
}

func newTimeout(s driver.Store, deadline time.Duration) *timeout {
	return &timeout{
		store:    s,
		deadline: deadline,
		expired:  fmt.Errorf("%w gave no answer within %v: %w", errPrimary, deadline, context.DeadlineExceeded),
		stuck:    fmt.Errorf("%w has not returned from %d calls", errPrimary, maxHanging),
	}
}

// A verb is a method of a Store, such as driver.Store.Take, or a probe.
type verb func(s driver.Store, ctx context.Context, charges []driver.Charge) error

// call calls the method do on the Store and returns by the deadline. The Store works on a copy of
// the charges in a separate goroutine, because it may go on after the caller has left.
func (t *timeout) call(ctx context.Context, do verb, charges []driver.Charge) error {
	if t.hanging.Load() >= maxHanging {
		return t.stuck
	}
	inTime, cancel := context.WithTimeout(ctx, t.deadline)
	defer cancel()
	copied := slices.Clone(charges)
	returned, err := call.Detached(inTime, errPrimary, &t.hanging, func() ([]driver.Charge, error) {
		if err := inTime.Err(); err != nil { // the caller may have left before this began
			return nil, err
		}
		return copied, do(t.store, inTime, copied)
	})
	if err == nil || len(returned) > 0 && !returned[0].Op.Asks() { // an Adjust may be applied in part
		copy(charges, returned)
	}
	if err == nil {
		return nil
	}
	if (inTime.Err() != nil || err == context.DeadlineExceeded) && ctx.Err() == nil {
		return t.expired // instead of the error of inTime, which is internal
	}
	return err
}
