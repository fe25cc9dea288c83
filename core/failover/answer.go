package failover

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// An Answer is a Store that keeps nothing and always says the same. It is a backup
// for [New]; for single rules there are [FailOpenFor] and [FailClosedFor].
type Answer uint8

const (
	// FailClosed decides nothing: every decision is a [core.ErrFailClosed], which is a
	// [core.ErrUnavailable] and not a denial. Every gate answers it with 503. A decision of
	// nothing but [core.Rule.Shadow] rules, which are never enforced, is admitted.
	FailClosed Answer = iota
	// FailOpen admits everything, and says that nothing is used.
	FailOpen
)

var errClosed = fmt.Errorf("%w: %w: the primary is away", core.ErrUnavailable, core.ErrFailClosed)

// Take implements [core.Store].
func (a Answer) Take(ctx context.Context, charges []core.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := core.CheckCharges(charges); err != nil {
		return err
	}
	if a != FailOpen {
		for i := range charges {
			if !charges[i].Rule.IsShadow() {
				return errClosed
			}
		}
	}
	for i := range charges {
		admit(&charges[i])
	}
	return nil
}

// admit answers c as an untouched key would, but with a yes to any cost.
func admit(c *core.Charge) {
	c.Answer(c.Rule.Program().Untouched(1, algo.Never, time.Now().UnixMicro()), false)
	c.State.Allowed, c.State.RetryAfter, c.State.Soft = true, 0, false
}
