package lease

import (
	"strings"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A shard holds a part of the entries, guarded by one lock.
type shard struct {
	mu      sync.Mutex
	entries map[id]*entry
	limit   int
	closed  bool

	hits, leased uint64   // see Stats
	_            [64]byte // keeps the next shard's lock on another cache line
}

// find returns the entry of c, or nil.
func (sh *shard) find(c *driver.Charge) *entry { return sh.entries[id{c.Rule.ID(), c.Key}] }

// entry returns the entry of c, or nil if its rule is not leased or the Store is closed. It makes a
// new entry if there is none or if the limit has changed. A new entry may evict other entries.
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
		if len(sh.entries) >= sh.limit {
			sh.evictOld()
		}
	}
	e = &entry{id: id{c.Rule.ID(), strings.Clone(c.Key)}, u: u, shard: sh, usedAt: now}
	sh.entries[e.id] = e
	return e
}

// evictSample is the number of entries of which the least recently used one is evicted.
const evictSample = 8

// evictOld evicts the least recently used of evictSample entries, which the map chooses at
// random. An entry with a call under way stays. Otherwise its key might get a second call.
func (sh *shard) evictOld() {
	var oldest *entry
	sampled := 0
	for _, e := range sh.entries {
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
// so are the tokens that a running call or a denied decision adds to e later.
func (sh *shard) evict(e *entry) {
	e.evicted = true
	delete(sh.entries, e.id)
}
