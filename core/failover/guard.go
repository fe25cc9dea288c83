package failover

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
)

// maxHanging bounds the calls that are left behind in a Store that does not
// return from them.
const maxHanging = 128

// A guard leaves a Store that does not answer in time, whether it looks at its
// context or not.
type guard struct {
	store    core.Store
	deadline time.Duration
	silent   error // the error of a call that was left
	stuck    error // the error of a call that was not made

	hanging atomic.Int64 // calls that were left and have not returned
}

func newGuard(s core.Store, deadline time.Duration) *guard {
	return &guard{
		store:    s,
		deadline: deadline,
		silent:   fmt.Errorf("%w: the primary gave no answer within %v: %w", core.ErrUnavailable, deadline, context.DeadlineExceeded),
		stuck:    fmt.Errorf("%w: the primary has not returned from %d calls", core.ErrUnavailable, maxHanging),
	}
}

// A method asks a store about charges.
type method func(ctx context.Context, s core.Store, charges []core.Charge) error

func take(ctx context.Context, s core.Store, charges []core.Charge) error {
	return s.Take(ctx, charges)
}

// safely calls ask. A panic is an error: one more way to fail, and on a goroutine of
// this package nobody else could recover it.
func safely(ctx context.Context, ask method, s core.Store, charges []core.Charge) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the primary panicked: %v", core.ErrUnavailable, r)
		}
	}()
	return ask(ctx, s, charges)
}

// call calls ask for the store, within the deadline. The store works on a copy of the
// charges in a goroutine of its own, which may outlast the call.
func (g *guard) call(ctx context.Context, ask method, charges []core.Charge) error {
	if g.hanging.Load() >= maxHanging {
		return g.stuck
	}
	inTime, cancel := context.WithTimeout(ctx, g.deadline)
	defer cancel()
	c := newCall(charges)
	go c.run(inTime, ask, g)
	select {
	case <-c.done:
	case <-inTime.Done():
		if !c.second.Swap(true) {
			g.hanging.Add(1)
			if err := ctx.Err(); err != nil {
				return err
			}
			return g.silent
		}
		<-c.done
	}
	if c.err == nil {
		c.copyTo(charges)
		return nil
	}
	if inTime.Err() != nil && ctx.Err() == nil {
		return g.silent // and not that a context ended of which the caller knows nothing
	}
	return c.err
}

// A call is a copy of charges that may outlast them.
type call struct {
	charges  []core.Charge
	receipts []core.Receipt
	err      error
	done     chan struct{}
	second   atomic.Bool // set by the first of the caller that leaves and the store that returns
}

func newCall(charges []core.Charge) *call {
	c := &call{charges: slices.Clone(charges), done: make(chan struct{})}
	for i := range c.charges {
		receipt := c.charges[i].Receipt
		if receipt == nil {
			continue
		}
		if c.receipts == nil {
			c.receipts = make([]core.Receipt, len(charges))
		}
		c.receipts[i] = *receipt
		c.charges[i].Receipt = &c.receipts[i]
	}
	return c
}

func (c *call) run(ctx context.Context, ask method, g *guard) {
	defer func() {
		if c.second.Swap(true) {
			g.hanging.Add(-1)
		}
		close(c.done)
	}()
	if c.err = ctx.Err(); c.err == nil { // the caller may have left before this began
		c.err = safely(ctx, ask, g.store, c.charges)
	}
}

// copyTo gives the caller the answers.
func (c *call) copyTo(charges []core.Charge) {
	for i := range charges {
		charges[i].State = c.charges[i].State
		if charges[i].Receipt != nil {
			*charges[i].Receipt = c.receipts[i]
		}
	}
}
