package memstore

import (
	"context"
	"math"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// A step is what the store works out about one charge.
type step struct {
	key   uint64 // the hash of the charge's
	shard *shard
	place place

	state   driver.State
	size    int  // of state, when it was loaded
	own     bool // state belongs to the key alone
	reading driver.Reading
	sum     int // the cost of the charges up to this one that share a spillway; 0 for an own state
}

// aim finds out where the state of c is. key is the hash of its key.
func (st *step) aim(s *Store, c *driver.Charge, key uint64) {
	st.key = key
	st.shard = &s.shards[s.shardOf(key)]
	st.place = newPlace(key, c.Rule.ID())
}

// Take implements [driver.Store]. It returns nil.
func (s *Store) Take(_ context.Context, charges []driver.Charge) error {
	if len(charges) == 1 {
		s.takeOne(&charges[0])
		return nil
	}
	var room [4]step
	var locks [4]uint64
	steps := s.aim(charges, room[:])
	admitted := s.takeAll(charges, steps, s.shardsOf(steps, locks[:0]))
	for i := range steps {
		c, st := &charges[i], &steps[i]
		cost := c.Cost
		if !admitted {
			c.Cost = max(cost, st.sum)
		}
		c.Answer(&st.reading, admitted)
		c.Cost = cost
	}
	return nil
}

// takeAll reads the states of charges, and changes them if all fit.
func (s *Store) takeAll(charges []driver.Charge, steps []step, shards []uint64) (admitted bool) {
	now := s.lock(shards)
	defer s.unlock(shards)
	admitted = true
	for i := range steps {
		c, st := &charges[i], &steps[i]
		st.load(c, now)
		if st.shard.spilled && !st.own {
			st.sum = costTogether(charges, steps, i)
		}
		admitted = admitted && (c.Rule.Shadow() || st.fits(c, now))
	}
	for i := range steps {
		c, st := &charges[i], &steps[i]
		if st.shard.spilled && admitted {
			st.load(c, now) // another charge of the decision may share the spillway
		}
		if state, changed := c.Commit(st.state, &st.reading, now, admitted); changed {
			st.save(c, state, now)
		}
	}
	return admitted
}

// fits says whether c fits, with the charges before it that share its spillway.
func (st *step) fits(c *driver.Charge, now int64) bool {
	if st.sum <= c.Cost {
		return c.Fits(&st.reading)
	}
	together := *c
	together.Cost = st.sum
	st.reading = together.Read(st.state, now)
	return together.Fits(&st.reading)
}

// costTogether returns the cost of the i-th charge and of those before it that share its
// spillway.
func costTogether(charges []driver.Charge, steps []step, i int) int {
	st, sum := &steps[i], charges[i].Cost
	for j := range steps[:i] {
		if o := &steps[j]; o.place.spill == st.place.spill && o.shard == st.shard && !o.own && charges[j].Op == driver.Spend {
			sum += min(charges[j].Cost, math.MaxInt-sum)
		}
	}
	return sum
}

// takeOne is Take for what is asked most: one charge, one lock.
func (s *Store) takeOne(c *driver.Charge) {
	key := s.hash(c.Key)
	sh, p := &s.shards[s.shardOf(key)], newPlace(key, c.Rule.ID())
	now := s.now()
	var r driver.Reading
	sh.takeOne(c, p, &r, now, s.clock == nil)
	c.Answer(&r, true)
}

// takeOne reads the state of c at p into r, and changes it if c fits. steady says that now is by
// a clock that never steps.
func (s *shard) takeOne(c *driver.Charge, p place, r *driver.Reading, now int64, steady bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if steady {
		now = s.forward(now)
	}
	loaded, _, at := s.load(p, c.Rule, now)
	size := loaded.Size()
	*r = c.Read(loaded, now)
	if state, changed := c.Commit(loaded, r, now, true); changed {
		if full, frac, debt, _ := state.Words(); at != nil && debt == 0 {
			at.set(full, frac, tolerance(c.Rule))
		} else {
			s.save(p, c.Rule, state, loaded, size, now)
		}
	}
}

// load reads the state of c.
func (st *step) load(c *driver.Charge, now int64) {
	st.state, st.own, _ = st.shard.load(st.place, c.Rule, now)
	st.size = st.state.Size()
	st.reading = c.Read(st.state, now)
}

// save stores state in place of the one that was loaded.
func (st *step) save(c *driver.Charge, state driver.State, now int64) {
	st.shard.save(st.place, c.Rule, state, st.state, st.size, now)
}

// aim returns the steps of charges, in room if it suffices.
func (s *Store) aim(charges []driver.Charge, room []step) []step {
	if len(charges) > len(room) {
		room = make([]step, len(charges))
	}
	steps := room[:len(charges)]
	for i := range charges {
		if i > 0 && charges[i].Key == charges[i-1].Key {
			steps[i].aim(s, &charges[i], steps[i-1].key)
		} else {
			steps[i].aim(s, &charges[i], s.hash(charges[i].Key))
		}
	}
	return steps
}

// shardsOf appends the shards of steps to shards, each once, in ascending order.
func (s *Store) shardsOf(steps []step, shards []uint64) []uint64 {
	for i := range steps {
		shards = append(shards, s.shardOf(steps[i].key))
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

// lock locks shards, which are in ascending order, so that two decisions cannot wait for each
// other, and returns the time.
func (s *Store) lock(shards []uint64) (now int64) {
	now = s.now()
	for _, i := range shards {
		s.shards[i].mu.Lock()
	}
	if s.clock == nil {
		for _, i := range shards {
			now = s.shards[i].forward(now)
		}
		for _, i := range shards {
			s.shards[i].last = now
		}
	}
	return now
}

func (s *Store) unlock(shards []uint64) {
	for _, i := range shards {
		s.shards[i].mu.Unlock()
	}
}

// forward is now, or the time of the shard's last decision if that is later. The
// clock is read before the lock is taken, so that nobody waits for it; this
// keeps it from running backwards from one decision about a key to the next.
func (sh *shard) forward(now int64) int64 {
	sh.last = max(sh.last, now)
	return sh.last
}
