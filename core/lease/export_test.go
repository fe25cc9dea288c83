package lease

import "context"

// EndAll gives back all that is held.
func (s *Store) EndAll() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		var debts []debt
		for _, c := range sh.cells {
			debts = append(debts, c.end(s.clock(), true)...)
		}
		sh.mu.Unlock()
		s.pay(context.Background(), debts)
	}
}

// SetClock makes s read nanoseconds from clock.
func (s *Store) SetClock(clock func() int64) { s.clock = clock }
