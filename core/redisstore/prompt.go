package redisstore

import "time"

// Deadline is the longest that a call of Take lasts: see [Timeout]. It lets package
// failover call the Store without watching it.
func (s *Store) Deadline() time.Duration { return s.config.timeout }
