package memstore

const (
	sampleSize = 16 // used slots of each table compared for one eviction
	maxVisits  = 48 // slots visited for such a sample, at most: runs of free slots may be long
	// maxEvictions bounds the evictions for one new state. More than one are necessary for a large
	// state, or if overflow buckets have put the shard above its limit.
	maxEvictions = 64

	exhausted = 1024 // the fill ratio of a state that would deny one more event
	// evictable is the fill ratio below which a state may be evicted. If every bucket that is not
	// exhausted could be evicted, a store that is too small for its users would evict each bucket
	// before it is exhausted, and limit no user.
	evictable = exhausted / 2
)

// ratio returns used/capacity as a fill ratio, which is at least 1.
func ratio(used, capacity uint64) uint64 {
	if used >= capacity {
		return exhausted
	}
	return 1 + uint64(float64(used)/float64(capacity)*(exhausted-2))
}

// makeRoom evicts states until there is memory for need bytes, and reports whether there is. It
// evicts neither the state whose hash is protected, nor a state that is at least half used. It
// invalidates pointers to values.
func (s *shard) makeRoom(need int, protected uint64, now int64) bool {
	for tries := 0; s.size+need > s.limit; tries++ {
		if tries == maxEvictions || !s.evict(protected, now) {
			return false
		}
	}
	return true
}

// evict removes the state with the lowest fill ratio in a sample of each table, and reports whether
// it found an evictable state. The tables shrink as states are removed, so that most slots of a
// sample are used.
func (s *shard) evict(protected uint64, now int64) bool {
	lowest := uint64(evictable)
	bucketHash := candidate(s, &s.buckets, now, protected, &lowest)
	itemHash := candidate(s, &s.items, now, protected, &lowest)
	if 0 < lowest && lowest < evictable {
		s.stats.Evicted++
	}
	if itemHash != 0 { // the item has a lower fill ratio than the bucket
		remove(s, &s.items, itemHash)
	} else if bucketHash != 0 {
		remove(s, &s.buckets, bucketHash)
	}
	return lowest < evictable
}

// candidate looks for the value with the lowest fill ratio in a sample. If the ratio is below
// *lowest, it sets *lowest to the ratio and returns the hash of the value, otherwise 0. It visits a
// bounded number of slots, and skips the value whose hash is protected.
func candidate[V any, E value[V]](s *shard, t *table[V], now int64, protected uint64, lowest *uint64) (hash uint64) {
	if *lowest == 0 {
		return 0
	}
	used := 0
	for range min(maxVisits, len(t.slots)) {
		slot := t.nextSample()
		if slot.hash == 0 || slot.hash == protected {
			continue
		}
		if used++; used > sampleSize {
			break
		}
		if r := E(&slot.value).fillRatio(s, now); r < *lowest {
			if hash, *lowest = slot.hash, r; r == 0 {
				break
			}
		}
	}
	return hash
}
