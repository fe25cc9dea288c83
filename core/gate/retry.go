package gate

import (
	"time"

	"github.com/weir-go/weir/core"
)

// RetryAfter returns the Retry-After of the denied decision d in seconds, for an OnDenied function
// that writes the wait in its own words. The result is at least 1, and at least the parameter t of
// the RateLimit field for every rule that denied. RetryAfter returns false if d is admitted, if its cost
// can never be admitted, or if the wait is unknown ([core.State.Estimate]).
func RetryAfter(d core.Decision) (seconds int64, ok bool) {
	if d.Allowed || d.RetryAfter == core.Never {
		return 0, false
	}
	wait, estimate, known := d.RetryAfter, false, false
	for _, s := range d.States() {
		switch {
		case s.Allowed && !s.Unknown || s.Rule.IsShadow():
		case s.Estimate:
			estimate = true
		default:
			wait, known = max(wait, s.Window), true
		}
	}
	if estimate && !known {
		return 0, false
	}
	return int64((wait-1)/time.Second) + 1, true // rounded up; 1 for zero
}
