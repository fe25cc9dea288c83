package lease

import (
	"strings"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A shard is a part of the entries, in a list from the most to the least recently used.
type shard struct {
	mu      sync.Mutex
	entries map[id]*entry
	units   map[uint64]*units // by the ID of the rule
	limit   int
	list    entry // next is the most recently used, prev the least recently used
	closed  bool

	hits, leased uint64
	_            [64]byte // the next shard's lock is on another cache line
}

func (sh *shard) init(limit int) {
	sh.entries, sh.units, sh.limit = make(map[id]*entry), make(map[uint64]*units), limit
	sh.list.prev, sh.list.next = &sh.list, &sh.list
}

// find returns the entry of c, nil if there is none.
func (sh *shard) find(c *driver.Charge) *entry { return sh.entries[id{c.Rule.ID(), c.Key}] }

// entry returns the entry of c, a new one if there is none, and nil if its rule is not leased.
// A new entry may evict others; an entry of another limit is replaced.
func (sh *shard) entry(s *Store, c *driver.Charge) *entry {
	e := sh.find(c)
	if e != nil && e.u.match(c.Rule) {
		if sh.list.next != e {
			e.unlink()
			e.link(&sh.list)
		}
		return e
	}
	u := sh.unitsOf(s, c.Rule)
	if e != nil {
		sh.evict(e)
	}
	if u == nil {
		return nil
	}
	for range 2 { // calls under way may have kept the shard above its limit
		if old := sh.oldest(); old != nil && len(sh.entries) >= sh.limit {
			sh.evict(old)
		}
	}
	e = &entry{id: id{c.Rule.ID(), strings.Clone(c.Key)}, u: u}
	sh.entries[e.id] = e
	e.link(&sh.list)
	return e
}

// oldest returns the least recently used entry without a call under way, of the last few, and
// nil if all of these have one.
func (sh *shard) oldest() *entry {
	e := sh.list.prev
	for range 8 {
		if e == &sh.list {
			break
		}
		if !e.fetching {
			return e
		}
		e = e.prev
	}
	return nil
}

func (sh *shard) evict(e *entry) {
	e.evicted = true
	e.unlink()
	delete(sh.entries, e.id)
}

// unitsOf returns the units of r, nil if r is not leased.
func (sh *shard) unitsOf(s *Store, r *driver.Compiled) *units {
	u := sh.units[r.ID()]
	if u == nil || !u.match(r) {
		if len(sh.units) >= sh.limit {
			clear(sh.units) // entries keep theirs
		}
		if u = newUnits(r, s.config.lifetime); u != nil {
			sh.units[r.ID()] = u
		}
	}
	return u
}

func (e *entry) link(list *entry) {
	e.prev, e.next = list, list.next
	e.prev.next, e.next.prev = e, e
}

func (e *entry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }
