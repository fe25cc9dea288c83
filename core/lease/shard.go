package lease

import (
	"strings"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A shard holds a part of the entries, guarded by one lock.
type shard struct {
	mu      sync.Mutex
	entries map[id]*entry // the first entry of each id
	size    int           // the number of entries
	limit   int           // of size
	closed  bool

	hits, leased uint64   // see Stats
	_            [64]byte // keeps the next shard's lock on another cache line
}

// all iterates over the entries, in random order of their ids. The loop may evict its entry.
func (sh *shard) all(yield func(*entry) bool) {
	for _, e := range sh.entries {
		for ; e != nil; e = e.next {
			if !yield(e) {
				return
			}
		}
	}
}

// first returns the first entry for the rule and key of c, or nil.
func (sh *shard) first(c *driver.Charge) *entry { return sh.entries[id{c.Rule.ID(), c.Key}] }

// find returns the entry for the rule, key and plan of c, or nil.
func (sh *shard) find(c *driver.Charge) *entry {
	e := sh.first(c)
	for e != nil && e.u.rule != c.Rule && !samePlan(e.u.rule, c.Rule) {
		e = e.next
	}
	return e
}

func samePlan(a, b *driver.Compiled) bool { return a.Plan() == b.Plan() }

// entry returns the entry of c, or nil if its rule is not leased or the Store is closed. It makes a
// new entry if there is none or if the limit of the plan has changed. A new entry may evict other
// entries.
func (sh *shard) entry(s *Store, c *driver.Charge, now int64) *entry {
	e := sh.find(c)
	if e != nil {
		if e.u.rule.Equivalent(c.Rule) {
			e.usedAt = now
			return e
		}
		sh.evict(e)
	}
	u, ok := newUnits(c.Rule, s.config.lifetime)
	if !ok || sh.closed {
		return nil
	}
	for range 2 { // calls under way may have kept the shard above its limit
		if sh.size >= sh.limit {
			sh.evictOld()
		}
	}
	e = &entry{u: u, shard: sh, usedAt: now}
	if e.next = sh.first(c); e.next != nil {
		e.id = e.next.id
	} else {
		e.id = id{c.Rule.ID(), strings.Clone(c.Key)}
	}
	sh.entries[e.id] = e
	sh.size++
	return e
}

// evictSample is the number of entries of which the least recently used one is evicted.
const evictSample = 8

// evictOld evicts the least recently used of evictSample entries, which the map chooses at
// random. An entry with a call under way stays. Otherwise its key might get a second call.
func (sh *shard) evictOld() {
	var oldest *entry
	sampled := 0
	for e := range sh.all {
		if !e.fetching && (oldest == nil || e.usedAt < oldest.usedAt) {
			oldest = e
		}
		if sampled++; sampled == evictSample {
			break
		}
	}
	if oldest != nil {
		sh.evict(oldest)
	}
}

// evict removes e from the shard. From then on charges do not find e, so its tokens are lost, and
// so are the tokens that a running call or a denied decision adds to e later. e.next is unchanged.
func (sh *shard) evict(e *entry) {
	e.evicted = true
	sh.size--
	switch first := sh.entries[e.id]; {
	case first != e:
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	case e.next != nil:
		sh.entries[e.id] = e.next
	default:
		delete(sh.entries, e.id)
	}
}
