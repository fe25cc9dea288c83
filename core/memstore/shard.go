package memstore

import (
	"sync"
	"unsafe"

	"github.com/weir-go/weir/core/driver"
)

// A shard is a part of the keys behind one lock. All rules of one key live in
// one shard. What a decision about a bucket touches is the first 64 bytes, one
// cache line: another core has to hand over no more than that.
type shard struct {
	shardState
	_ [(cacheLine - unsafe.Sizeof(shardState{})%cacheLine) % cacheLine]byte
}

const cacheLine = 64

type shardState struct {
	mu       sync.Mutex
	last     int64 // the time of the last decision
	spilled  bool
	indebted bool        // there may be debts
	cells    table[cell] // of the buckets that are not in debt

	entries table[entry]
	weight  int   // of all cells and entries, in bytes
	limit   int   // of weight
	keep    place // of an entry that must not be evicted now
	stats   Stats
}

// A value is the state of one rule of one key, as a table holds it.
type value[V any] interface {
	*V
	idle(now int64) bool       // it means nothing any more
	pressure(now int64) uint64 // how near it is to refusing: 0 when idle, up to spent
	weight() int               // of its slot and the memory behind it, in bytes
}

// spent is the pressure of a value that would refuse one more event.
const spent = 1024

// pressure is the share of capacity that is in use, short of spent.
func pressure(used, capacity uint64) uint64 {
	if used >= capacity {
		return spent
	}
	return 1 + uint64(float64(used)/float64(capacity)*(spent-2))
}

// A place is where the state of one rule of one key is found: its own, or, when
// the shard was full of entries that must stay, a spillway that it shares.
type place struct{ own, spill uint64 }

// spillways is how many entries of one rule a shard keeps for the keys that find
// no room.
const spillways = 16

func newPlace(key, rule uint64) place {
	return place{own: mix(key, rule), spill: mix(key>>32%spillways, ^rule)}
}

// find returns the value at p, or nil if there is none.
func find[V any, E value[V]](s *shard, t *table[V], p place, now int64) *V {
	if v := t.find(p.own); v != nil || !s.spilled {
		return v
	}
	if v := t.find(p.spill); v != nil && !E(v).idle(now) {
		return v
	}
	return nil
}

// hold returns the value at p, or a new one, of which weight is the weight, if there is none.
// It may forget others.
func hold[V any, E value[V]](s *shard, t *table[V], p place, weight int, now int64) *V {
	if v := find[V, E](s, t, p, now); v != nil {
		return v
	}
	hash := p.own
	if !s.makeRoom(weight, now) {
		hash, s.spilled = p.spill, true
		s.stats.Spilled++
		if v := t.find(hash); v != nil {
			return v
		}
	}
	return insert[V, E](s, t, hash, now)
}

// insert makes a new value, for which there is room.
func insert[V any, E value[V]](s *shard, t *table[V], hash uint64, now int64) *V {
	v := t.insert(hash, func(v *V) bool {
		if E(v).idle(now) {
			s.weight -= E(v).weight()
			return true
		}
		return false
	})
	s.weight += E(v).weight()
	return v
}

// forget removes the value of hash.
func forget[V any, E value[V]](s *shard, t *table[V], hash uint64) {
	if v := t.find(hash); v != nil {
		s.weight -= E(v).weight()
		t.remove(hash)
	}
}

// load returns the State at p of a rule, and whether it belongs to p alone. The cell, if it is
// not nil, is where the State is; it is good until something else is stored in the shard.
func (s *shard) load(p place, rule *driver.Compiled, now int64) (state driver.State, own bool, at *cell) {
	if !rule.Algorithm().IsBucket() || s.indebted {
		if e := s.entries.find(p.own); e != nil {
			return e.state, true, nil
		}
	}
	if rule.Algorithm().IsBucket() {
		if at = find(s, &s.cells, p, now); at != nil {
			return at.state(), !s.spilled || s.cells.find(p.own) != nil, at
		}
	} else if e := find(s, &s.entries, p, now); e != nil {
		return e.state, false, nil
	}
	return driver.State{}, false, nil
}

// save stores state, of rule, at p, where loaded was. size was the Size of loaded.
func (s *shard) save(p place, rule *driver.Compiled, state, loaded driver.State, size int, now int64) {
	if rule.Algorithm().IsBucket() {
		s.saveBucket(p, rule, state, now)
	} else {
		s.saveEntry(p, rule, state, loaded, size, now)
	}
}

// saveBucket stores the State of a bucket. A debt for which there is no room is cut to an
// empty bucket.
func (s *shard) saveBucket(p place, rule *driver.Compiled, state driver.State, now int64) {
	full, frac, debt, _ := state.Words()
	if debt != 0 {
		if s.saveDebt(p, rule, state, now) {
			return
		}
		k := rule.Constants()
		full, frac = now+k.Full.Micros, k.Full.Frac
	}
	if s.indebted && s.entries.find(p.own) != nil {
		// It has a place of its own, and must not be written to a spillway.
		forget(s, &s.entries, p.own)
		s.indebted = s.entries.used > 0
		insert(s, &s.cells, p.own, now).set(full, frac, tolerance(rule))
		return
	}
	hold(s, &s.cells, p, cellWeight, now).set(full, frac, tolerance(rule))
}

func (s *shard) saveDebt(p place, rule *driver.Compiled, state driver.State, now int64) (saved bool) {
	e := s.entries.find(p.own)
	if e == nil {
		if !s.makeRoom(entryWeight, now) {
			return false
		}
		e = insert(s, &s.entries, p.own, now)
	}
	forget(s, &s.cells, p.own)
	*e, s.indebted = entry{state, rule}, true
	return true
}

// saveEntry stores any other State. If it has grown, others may have to go for it. Where none
// can, it gets coarser, which makes it as small as it was.
func (s *shard) saveEntry(p place, rule *driver.Compiled, state, loaded driver.State, size int, now int64) {
	e := s.entries.find(p.own)
	if e == nil && loaded != (driver.State{}) {
		// hold would ask whether it is idle, which loaded does not tell any more.
		if v := s.entries.find(p.spill); v != nil && v.state == loaded {
			e = v
		}
	}
	if e == nil {
		e = hold(s, &s.entries, p, entryWeight+state.Size(), now)
	}
	if e.state != loaded { // it is new, or another charge of the decision has evicted it
		size = e.state.Size()
	}
	s.weight += state.Size() - size
	*e = entry{state, rule}
	if s.weight <= s.limit {
		return
	}
	s.keep = p
	fits := s.makeRoom(0, now)
	s.keep = place{}
	if !fits {
		if e := find(s, &s.entries, p, now); e != nil { // makeRoom may have moved it
			s.weight -= e.state.Size()
			e.state = e.state.Coarsen()
			s.weight += e.state.Size()
		}
	}
}

// forget removes the State that belongs to p alone. A spillway is shared and stays.
func (s *shard) forget(p place) {
	forget(s, &s.cells, p.own)
	forget(s, &s.entries, p.own)
}
