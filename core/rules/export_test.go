package rules

import "time"

// PollEvery makes s read changes more often than every WatchInterval.
func PollEvery(s *RedisSource, d time.Duration) { s.interval = d }
