package gate

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/config"
)

// A HeaderVersion is a set of fields that tell a client what it has left. No field tells about
// a [core.Rule.Shadow], nor about a rule whose [core.State] is unknown.
type HeaderVersion uint8

const (
	// IETFDraft is RateLimit-Policy and RateLimit as in
	// draft-ietf-httpapi-ratelimit-headers-11, one member for every rule. The
	// draft may still change; so may this version, in a minor release.
	//
	// q is the capacity of the rule, with the limit that was in force, and w the time
	// in which that many events come back, left out if it is less than a second. r is the number
	// of events that are left, and t the time that it belongs to (core.State.Window): with an r of
	// 0, the time until the next event is available; of a rule that denied, the time until it
	// admits the same cost, left out if it never does. Times are in seconds, rounded up.
	IETFDraft HeaderVersion = iota + 1
	// XRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, of
	// the rule that has the smallest part of its capacity left. Reset is the time
	// at which nothing will be used any more, in Unix seconds, rounded up.
	XRateLimit

	endOfVersions
)

// Headers selects the fields that tell a client what it has left. The default
// is [IETFDraft], and whatever else the gates around this one send, so that what
// they tell stays true; with no versions there are none.
// Retry-After is sent with a denial in any case. Headers panics on an unknown version.
func Headers(v ...HeaderVersion) Option {
	var set uint8
	for _, v := range v {
		if v == 0 || v >= endOfVersions {
			panic(fmt.Sprintf("gate: Headers: unknown version %d", v))
		}
		set |= 1 << v
	}
	return option(func(c *config.Config) { c.Versions, c.Inherits = set, false })
}

// RetryAfter returns the Retry-After of a denied decision in seconds, for an OnDenied
// that wants to tell it in its own words. It is at least 1 and not before the t of any rule
// that denied. RetryAfter returns false if d is admitted, or if waiting is no use.
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
	seconds = int64(wait / time.Second)
	if wait%time.Second > 0 {
		seconds++
	}
	return max(1, seconds), true
}
