package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

var errAway = fmt.Errorf("%w: the primary is away, and its charges cannot be refunded or renewed", driver.ErrUnavailable)

// Adjust implements [driver.Store]. An Undo or a Renew goes to the store that has the charge, a Reset, a Debit of
// a pause and an Undo of a driver.Waiter to both stores, the beginning of a ban to the primary, and every other charge to
// the store that decides now. See the package comment.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	toPrimary := s.breaker.admits(s.now())
	if toPrimary && onlyPrimary(charges) {
		_, err := s.adjustPrimary(ctx, charges, false)
		return err
	}
	away := s.breaker.State() == open
	var primary, backup, both part
	for i, c := range charges {
		switch {
		case readsReceipt(&c) && c.Receipt.Origin&1 == byBackup:
			backup.add(i, c)
		case readsReceipt(&c):
			c.Receipt.Origin >>= 1
			primary.add(i, c)
		case belongsToBoth(&c):
			both.add(i, c)
			if !away {
				primary.add(i, c)
			}
		case toPrimary || begins(&c):
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
		err = cmp.Or(err, s.callBackup(ctx, driver.Store.Adjust, backup.charges))
		backup.copyTo(charges)
	}
	switch {
	case len(both.charges) == 0:
	case done:
		// The primary has them, and decides now or soon, so a failure of the backup is ignored.
		if s.backup.do(ctx, driver.Store.Adjust, both.charges) == nil {
			for i, place := range both.places {
				v := &charges[place].Verdict
				v.Found = v.Found || both.charges[i].Verdict.Found
			}
		}
	default:
		err = cmp.Or(err, s.callBackup(ctx, driver.Store.Adjust, both.charges))
		both.copyTo(charges)
	}
	return err
}

// onlyPrimary reports whether all charges go only to the primary while the primary decides.
func onlyPrimary(charges []driver.Charge) bool {
	return !slices.ContainsFunc(charges, func(c driver.Charge) bool {
		return belongsToBoth(&c) || readsReceipt(&c) && c.Receipt.Origin != 0
	})
}

// belongsToBoth reports whether c goes to both stores: a Reset; the Debit of a pause, which also holds while the
// other store decides; or the Undo of a [driver.Waiter], which either may know.
func belongsToBoth(c *driver.Charge) bool {
	return c.Op == driver.Reset || c.Op == driver.Debit && c.Rule.Kind.Closes && !begins(c) ||
		c.Op == driver.Undo && c.Waiter != nil
}

// begins reports whether c begins a ban (core.Spec.BlockFor). Only the primary has bans.
func begins(c *driver.Charge) bool { return c.Op == driver.Debit && c.Ban }

// readsReceipt reports whether c belongs to the store that wrote its receipt.
func readsReceipt(c *driver.Charge) bool {
	return (c.Op == driver.Undo || c.Op == driver.Renew) && !belongsToBoth(c)
}

// adjustPrimary passes charges to the primary unless the primary is away. It reports whether the
// primary has executed them. If not, it charges Debits to the backup, because a double charge is
// safer than none, and returns an error for Credits, Undos and Renews, because the backup does not
// have their charges. A Renew that fails leaves no cost charged for longer, so it is not lost. A pause is an error, too, if
// the primary decides the next events, which may not know it.
func (s *Store) adjustPrimary(ctx context.Context, charges []driver.Charge, away bool) (done bool, err error) {
	failed, cause := true, errAway
	if away {
		s.prober.renew(charges)
	} else {
		failed, cause = s.callPrimary(ctx, s.now(), driver.Store.Adjust, charges)
	}
	if !failed {
		return cause == nil, cause
	}
	var debits part
	kept, lost := false, false
	for i := range charges {
		if applied(charges[i]) { // by the primary, which has failed for another charge
			continue
		}
		switch op := charges[i].Op; {
		case belongsToBoth(&charges[i]): // Adjust passes it to the backup
			kept = kept || op == driver.Debit && s.breaker.State() != open
		case begins(&charges[i]):
			kept = true
		case op == driver.Debit:
			debits.add(i, charges[i])
		case op == driver.Renew:
			kept = true
		default: // a Credit or an Undo
			kept, lost = true, true
		}
	}
	if debits.charges != nil {
		err = s.callBackup(ctx, driver.Store.Adjust, debits.charges)
		debits.copyTo(charges)
	}
	if !kept {
		return false, err
	}
	if lost {
		s.lost.Add(1)
	}
	if !errors.Is(cause, driver.ErrUnavailable) {
		cause = fmt.Errorf("%w: %w", driver.ErrUnavailable, cause)
	}
	return false, cause
}

// A part holds copies of some charges of a call, and their indexes in the call.
type part struct {
	charges []driver.Charge
	places  []int
}

func (p *part) add(place int, c driver.Charge) {
	p.charges = append(p.charges, c)
	p.places = append(p.places, place)
}

// copyTo copies the Verdicts and Receipts to the charges of the call.
func (p *part) copyTo(charges []driver.Charge) {
	for i, place := range p.places {
		c := &charges[place]
		if c.Verdict = p.charges[i].Verdict; leavesReceipt(c) {
			c.Receipt = p.charges[i].Receipt
		}
	}
}
