package memstore

const (
	sample  = 16 // used slots of each table that are looked at to find one victim
	visits  = 48 // slots of each table that are visited for a sample: free ones lie in runs
	victims = 64 // that one newcomer may cost; spillways can put a shard over its limit
	// evictable is the pressure below which an entry may go. If a bucket could go
	// until it was spent, users who are too many for the store would push each other
	// out before any of them was, and none would be limited.
	evictable = spent / 2
)

// makeRoom evicts entries until need more bytes fit, and reports whether they do.
// Idle entries go first, then those that are used least. An entry that is used by
// half never goes, so a flood of new keys cannot reset a limit that is spent or
// nearly spent. makeRoom invalidates pointers to entries.
func (s *shard) makeRoom(need int, now int64) bool {
	for tries := 0; s.weight+need > s.limit; tries++ {
		if tries == victims || !s.evict(now) {
			return false
		}
	}
	return true
}

// evict forgets the least used entry of a sample of each table. The tables shrink with
// their use, so that most slots of a sample are in use.
func (s *shard) evict(now int64) bool {
	lowest := uint64(evictable)
	cellVictim := candidate(&s.cells, now, s.keep, &lowest)
	entryVictim := candidate(&s.entries, now, s.keep, &lowest)
	if 0 < lowest && lowest < evictable {
		s.stats.Evicted++
	}
	if entryVictim != 0 { // it is used less
		forget(s, &s.entries, entryVictim)
	} else if cellVictim != 0 {
		forget(s, &s.cells, cellVictim)
	}
	return lowest < evictable
}

// candidate returns the hash of an entry whose pressure is below lowest, and sets
// lowest to that pressure; 0 if there is none. It visits a bounded number of slots,
// and never takes an entry at keep.
func candidate[V any, E value[V]](t *table[V], now int64, keep place, lowest *uint64) (victim uint64) {
	if *lowest == 0 {
		return 0
	}
	used := 0
	for range min(visits, len(t.slots)) {
		slot := t.turn()
		if slot.hash == 0 || slot.hash == keep.own || slot.hash == keep.spill {
			continue
		}
		if used++; used > sample {
			break
		}
		if p := E(&slot.value).pressure(now); p < *lowest {
			if victim, *lowest = slot.hash, p; p == 0 {
				break
			}
		}
	}
	return victim
}
