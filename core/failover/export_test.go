package failover

// Shares is how many divided rules are remembered.
func (s *Store) Shares() int {
	s.shares.mu.RLock()
	defer s.shares.mu.RUnlock()
	return len(s.shares.known)
}

// Fit is what askBackup does with the receipt of an Undo.
var Fit = fit
