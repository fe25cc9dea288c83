package failover

// Divided is how many divided rules are kept.
func (s *Store) Divided() int {
	s.divider.mu.RLock()
	defer s.divider.mu.RUnlock()
	return len(s.divider.parts)
}
