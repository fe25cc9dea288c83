package failover

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// maxHanging is the largest number of calls that may be unfinished after their callers have left.
const maxHanging = 128

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
		expired:  fmt.Errorf("%w: the primary gave no answer within %v: %w", driver.ErrUnavailable, deadline, context.DeadlineExceeded),
		stuck:    fmt.Errorf("%w: the primary has not returned from %d calls", driver.ErrUnavailable, maxHanging),
	}
}

// A verb is a method of a Store, such as driver.Store.Take, or a probe.
type verb func(s driver.Store, ctx context.Context, charges []driver.Charge) error

// safely calls the method do on s. It returns a panic as an error, because callers cannot recover
// panics of a goroutine of this package.
func safely(ctx context.Context, do verb, s driver.Store, charges []driver.Charge) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the primary panicked: %v", driver.ErrUnavailable, r)
		}
	}()
	return do(s, ctx, charges)
}

// call calls the method do on the Store and returns by the deadline. The Store works on a copy of
// the charges in a separate goroutine, which may outlive the call.
func (t *timeout) call(ctx context.Context, do verb, charges []driver.Charge) error {
	if t.hanging.Load() >= maxHanging {
		return t.stuck
	}
	inTime, cancel := context.WithTimeout(ctx, t.deadline)
	defer cancel()
	c := newCall(charges)
	go c.run(inTime, do, t)
	select {
	case <-c.done:
	case <-inTime.Done():
		if !c.ended.Swap(true) {
			t.hanging.Add(1)
			if err := ctx.Err(); err != nil {
				return err
			}
			return t.expired
		}
		<-c.done
	}
	if c.err == nil {
		c.copyTo(charges)
		return nil
	}
	if inTime.Err() != nil && ctx.Err() == nil {
		return t.expired // instead of the error of inTime, which is internal
	}
	return c.err
}

// A call works on a copy of the charges, because it may still run after the caller has left.
type call struct {
	charges []driver.Charge
	err     error
	done    chan struct{}
	ended   atomic.Bool // the caller has left or the Store has returned
}

func newCall(charges []driver.Charge) *call {
	return &call{charges: slices.Clone(charges), done: make(chan struct{})}
}

func (c *call) run(ctx context.Context, do verb, t *timeout) {
	defer func() {
		if c.ended.Swap(true) {
			t.hanging.Add(-1)
		}
		close(c.done)
	}()
	if c.err = ctx.Err(); c.err == nil { // the caller may have left before this began
		c.err = safely(ctx, do, t.store, c.charges)
	}
}

// copyTo copies the Verdicts and receipts to the charges of the caller.
func (c *call) copyTo(charges []driver.Charge) {
	for i := range charges {
		charges[i].Verdict, charges[i].Receipt = c.charges[i].Verdict, c.charges[i].Receipt
	}
}
