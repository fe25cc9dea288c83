package lease

import (
	"strings"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A shard is a part of the cells, in a list by when they were used.
type shard struct {
	mu     sync.Mutex
	cells  map[place]*cell
	meters map[uint64]*meter // by the ID of the rule
	limit  int
	list   cell // next is the latest, prev the oldest
	closed bool

	hits, leased uint64
	_            [64]byte // the next shard's lock is on another cache line
}

func (sh *shard) init(limit int) {
	sh.cells, sh.meters, sh.limit = make(map[place]*cell), make(map[uint64]*meter), limit
	sh.list.prev, sh.list.next = &sh.list, &sh.list
}

// find returns the cell of c, nil if there is none.
func (sh *shard) find(c *driver.Charge) *cell { return sh.cells[place{c.Rule.ID(), c.Key}] }

// cell returns the cell of c, a new one if need be, and nil if its rule is not leased.
// Another cell may give way for it, and one of another limit does.
func (sh *shard) cell(s *Store, c *driver.Charge) *cell {
	found := sh.find(c)
	if found != nil && found.m.measures(c.Rule) {
		if sh.list.next != found {
			found.unlink()
			found.link(&sh.list)
		}
		return found
	}
	m := sh.meter(s, c.Rule)
	if found != nil {
		sh.drop(found)
	}
	if m == nil {
		return nil
	}
	for range 2 { // there may be some too many, because of calls under way
		if old := sh.oldest(); old != nil && len(sh.cells) >= sh.limit {
			sh.drop(old)
		}
	}
	found = &cell{place: place{c.Rule.ID(), strings.Clone(c.Key)}, m: m}
	sh.cells[found.place] = found
	found.link(&sh.list)
	return found
}

// oldest is what gives way: the least recently used for which no call is under way, if
// there is one among the last few.
func (sh *shard) oldest() *cell {
	c := sh.list.prev
	for range 8 {
		if c == &sh.list {
			break
		}
		if !c.flying {
			return c
		}
		c = c.prev
	}
	return nil
}

func (sh *shard) drop(c *cell) {
	c.gone = true
	c.unlink()
	delete(sh.cells, c.place)
}

// meter returns the meter of r, nil if r is not leased.
func (sh *shard) meter(s *Store, r *driver.Compiled) *meter {
	m := sh.meters[r.ID()]
	if m == nil || !m.measures(r) {
		if len(sh.meters) >= sh.limit {
			clear(sh.meters) // the cells have theirs
		}
		if m = newMeter(r, s.config.lifetime); m != nil {
			sh.meters[r.ID()] = m
		}
	}
	return m
}

func (c *cell) link(list *cell) {
	c.prev, c.next = list, list.next
	c.prev.next, c.next.prev = c, c
}

func (c *cell) unlink() { c.prev.next, c.next.prev = c.next, c.prev }
