package gate

import (
	"time"

	"github.com/weir-go/weir/core"
)

// RetryAfter returns the Retry-After of the denied decision d in seconds, for an OnDenied function
// that writes the wait in its own words. The result is at least 1, and at least the parameter t of
// the RateLimit field for every rule that denied. RetryAfter returns false if d is admitted, or if
// its cost can never be admitted.
func RetryAfter(d core.Decision) (seconds int64, ok bool) {
	if d.Allowed || d.RetryAfter == core.Never {
		return 0, false
	}
	wait := d.RetryAfter
	for _, s := range d.States() {
		if !s.Allowed && !s.Rule.IsShadow() {
			wait = max(wait, s.Window)
		}
	}
	return int64((wait-1)/time.Second) + 1, true // rounded up; 1 for zero
}
