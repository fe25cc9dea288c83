package failover

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/atmost"
	"github.com/weir-go/weir/core/internal/call"
)

// Take implements [driver.Store]. It returns the error of ctx if ctx has ended, an error of the
// primary about the call itself, or an error of the backup.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	begun := s.now()
	if !s.breaker.admits(begun) {
		return s.callBackup(ctx, driver.Store.Take, charges)
	}
	most := charges[0].Cost
	failed, err := s.callPrimary(ctx, begun, driver.Store.Take, charges)
	if failed {
		atmost.SetCost(charges, most) // the primary may have reduced it before it failed
		return s.callBackup(ctx, driver.Store.Take, charges)
	}
	return err
}

// callPrimary calls the method do on the primary. The call began at begun. failed reports that the
// primary failed with err while the caller still waits, so the backup must decide.
func (s *Store) callPrimary(ctx context.Context, begun time.Duration, do verb, charges []driver.Charge) (failed bool, err error) {
	if s.direct {
		err = call.Recover(errPrimary, func() error { return do(s.primary.store, ctx, charges) })
	} else {
		err = s.primary.call(ctx, do, charges)
	}
	for i := range charges { // after an error, too: an Adjust may be applied in part
		setOrigin(&charges[i], byPrimary, 0)
	}
	if err == nil {
		if s.breaker.succeed(begun) {
			s.prober.samples.succeeded(charges)
		}
		return false, nil
	}
	return s.assess(ctx, begun, charges, err)
}

// assess reports whether err, returned by the primary, is a failure after which the backup must
// decide, and notifies the breaker and the prober.
func (s *Store) assess(ctx context.Context, begun time.Duration, charges []driver.Charge, err error) (failed bool, _ error) {
	if !isFailure(err) {
		return false, err
	}
	now, ended := s.now(), ctx.Err()
	if ended != nil && now-begun < s.primary.deadline {
		// A cancelled call is no evidence against the primary unless the whole deadline had passed.
		// Callers may be cancelling because the primary hangs, so the primary is probed.
		if !s.breaker.succeededSince(begun) {
			s.prober.start(charges)
		}
		return false, ended
	}
	if ended == nil {
		s.failures.Add(1)
	}
	if i := slices.IndexFunc(charges, applied); i >= 0 { // a part of the primary has failed
		if s.breaker.succeed(begun) {
			s.prober.samples.succeeded(charges[i:])
		}
		return ended == nil, cmp.Or(ended, err)
	}
	if !errors.Is(err, driver.ErrOverloaded) { // the primary is healthy, but busy
		s.breaker.fail(begun, now, err)
		s.prober.start(charges)
	}
	return ended == nil, cmp.Or(ended, err)
}

// applied reports whether c, of an Adjust that returned an error, was executed.
func applied(c driver.Charge) bool { return c.Verdict.Done }

// isFailure reports whether err is a failure of the store. Errors about the call are not failures,
// because clients may cause them. Unknown errors are failures, because a store may return network
// errors unchanged.
func isFailure(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, driver.ErrInvalidCharge) &&
		!errors.Is(err, driver.ErrInvalidRule) && !errors.Is(err, driver.ErrRuleConflict)
}

// callBackup calls the method do on the backup. Undos and Renews must have receipts as the backup
// wrote them.
func (s *Store) callBackup(ctx context.Context, do verb, charges []driver.Charge) error {
	s.prober.renew(charges)
	err := s.backup.do(ctx, do, charges)
	if err != nil {
		return err
	}
	s.backups.Add(1)
	for i := range charges { // bans are those of the primary, and none begins without it
		if c := &charges[i]; c.Ban && c.Op.Asks() {
			c.Verdict = driver.Verdict{Rule: c.Rule, Allowed: true, Unknown: true}
		}
	}
	return nil
}

// The lowest bit of [driver.Receipt.Origin] says which store has the charge. For a charge of the backup, the next bits are
// the number by which its rule was divided, or 0. The other bits contain the Origin as that store wrote it.
const (
	byPrimary = 0
	byBackup  = 1
)

// leavesReceipt reports whether a store may write a receipt for c.
func leavesReceipt(c *driver.Charge) bool {
	return c.Op == driver.Spend || c.Op == driver.Debit
}

// setOrigin adds by, the store that has the charge, and the number of parts to its receipt.
func setOrigin(c *driver.Charge, by, parts int) {
	switch {
	case !leavesReceipt(c):
	case by == byBackup:
		c.Receipt.Origin = (c.Receipt.Origin<<partBits|parts)<<1 | by
	default:
		c.Receipt.Origin = c.Receipt.Origin<<1 | by
	}
}

// originOf returns the Origin of a charge of the backup as the backup wrote it, and the number by which its rule was
// divided.
func originOf(r driver.Receipt) (origin, parts int) {
	return r.Origin >> 1 >> partBits, r.Origin >> 1 & maxParts
}
