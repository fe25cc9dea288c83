package memstore

import (
	"context"

	"github.com/weir-go/weir/core/driver"
)

// Adjust implements [driver.Store]. It returns nil.
func (s *Store) Adjust(_ context.Context, charges []driver.Charge) error {
	var room [4]step
	var locks [4]uint64
	steps := s.aim(charges, room[:])
	shards := s.shardsOf(steps, locks[:0])
	now := s.lock(shards)
	defer s.unlock(shards)
	for i := range steps {
		steps[i].adjust(&charges[i], now)
	}
	return nil
}

// adjust does c, and reads the state anew. What was charged to a spillway stays there: the
// other keys that have charged it cannot be told.
func (st *step) adjust(c *driver.Charge, now int64) {
	st.load(c, now)
	if c.Op != driver.Debit && !st.own {
		c.Answer(&st.reading, false)
		return
	}
	state := c.Apply(st.state, &st.reading, now)
	st.save(c, state, now)
	if state.IsZero() {
		st.shard.forget(st.place)
	}
	st.load(c, now) // a debt may have been cut, a log coarsened, and a spillway be left
	found := c.Verdict.Found
	c.Answer(&st.reading, false)
	c.Verdict.Found = found
}
