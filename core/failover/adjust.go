package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/core/driver"
)

var errAway = fmt.Errorf("%w: the primary is away, and what it has taken stays taken", driver.ErrUnavailable)

// Adjust implements [driver.Store]. An Undo goes to the store that has the charge, a Reset
// to both, and all else to the store that decides now: see the package comment.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	decides := s.breaker.admits(s.now()) // the primary
	if decides && forPrimary(charges) {
		_, err := s.adjustPrimary(ctx, charges, false)
		return err
	}
	away := s.breaker.State() == Backup
	var primary, backup, resets part
	for i, c := range charges {
		switch {
		case c.Op == driver.Undo && originOf(&c) == byBackup:
			backup.add(i, withoutOrigin(c))
		case c.Op == driver.Undo:
			primary.add(i, withoutOrigin(c))
		case c.Op == driver.Reset:
			resets.add(i, c)
			if !away {
				primary.add(i, c)
			}
		case decides:
			primary.add(i, c)
		default:
			backup.add(i, c)
		}
	}
	var err error
	done := false // by the primary
	if len(primary.charges) > 0 {
		done, err = s.adjustPrimary(ctx, primary.charges, away)
		primary.copyTo(charges)
	}
	if ended := ctx.Err(); ended != nil {
		return cmp.Or(err, ended)
	}
	if len(backup.charges) > 0 {
		err = cmp.Or(err, s.useBackup(ctx, adjust, backup.charges))
		backup.copyTo(charges)
	}
	switch {
	case len(resets.charges) == 0:
	case done:
		// The primary has forgotten, and decides or soon will. So this may fail.
		if s.doBackup(ctx, adjust, resets.charges) == nil {
			resets.copyFound(charges)
		}
	default:
		err = cmp.Or(err, s.useBackup(ctx, adjust, resets.charges))
		resets.copyTo(charges)
	}
	return err
}

// forPrimary says whether all charges go to the primary, and to it alone, while it decides.
func forPrimary(charges []driver.Charge) bool {
	for i := range charges {
		c := &charges[i]
		if c.Op == driver.Reset || c.Op == driver.Undo && c.Receipt.Origin != 0 {
			return false
		}
	}
	return true
}

// adjustPrimary calls the primary, unless it is away, and says whether it has done the
// charges. If it failed them or is away, a Debit is charged to the backup: a double charge
// is safer than none. A Credit or Undo is an error, for the backup does not have the charge.
func (s *Store) adjustPrimary(ctx context.Context, charges []driver.Charge, away bool) (done bool, err error) {
	failed, cause := true, errAway
	if !away {
		failed, cause = s.callPrimary(ctx, s.now(), adjust, charges)
	}
	if !failed {
		return cause == nil, cause
	}
	var debits part
	lost := false
	for i := range charges {
		switch charges[i].Op {
		case driver.Debit:
			debits.add(i, charges[i])
		case driver.Credit, driver.Undo:
			lost = true
		}
	}
	if debits.charges != nil {
		err = s.useBackup(ctx, adjust, debits.charges)
		debits.copyTo(charges)
	}
	if !lost {
		return false, err
	}
	s.lost.Add(1)
	if !errors.Is(cause, driver.ErrUnavailable) {
		cause = fmt.Errorf("%w: %w", driver.ErrUnavailable, cause)
	}
	return false, cause
}
