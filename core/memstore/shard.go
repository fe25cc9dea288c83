package memstore

import (
	"sync"
	"unsafe"

	"github.com/weir-go/weir/core/driver"
)

// A shard holds the states of a part of the keys, guarded by one lock. All rules of one key are in
// one shard. A decision about a bucket touches only the first 64 bytes, which are one cache line,
// so only this line moves from one core to another.
type shard struct {
	shardState
	_ [(cacheLine - unsafe.Sizeof(shardState{})%cacheLine) % cacheLine]byte
}

const cacheLine = 64

type shardState struct {
	mu         sync.Mutex
	last       int64         // the time of the last decision
	clocked    bool          // the store has the option Clock
	overflowed bool          // there may be overflow buckets
	hasDebts   bool          // there may be debts
	buckets    table[bucket] // the buckets without a debt

	items table[item] // the other states
	size  int         // the size of all buckets and items, in bytes
	limit int         // of size
	stats Stats
}

// A value is a bucket or an item: the state of one rule of one key in a table.
type value[V any] interface {
	*V
	idle(s *shard, now int64) bool        // the state has expired
	fillRatio(s *shard, now int64) uint64 // the used part of the capacity: 0 when idle, up to exhausted
	size() int                            // the size of its slot and of the memory that it points to, in bytes
}

// forward returns now, or the time of the shard's last decision if that is later. Callers read the
// clock before they lock the shard, so that the lock is held for less time. They may then lock in
// another order, and forward ensures that the time never decreases within a shard.
func (s *shard) forward(now int64) int64 {
	s.last = max(s.last, now)
	return s.last
}

// take decides about c, the only charge of a decision. key is the hash of its key. wall is the time of a
// quota, or 0. clock is that of the option Clock, or nil. It may step back, which forward would hide, so it is read
// again under the lock.
func (s *shard) take(c *driver.Charge, key uint64, now, wall int64, clock func() int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if clock == nil {
		now = s.forward(now)
	} else {
		now = clock()
	}
	own := mix(key, c.Rule.ID)
	if b := s.buckets.find(own); b != nil { // a bucket with a state here has no debt: see saveDebt
		if state, changed := c.Decide(b.state(), now); changed {
			b.set(state.Time, state.Amount, c.Rule)
		}
		return
	}
	h := newHashes(key, c.Rule.ID)
	decided := now
	if wall != 0 {
		decided = wall
	}
	loaded, at, _ := s.load(h, c.Rule, now, decided)
	size := loaded.Size()
	if state, changed := c.Decide(loaded, decided); changed {
		s.save(h, at, c.Rule, state, size, now)
	}
}

// load returns the State of h under rule, and the hash under which it is stored, or 0 if there is
// none. decided is the time of the decision. If b is not nil, it holds the State, until another state is stored in the shard.
func (s *shard) load(h hashes, rule *driver.Compiled, now, decided int64) (state driver.State, at uint64, b *bucket) {
	if !rule.Kind.Refills {
		if it, at := find(s, &s.items, h, now); it != nil {
			if at != h.own && rule.Rollover > 0 && (&driver.Charge{Rule: rule, Cost: 1}).Read(it.state, decided).Count == 0 {
				return driver.State{}, at, nil // nothing rolls over from a state of other keys
			}
			return it.state, at, nil
		}
		return driver.State{}, 0, nil
	}
	if s.hasDebts {
		if it := s.items.find(h.own); it != nil {
			return it.state, h.own, nil
		}
	}
	if b, at = find(s, &s.buckets, h, now); b != nil {
		return b.state(), at, b
	}
	return driver.State{}, 0, nil
}

// save stores state, which belongs to rule. It replaces the State that load found: at is the hash
// of that State, and size its Size. Another charge of the decision may have evicted that State.
func (s *shard) save(h hashes, at uint64, rule *driver.Compiled, state driver.State, size int, now int64) {
	if rule.Kind.Refills {
		s.saveBucket(h, at, rule, state, now)
	} else {
		s.saveItem(h, at, rule, state, size, now)
	}
}

// saveBucket stores the State of a bucket. A debt that finds no memory becomes an empty bucket.
func (s *shard) saveBucket(h hashes, at uint64, rule *driver.Compiled, state driver.State, now int64) {
	full, frac := state.Time, state.Amount
	if state.Debt != 0 {
		if s.saveDebt(h, rule, state, now) {
			return
		}
		k := rule.Constants
		full, frac = now+k.Full.Micros, k.Full.Frac
	}
	b := s.buckets.find(at)
	switch {
	case s.hasDebts && s.items.find(h.own) != nil: // the debt is repaid
		remove(s, &s.items, h.own)
		s.hasDebts = s.items.used > 0
		b = insert(s, &s.buckets, h.own, now)
	case b == nil:
		b, _ = create(s, &s.buckets, h, bucketSize, now)
	}
	b.set(full, frac, rule)
}

// saveDebt stores the State of a bucket in debt, and reports whether there was memory for it.
func (s *shard) saveDebt(h hashes, rule *driver.Compiled, state driver.State, now int64) (saved bool) {
	it := s.items.find(h.own)
	if it == nil {
		if !s.makeRoom(itemSize, 0, now) {
			return false
		}
		it = insert(s, &s.items, h.own, now)
	}
	remove(s, &s.buckets, h.own)
	*it, s.hasDebts = item{state, rule}, true
	return true
}

// saveItem stores any other State. If the State has grown, saveItem may evict other States. If no
// other State can be evicted, this State is made coarser, so that it is no larger than before.
func (s *shard) saveItem(h hashes, at uint64, rule *driver.Compiled, state driver.State, size int, now int64) {
	it := s.items.find(at)
	switch {
	case it != nil:
	case rule.Kind.Holds: // an overflow bucket could not free its places
		s.makeRoom(itemSize+state.Size(), 0, now)
		it, at, size = insert(s, &s.items, h.own, now), h.own, 0
	default:
		it, at = create(s, &s.items, h, itemSize+state.Size(), now)
		size = it.state.Size()
	}
	s.size += state.Size() - size
	*it = item{state, rule}
	if s.size > s.limit && !s.makeRoom(0, at, now) {
		it = s.items.find(at) // makeRoom may have moved it
		s.size -= it.state.Size()
		it.state = it.state.Coarsen()
		s.size += it.state.Size()
	}
}

// remove removes the State that is stored at hash.
func (s *shard) remove(hash uint64) {
	remove(s, &s.buckets, hash)
	remove(s, &s.items, hash)
}

// find returns the value of h and the hash under which it is stored, or nil.
func find[V any, E value[V]](s *shard, t *table[V], h hashes, now int64) (v *V, at uint64) {
	if v = t.find(h.own); v != nil {
		return v, h.own
	}
	if s.overflowed {
		if v = t.find(h.overflow); v != nil && !E(v).idle(s, now) {
			return v, h.overflow
		}
	}
	return nil, 0
}

// create returns a new value for h, which must have none, and the hash under which it is stored. If
// there is no memory for a value of size bytes, it returns the overflow bucket of h, new or not.
func create[V any, E value[V]](s *shard, t *table[V], h hashes, size int, now int64) (v *V, at uint64) {
	at = h.own
	if !s.makeRoom(size, 0, now) {
		at, s.overflowed = h.overflow, true
		s.stats.Overflowed++
	}
	if v = t.find(at); v == nil {
		v = insert[V, E](s, t, at, now)
	}
	return v, at
}

// insert returns a new value. There must be memory for it.
func insert[V any, E value[V]](s *shard, t *table[V], hash uint64, now int64) *V {
	v := t.insert(hash, func(v *V) bool {
		if E(v).idle(s, now) {
			s.size -= E(v).size()
			return true
		}
		return false
	})
	s.size += E(v).size()
	return v
}

// remove removes the value of hash, if there is one.
func remove[V any, E value[V]](s *shard, t *table[V], hash uint64) {
	if v := t.find(hash); v != nil {
		s.size -= E(v).size()
		t.remove(hash)
	}
}
