package denycache

// SetClock makes s read nanoseconds from clock.
func (s *Store) SetClock(clock func() int64) { s.now = clock }

// Probes is how many keys are waited for.
func (s *Store) Probes() (n int) {
	for i := range s.stripes {
		st := &s.stripes[i]
		st.mu.Lock()
		n += len(st.probes)
		st.mu.Unlock()
	}
	return n
}

// MostAnswers is how much is remembered of one rule of one key at most.
func (s *Store) MostAnswers() (n int) {
	for _, e := range s.entries.All() {
		n = max(n, len(e.answers))
	}
	return n
}
