package rules

import "time"

// FileOf returns a File that is read by read.
func FileOf(path string, read func() ([]byte, error)) Source { return &file{path: path, read: read} }

// PollEvery makes s read changes more often than every WatchInterval.
func PollEvery(s *RedisSource, d time.Duration) { s.interval = d }
