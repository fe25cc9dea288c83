package denycache

// SetClock makes s read nanoseconds from now.
func (s *Store) SetClock(now func() int64) { s.now = now }

// Flights returns the number of calls under way that other decisions wait for.
func (s *Store) Flights() int {
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	return len(s.flights.done)
}
