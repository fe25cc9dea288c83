package failover

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An Answer is a Store that keeps nothing and always says the same. It is a backup
// for [New]; for single rules there are [FailOpenFor] and [FailClosedFor].
type Answer uint8

const (
	// FailClosed decides nothing: every decision is a core.ErrFailClosed, which is a
	// core.ErrUnavailable and not a denial. Every gate answers it with 503. A decision of
	// nothing but core.Rule.Shadow rules, which are never enforced, is admitted.
	FailClosed Answer = iota
	// FailOpen admits everything, and says that nothing is used.
	FailOpen
)

var errClosed = fmt.Errorf("%w: %w: the primary is away", driver.ErrUnavailable, driver.ErrFailClosed)

// Take implements [driver.Store].
func (a Answer) Take(_ context.Context, charges []driver.Charge) error { return a.answer(charges) }

// Adjust implements [driver.Store].
func (a Answer) Adjust(_ context.Context, charges []driver.Charge) error { return a.answer(charges) }

func (a Answer) answer(charges []driver.Charge) error {
	if a != FailOpen {
		for i := range charges {
			if !charges[i].Rule.Shadow() {
				return errClosed
			}
		}
	}
	for i := range charges {
		admit(&charges[i])
	}
	return nil
}

// admit sets the Verdict of c, of any cost, to that of a cost of 1 on an untouched key.
func admit(c *driver.Charge) {
	untouched := c.Rule.Read(driver.State{}, time.Now().UnixMicro(), 1)
	c.Verdict = c.Rule.Verdict(untouched, 1, driver.Never, false)
}
