package memstore

const (
	sample  = 16 // slots of a table that are looked at to find one victim
	victims = 64 // that one newcomer may cost; spillways can put a shard over its limit
)

// makeRoom sees to it that need more fits, and says whether it does. What means
// nothing any more goes first, then what is used least. What is spent never
// goes, so a flood of new keys cannot make the limiter forget whom it refuses.
func (s *shard) makeRoom(need int, now int64) bool {
	for tries := 0; s.weight+need > s.limit; tries++ {
		if tries == victims || !s.evict(now) {
			return false
		}
	}
	return true
}

// evict forgets the least used of the next few slots of both tables.
func (s *shard) evict(now int64) bool {
	var cellVictim, logVictim uint64
	lowest := uint64(spentPressure)
	s.cells.look(sample, func(hash uint64, c *cell) bool {
		if p := c.pressure(now); p < lowest {
			cellVictim, lowest = hash, p
		}
		return lowest == 0
	})
	if lowest > 0 {
		s.logs.look(sample, func(hash uint64, r *record) bool {
			if p := r.pressure(now); p < lowest {
				logVictim, lowest = hash, p
			}
			return lowest == 0
		})
	}
	switch {
	case logVictim != 0:
		s.removeLog(logVictim)
	case cellVictim != 0:
		s.removeCell(cellVictim)
	}
	return lowest < spentPressure
}
