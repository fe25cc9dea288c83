package memstore

// SetClock makes s read Unix microseconds from clock.
func (s *Store) SetClock(clock func() int64) { s.clock = clock }

// Weight is what is stored, in cells, and the bound on it.
func (s *Store) Weight() (weight, limit int) {
	for i := range s.shards {
		weight += s.shards[i].weight
		limit += s.shards[i].limit
	}
	return weight, limit
}
