package lease

import (
	"strings"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A shard holds a part of the entries, guarded by one lock. It has the size of a cache line.
type shard struct {
	mu      sync.Mutex
	last    int64             // the latest time of a holder of the lock (ns)
	entries map[uint64]*entry // by hash: the first entry of each list
	size    int               // the number of entries
	limit   int               // of size
	closed  bool

	hits, leased uint64 // see Stats
}

// lock locks sh, and returns the time. It reads the clock first, so that the lock is held for less
// time. Callers may lock sh in another order, so see forward.
func (sh *shard) lock(s *Store) (now int64) {
	now = s.clock()
	sh.mu.Lock()
	return sh.forward(now)
}

// forward returns now, or the latest time of an earlier holder of the lock if that is later. The time
// therefore never decreases within a shard, and no token is spent at a time before its lease.
func (sh *shard) forward(now int64) int64 {
	sh.last = max(sh.last, now)
	return sh.last
}

// all iterates over the entries, in random order of their hashes. The loop may evict its entry.
func (sh *shard) all(yield func(*entry) bool) {
	for _, e := range sh.entries {
		for ; e != nil; e = e.next {
			if !yield(e) {
				return
			}
		}
	}
}

// find returns the entry for the rule, key and plan of c, whose hash is hash, or nil.
func (sh *shard) find(hash uint64, c *driver.Charge) *entry {
	e := sh.entries[hash]
	for e != nil && !(e.is(c) && e.u.rule.Plan == c.Rule.Plan) {
		e = e.next
	}
	return e
}

// entry returns the entry of c, whose hash is hash, or nil if its rule is not leased or the Store is
// closed. It makes a new entry if there is none or if the limit of the plan has changed. A new entry
// may evict other entries.
func (sh *shard) entry(s *Store, hash uint64, c *driver.Charge, now int64) *entry {
	e := sh.find(hash, c)
	if e != nil {
		if e.u.rule.Constants == c.Rule.Constants {
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
	e = &entry{hash: hash, u: u, shard: sh, usedAt: now, next: sh.entries[hash]}
	if e.next != nil && e.next.key == c.Key {
		e.key = e.next.key
	} else {
		e.key = strings.Clone(c.Key)
	}
	sh.entries[hash] = e
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
	switch first := sh.entries[e.hash]; {
	case first != e:
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	case e.next != nil:
		sh.entries[e.hash] = e.next
	default:
		delete(sh.entries, e.hash)
	}
}
