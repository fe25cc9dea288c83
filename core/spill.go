package core

import (
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/hold"
)

// A spill holds the parts of an event that do not fit in it: the lines if it has several, and the parts that few Reservations
// have.
type spill struct {
	lines   []line
	charges []driver.Charge
	asks    []asked

	rest   []State        // of a Reservation: the States of all lines but the first, once they are made
	later  []raises       // of a Reservation, for each charge; nil until the cost is raised
	holds  *hold.Holds    // of a Reservation: its places; nil if it has none
	begun  time.Duration  // when its decision was sent, if it has places
	waiter *driver.Waiter // the caller who waits for places, or nil

	room struct { // so that an event of two rules takes one allocation
		lines   [2]line
		charges [2]driver.Charge
		asks    [2]asked
		rest    [1]State
	}
}

// beginHold notes that a decision about places is sent to the Store of l, after it has freed the places
// there that no reservation has any more.
func (m *spill) beginHold(l *shared) {
	m.begun = hold.Now()
	if l.local {
		hold.Sweep(l.store)
	}
}

// states returns room for n States, or, if known, the States of an earlier call with reserved.
// Decisions that were returned share them, so they must not change.
func (m *spill) states(n int, reserved bool) (s []State, known bool) {
	switch {
	case !reserved:
		return make([]State, n), false
	case m.rest != nil:
		return m.rest, true
	case n <= len(m.room.rest):
		m.rest = m.room.rest[:n]
	default:
		m.rest = make([]State, n)
	}
	return m.rest, false
}
