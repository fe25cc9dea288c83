package keyfunc

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxCacheAge is the longest time for which a token is accepted after its key was withdrawn.
const maxCacheAge = 5 * time.Minute

// digest is the hash of all bytes of a token, including the signature.
type digest = [sha256.Size]byte

// tokenCache holds the keys of verified tokens. It evicts the oldest entry. Entries expire soon, so
// an LRU order would hardly raise the hit rate, and every read would need the exclusive lock.
type tokenCache struct {
	max int

	mu      sync.RWMutex
	entries map[digest]tokenEntry
	ring    []digest // the keys of entries, up to max
	oldest  int      // the index in a full ring that is used next
}

type tokenEntry struct {
	key   string
	until time.Time
}

func (c *tokenCache) get(id digest, now time.Time) (string, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.entries[id]
	return e.key, now.Before(e.until)
}

// put adds an entry that ends at exp, or after maxCacheAge. To bound the work of put, an expired
// entry stays until its place in the ring is used again.
func (c *tokenCache) put(id digest, key string, exp, now time.Time) {
	e := tokenEntry{key: key, until: now.Add(maxCacheAge)}
	if exp.Before(e.until) {
		e.until = exp
	}
	if !now.Before(e.until) {
		return // accepted by leeway only
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[id]; !ok {
		if len(c.ring) < c.max {
			c.ring = append(c.ring, id)
		} else {
			delete(c.entries, c.ring[c.oldest])
			c.ring[c.oldest] = id
			c.oldest = (c.oldest + 1) % c.max
		}
	}
	c.entries[id] = e
}
