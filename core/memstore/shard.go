package memstore

import (
	"sync"
	"unsafe"

	"github.com/weir-go/weir/core/internal/algo"
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
	indebted bool // there are debts
	cells    table[cell]

	debts   table[debt]
	tallies table[tally]
	logs    table[record]
	weight  int   // of all entries, in bytes
	limit   int   // of weight
	keep    place // of an entry that must not be evicted now
	stats   Stats
}

// An entry is the state of one rule of one key, as a table holds it.
type entry[V any] interface {
	*V
	idle(now int64) bool       // it means nothing any more
	pressure(now int64) uint64 // how near it is to refusing: 0 when idle, up to spent
	weight() int               // of its slot and the memory behind it, in bytes
}

// spent is the pressure of an entry that would refuse one more event.
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

// find returns the entry at p, or nil if there is none.
func find[V any, E entry[V]](s *shard, t *table[V], p place, now int64) *V {
	if v := t.find(p.own); v != nil || !s.spilled {
		return v
	}
	if v := t.find(p.spill); v != nil && !E(v).idle(now) {
		return v
	}
	return nil
}

// hold returns the entry at p, a new one if there is none. It may forget others.
func hold[V any, E entry[V]](s *shard, t *table[V], p place, now int64) *V {
	if v := find[V, E](s, t, p, now); v != nil {
		return v
	}
	hash := p.own
	if !s.makeRoom(E(new(V)).weight(), now) {
		hash, s.spilled = p.spill, true
		s.stats.Spilled++
		if v := t.find(hash); v != nil {
			return v
		}
	}
	return insert[V, E](s, t, hash, now)
}

// insert makes a new entry, for which there is room.
func insert[V any, E entry[V]](s *shard, t *table[V], hash uint64, now int64) *V {
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

// forget removes the entry of hash.
func forget[V any, E entry[V]](s *shard, t *table[V], hash uint64) {
	if v := t.find(hash); v != nil {
		s.weight -= E(v).weight()
		t.remove(hash)
	}
}

// setWindow stores the state of a fixed window.
func (s *shard) setWindow(p place, state algo.Tally, w *algo.Window, now int64) {
	*hold(s, &s.tallies, p, now) = tally{state, w}
}

// change does f to the record at p. If it has grown, other entries may have to go
// for it. Where none can, it gets coarser, which makes it as small as it was.
func (s *shard) change(p place, r *record, now int64, f func(h *algo.History)) {
	s.weight -= r.weight()
	f(&r.history)
	s.weight += r.weight()
	s.keep = p
	fits := s.makeRoom(0, now)
	s.keep = place{}
	if fits {
		return
	}
	if r := find(s, &s.logs, p, now); r != nil { // makeRoom may have moved it
		s.weight -= r.weight()
		r.history.Coarsen()
		s.weight += r.weight()
	}
}

// changeLog does f to the log at p, a new one if there is none.
func (s *shard) changeLog(p place, l *algo.Log, now int64, f func(h *algo.History)) {
	r := hold(s, &s.logs, p, now)
	r.rule = l
	s.change(p, r, now, f)
}
