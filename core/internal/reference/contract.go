package reference

import (
	"fmt"

	"github.com/weir-go/weir/core/driver"
)

// check returns an error if charges break the contract of [driver.Store], which the Store that
// passes them on has to keep.
func check(charges []driver.Charge, asks bool) error {
	if len(charges) == 0 {
		return fmt.Errorf("%w: there is none", driver.ErrInvalidCharge)
	}
	for i := range charges {
		c := &charges[i]
		switch {
		case c.Key == "":
			return fmt.Errorf("%w: charge %d has no key", driver.ErrInvalidCharge, i)
		case c.Rule == nil:
			return fmt.Errorf("%w: charge %d has no rule", driver.ErrInvalidCharge, i)
		case c.Cost < 1 && c.Op != driver.Reset:
			return fmt.Errorf("%w: charge %d costs %d", driver.ErrInvalidCharge, i, c.Cost)
		case c.Op.Asks() != asks || c.Op > driver.Undo:
			return fmt.Errorf("%w: charge %d has op %d", driver.ErrInvalidCharge, i, c.Op)
		case c.Op == driver.Undo && c.Receipt == nil:
			return fmt.Errorf("%w: charge %d undoes nothing: it has no Receipt", driver.ErrInvalidCharge, i)
		case c.MaxDelay < 0:
			return fmt.Errorf("%w: charge %d has a negative delay", driver.ErrInvalidCharge, i)
		}
		for j := range charges[:i] {
			if charges[j].Meets(c) {
				return fmt.Errorf("%w: charges %d and %d are about the same key and rule", driver.ErrInvalidCharge, j, i)
			}
		}
	}
	return nil
}
