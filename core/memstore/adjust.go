package memstore

import (
	"context"

	"github.com/weir-go/weir/core/driver"
)

// Adjust implements [driver.Store]. It returns nil.
func (s *Store) Adjust(_ context.Context, charges []driver.Charge) error {
	var room [4]chargeState
	var locks [4]uint64
	states := s.resolve(charges, room[:])
	shards := s.shardsOf(states, locks[:0])
	now := s.lock(shards)
	defer s.unlock(shards)
	for i := range states {
		states[i].adjust(&charges[i], now)
	}
	return nil
}

// adjust applies c and sets its Verdict to the new state. A cost that was charged to an overflow
// bucket is not freed, because it is unknown how much of the bucket each key has used.
func (st *chargeState) adjust(c *driver.Charge, now int64) {
	st.load(c, now)
	if c.Op != driver.Debit && !st.isOwn() {
		c.Verdict.Found = false
		c.Answer(&st.reading, false)
		return
	}
	if state := c.Apply(st.state, &st.reading, st.time(now)); state == (driver.State{}) {
		st.shard.remove(st.own)
	} else {
		st.save(c, state, now)
	}
	if !c.Rule.Kind.Holds { // save may have cut a debt or made a log coarser
		st.load(c, now)
	}
	c.Answer(&st.reading, false)
}
