package denycache

// MaxDenials is the largest length of an entry.
const MaxDenials = maxDenials

// SetClock makes s read nanoseconds from now.
func (s *Store) SetClock(now func() int64) { s.now = now }

// Flights returns the number of calls of the Store that other decisions wait for.
func (s *Store) Flights() int {
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	return len(s.flights.landed)
}

// LongestEntry returns the most denials that are cached for one rule of one key.
func (s *Store) LongestEntry() (n int) {
	for _, e := range s.entries.All() {
		n = max(n, len(e))
	}
	return n
}
