package rules

import (
	"net/http"
	"time"
)

// FileOf returns a File that is read by read.
func FileOf(path string, read func() ([]byte, error)) Source { return &file{path: path, read: read} }

// PollEvery makes s read changes more often than every WatchInterval.
func PollEvery(s *RedisSource, d time.Duration) { s.interval = d }

// ValidRoutes reports whether the routes of c are valid.
func ValidRoutes(c *Config) bool {
	_, err := newRoutes(c)
	return err == nil
}

// UnboundedRoute is the same as c.Route, and looks up the whole path.
func UnboundedRoute(c *Config, r *http.Request) string {
	t, _ := newRoutes(c)
	t.depth, t.longest = 1<<30, 1<<28
	return string(t.of(r))
}
