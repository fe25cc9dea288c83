package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
)

const (
	mostCost   = 5 // of an operation
	mostHeld   = 8 // the reservations that a caller can still change
	mostRaises = 3 // of a reservation, which can undo 16 charges
	// mostWait is the longest time after which the context of a hasty call ends.
	mostWait = 3 * time.Millisecond
	// mostBreak is the longest break between two operations of a caller. With breaks, more faults happen in the same
	// number of operations, and the load of the stores varies.
	mostBreak = 100 * time.Millisecond
)

// A caller makes operations on one store, one after the other.
type caller struct {
	audit *audit
	store int
	rand  *rand.Rand
	held  []*held // the oldest first
}

// operate makes one operation, in some cases after a break.
func (c *caller) operate(ctx context.Context) {
	if c.rand.IntN(16) == 0 {
		wait(ctx, c.upTo(mostBreak))
	}
	if c.rand.IntN(8) == 0 && !c.audit.config.calm {
		var cancel context.CancelFunc
		ctx, cancel = c.hasty(ctx)
		defer cancel()
	}
	if len(c.held) > 0 && c.rand.IntN(100) < 45 {
		c.change(ctx)
	} else {
		c.charge(ctx)
	}
}

// upTo returns a random time above zero, up to most.
func (c *caller) upTo(most time.Duration) time.Duration {
	return time.Duration(1 + c.rand.Int64N(int64(most)))
}

// hasty returns a context that ends soon or has ended: at its deadline, or because it is cancelled.
func (c *caller) hasty(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := max(0, c.upTo(mostWait*9/8)-mostWait/8)
	if c.rand.IntN(2) == 0 {
		return context.WithTimeout(ctx, wait)
	}
	ctx, cancel := context.WithCancel(ctx)
	if wait == 0 {
		cancel()
		return ctx, cancel
	}
	timer := time.AfterFunc(wait, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// charge makes an operation that charges a random cost.
func (c *caller) charge(ctx context.Context) {
	t := c.audit.targets[c.rand.IntN(len(c.audit.targets))]
	key := c.rand.IntN(keys)
	l, name, n := t.limiters[c.store], c.audit.names[key], 1+c.rand.IntN(mostCost)
	ended := ctx.Err() != nil
	var r *core.Reservation
	var err error
	taken, least := 0, n // the least cost of an operation that is admitted
	switch kind := c.rand.IntN(20); {
	case kind < 7:
		r, err = l.Reserve(ctx, name, n)
	case kind < 14:
		if t.limited {
			least = 1
		}
		r, err = l.ReserveAtMost(ctx, name, n)
	case kind < 16 && !t.limited:
		if err = l.Debit(ctx, name, n); err == nil {
			taken = n
		}
	default:
		var d core.Decision
		if d, err = l.AllowN(ctx, name, n); d.Allowed {
			taken = n
		}
	}
	if err != nil {
		changes := []int{0}
		if c.mayHaveRun(err, ended) {
			for cost := least; cost <= n; cost++ {
				changes = append(changes, cost)
			}
		}
		c.audit.add(t, key, entry{failed: true, changes: changes})
		return
	}
	if r != nil {
		if taken = r.Cost(); r.Decision().Allowed != (taken > 0) {
			c.audit.violations.addf("key %s: a reservation has the decision %v and the cost %d", name, r.Decision(), taken)
		}
		c.hold(&held{Reservation: r, target: t, key: key, denied: taken == 0, charges: []charge{{cost: taken}}})
	}
	if taken > n || taken < least && (taken > 0 || !t.limited) {
		c.audit.violations.addf("key %s: an operation for %d units was acknowledged with the cost %d", name, n, taken)
	}
	c.audit.add(t, key, entry{denied: taken == 0, cost: taken})
}

// hold adds a reservation. If c holds too many, the oldest one stays charged for ever.
func (c *caller) hold(h *held) {
	if c.held = append(c.held, h); len(c.held) > mostHeld {
		c.held = c.held[1:]
	}
}

// mayHaveRun reports whether an operation that returned err may have changed states. ended says whether its context
// had ended before.
func (c *caller) mayHaveRun(err error, ended bool) bool {
	if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		c.audit.violations.addf("an operation returned the error %v", err)
	}
	return !ended && !errors.Is(err, redisstore.ErrOverloaded)
}
