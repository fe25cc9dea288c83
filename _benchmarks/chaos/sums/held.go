package main

import "github.com/weir-go/weir/core"

// A held is a reservation that a caller can still change, and the charges that it must consist of.
type held struct {
	*core.Reservation
	target  *target
	key     int      // the index of the key
	denied  bool     // changes do nothing
	charges []charge // the decision and the increases by Settle, the oldest first
}

// A charge is a part of the cost of a reservation.
type charge struct {
	cost int
	// failed means that the operation failed. Whether the cost was charged is unknown, and the reservation has no
	// receipt, so a refund of this charge frees nothing.
	failed bool
}

// cost returns the cost of h, with those of failed increases.
func (h *held) cost() (sum int) {
	for _, c := range h.charges {
		sum += c.cost
	}
	return sum
}

// reduce reduces the cost of h by n. It returns the units that are freed by each call of the store: one for each
// charge, the newest first.
func (h *held) reduce(n int) (steps []int) {
	for n > 0 {
		last := &h.charges[len(h.charges)-1]
		part := min(n, last.cost)
		last.cost -= part
		n -= part
		if last.failed {
			steps = append(steps, 0)
		} else {
			steps = append(steps, part)
		}
		if last.cost == 0 {
			h.charges = h.charges[:len(h.charges)-1]
		}
	}
	return steps
}
