package memstore

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// Take implements [driver.Store]. It returns nil.
func (s *Store) Take(_ context.Context, charges []driver.Charge) error {
	if len(charges) != 1 || charges[0].AtMost || charges[0].Waiter != nil {
		s.takeSeveral(charges)
		return nil
	}
	c := &charges[0]
	hash := s.hash(c.Key)
	s.shards[s.shardOf(hash)].take(c, hash, s.now(), s.wall(c), s.clock)
	return nil
}

func (s *Store) takeSeveral(charges []driver.Charge) {
	if len(charges) <= 2 {
		var room [2]chargeState // for most decisions, which then clear less memory
		s.takeIn(charges, room[:])
		return
	}
	var room [4]chargeState
	s.takeIn(charges, room[:])
}

// takeIn is takeSeveral with room for the states of some charges.
func (s *Store) takeIn(charges []driver.Charge, room []chargeState) {
	var locks [4]uint64
	states := s.resolve(charges, room)
	admitted := s.takeAll(charges, states, s.shardsOf(states, locks[:0]))
	for i := range states {
		c, st := &charges[i], &states[i]
		cost := c.Cost
		if !admitted {
			c.Cost = max(cost, st.sum)
		}
		c.Answer(&st.reading, admitted)
		c.Cost = cost
	}
}

// takeAll reads the states of charges, and changes them if all fit.
func (s *Store) takeAll(charges []driver.Charge, states []chargeState, shards []uint64) (admitted bool) {
	now := s.lock(shards)
	defer s.unlock(shards)
	if charges[0].AtMost {
		driver.Reduce(charges, func(i int) driver.Reading {
			states[i].load(&charges[i], now)
			return states[i].reading
		})
	}
	admitted = true
	for i := range states {
		c, st := &charges[i], &states[i]
		st.load(c, now)
		if st.shard.overflowed && !st.isOwn() {
			st.sum = overflowCost(charges, states, i)
		}
		admitted = admitted && (c.Rule.Shadow || st.fits(c, now))
	}
	for i := range states {
		c, st := &charges[i], &states[i]
		if st.shard.overflowed && admitted {
			st.load(c, now) // another charge of the decision may share the overflow bucket
		}
		if state, changed := c.Commit(st.state, &st.reading, st.time(now), admitted); changed {
			if st.bucket != nil && state.Debt == 0 {
				st.bucket.set(state.Time, state.Amount, c.Rule)
				continue
			}
			st.save(c, state, now)
			for j := i + 1; j < len(states); j++ {
				states[j].bucket = nil // it may have moved
			}
		}
	}
	return admitted
}

// A chargeState is the state of one charge during a call.
type chargeState struct {
	key   uint64 // the hash of the charge's key
	shard *shard
	hashes

	state   driver.State
	bucket  *bucket // that of state, until another state is stored; nil if there is none
	at      uint64  // the hash under which state was stored; 0 if there was none
	size    int     // the Size of state when it was loaded
	reading driver.Reading
	wall    int64 // the time of a quota, or 0
	sum     int   // the cost of the charges up to this one that share an overflow bucket; else 0
}

// resolve returns the chargeStates of charges, in room if that is large enough.
func (s *Store) resolve(charges []driver.Charge, room []chargeState) []chargeState {
	if len(charges) > len(room) {
		room = make([]chargeState, len(charges))
	}
	states := room[:len(charges)]
	for i := range charges {
		c, st := &charges[i], &states[i]
		if i > 0 && c.Key == charges[i-1].Key {
			st.key = states[i-1].key
		} else {
			st.key = s.hash(c.Key)
		}
		st.shard = &s.shards[s.shardOf(st.key)]
		st.hashes = newHashes(st.key, c.Rule.ID)
		st.wall = s.wall(c)
	}
	return states
}

func (st *chargeState) load(c *driver.Charge, now int64) {
	st.state, st.at, st.bucket = st.shard.load(st.hashes, c.Rule, now, st.time(now))
	st.size = st.state.Size()
	st.reading = c.Read(st.state, st.time(now))
}

// time returns the time of the charge if that of the others is now.
func (st *chargeState) time(now int64) int64 {
	if st.wall != 0 {
		return st.wall
	}
	return now
}

// save stores state in place of the loaded state.
func (st *chargeState) save(c *driver.Charge, state driver.State, now int64) {
	st.shard.save(st.hashes, st.at, c.Rule, state, st.size, now)
}

// isOwn reports whether the loaded state belongs to the key alone.
func (st *chargeState) isOwn() bool { return st.at == st.own }

// fits reports whether c fits together with the charges before it that share its overflow bucket.
func (st *chargeState) fits(c *driver.Charge, now int64) bool {
	if st.sum <= c.Cost {
		return c.Fits(&st.reading)
	}
	together := *c
	together.Cost = st.sum
	st.reading = together.Read(st.state, st.time(now))
	return together.Fits(&st.reading)
}

// shardsOf appends the shards of states to shards, each once, in ascending order.
func (s *Store) shardsOf(states []chargeState, shards []uint64) []uint64 {
	for i := range states {
		if i == 0 || states[i].key != states[i-1].key {
			shards = append(shards, s.shardOf(states[i].key))
		}
	}
	if len(shards) == 1 {
		return shards
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

// lock locks shards and returns the time. The shards are in ascending order, so two decisions
// cannot wait for each other.
func (s *Store) lock(shards []uint64) (now int64) {
	now = s.now()
	for _, i := range shards {
		s.shards[i].mu.Lock()
	}
	if s.clock != nil {
		return s.clock() // see shard.take
	}
	for _, i := range shards {
		now = s.shards[i].forward(now)
	}
	for _, i := range shards {
		s.shards[i].last = now
	}
	return now
}

func (s *Store) unlock(shards []uint64) {
	for _, i := range shards {
		s.shards[i].mu.Unlock()
	}
}
