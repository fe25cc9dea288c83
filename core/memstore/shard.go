package memstore

import (
	"sync"

	"github.com/weir-go/weir/core/internal/algo"
)

// A shard is a part of the keys behind one lock. All rules of one key live in
// one shard. The padding keeps the locks of neighbours on different cache lines.
type shard struct {
	mu    sync.Mutex
	cells table[cell]
	logs  table[record]

	weight  int // of all that is stored, in cells
	limit   int // of weight
	spilled bool
	_       [40]byte
}

// A place is where the state of one rule of one key is found: its own, or, when
// the shard was full of spent buckets, a spillway that it shares.
type place struct{ own, spill uint64 }

// spillways is how many buckets of one rule a shard keeps for the keys that
// find no room.
const spillways = 16

func newPlace(key, rule uint64) place {
	return place{own: mix(key, rule), spill: mix(key>>32%spillways, ^rule)}
}

// cell returns the bucket at p, or nil if it is full.
func (s *shard) cell(p place, now int64) *cell {
	if c := s.cells.find(p.own); c != nil || !s.spilled {
		return c
	}
	if c := s.cells.find(p.spill); c != nil && !c.idle(now) {
		return c
	}
	return nil
}

// setCell stores a state that is not idle.
func (s *shard) setCell(p place, state algo.Span, b *algo.Bucket, now int64) {
	c := s.cell(p, now)
	switch {
	case c != nil:
	case s.makeRoom(1, now):
		c = s.addCell(p.own, now)
	default:
		s.spilled = true
		if c = s.cells.find(p.spill); c == nil {
			c = s.addCell(p.spill, now)
		}
	}
	c.set(state, tolerance(b))
}

func (s *shard) addCell(hash uint64, now int64) *cell {
	s.weight++
	return s.cells.insert(hash, func(c *cell) bool {
		if c.idle(now) {
			s.weight--
			return true
		}
		return false
	})
}

func (s *shard) removeCell(hash uint64) {
	before := s.cells.used
	s.cells.remove(hash)
	s.weight -= before - s.cells.used
}

// log returns the record at p, or nil if there is none.
func (s *shard) log(p place, now int64) *record {
	if r := s.logs.find(p.own); r != nil || !s.spilled {
		return r
	}
	if r := s.logs.find(p.spill); r != nil && !r.idle(now) {
		return r
	}
	return nil
}

// spendLog records cost events at p.
func (s *shard) spendLog(p place, l *algo.Log, now, cost int64) {
	r := s.log(p, now)
	switch {
	case r != nil:
	case s.makeRoom(recordWeight, now):
		r = s.addLog(p.own, now)
	default:
		s.spilled = true
		if r = s.logs.find(p.spill); r == nil {
			r = s.addLog(p.spill, now)
		}
	}
	s.weight -= r.weight()
	r.rule = l
	l.Spend(&r.history, now, cost)
	s.weight += r.weight()
	s.makeRoom(0, now) // r has grown, and others may have to go for it
}

func (s *shard) addLog(hash uint64, now int64) *record {
	s.weight += recordWeight
	return s.logs.insert(hash, func(r *record) bool {
		if r.idle(now) {
			s.weight -= r.weight()
			return true
		}
		return false
	})
}

func (s *shard) removeLog(hash uint64) {
	if r := s.logs.find(hash); r != nil {
		s.weight -= r.weight()
		s.logs.remove(hash)
	}
}
