package memstore

const (
	sample  = 16 // slots of a table that are looked at to find one victim
	victims = 64 // that one newcomer may cost; spillways can put a shard over its limit
	// evictable is the pressure below which an entry may go. If a bucket could go
	// until it was spent, users who are too many for the store would push each other
	// out before any of them was, and none would be limited.
	evictable = spent / 2
)

// makeRoom sees to it that need more fits, and says whether it does. What means
// nothing any more goes first, then what is used least. What is used by half
// never goes, so a flood of new keys cannot make the limiter forget whom it
// refuses, or is about to.
func (s *shard) makeRoom(need int, now int64) bool {
	for tries := 0; s.weight+need > s.limit; tries++ {
		if tries == victims || !s.evict(now) {
			return false
		}
	}
	return true
}

// evict forgets the least used of the next few slots of all tables.
func (s *shard) evict(now int64) bool {
	lowest := uint64(evictable)
	cellVictim := candidate(&s.cells, now, s.keep, &lowest)
	debtVictim := candidate(&s.debts, now, s.keep, &lowest)
	tallyVictim := candidate(&s.tallies, now, s.keep, &lowest)
	logVictim := candidate(&s.logs, now, s.keep, &lowest)
	if 0 < lowest && lowest < evictable {
		s.stats.Evicted++
	}
	switch { // a later table has a candidate only if it is used less
	case logVictim != 0:
		forget(s, &s.logs, logVictim)
	case tallyVictim != 0:
		forget(s, &s.tallies, tallyVictim)
	case debtVictim != 0:
		forget(s, &s.debts, debtVictim)
	case cellVictim != 0:
		forget(s, &s.cells, cellVictim)
	}
	return lowest < evictable
}

// candidate is the hash of an entry other than keep whose pressure is below
// lowest, which becomes that pressure, or 0.
func candidate[V any, E entry[V]](t *table[V], now int64, keep uint64, lowest *uint64) (victim uint64) {
	if *lowest == 0 {
		return 0
	}
	t.look(sample, func(hash uint64, v *V) bool {
		if p := E(v).pressure(now); p < *lowest && hash != keep {
			victim, *lowest = hash, p
		}
		return *lowest == 0
	})
	return victim
}
