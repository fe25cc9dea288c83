package gate

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/config"
)

// A HeaderVersion selects a set of header fields that describe the limits of a request. These
// fields describe neither a [core.Rule.Shadow] nor a rule whose [core.State] is unknown.
type HeaderVersion uint8

const (
	// IETFDraft selects RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11),
	// with one member for every rule. The draft may still change; this version may change with it,
	// in a minor release.
	//
	// In RateLimit-Policy, q is the capacity of the rule under the limit in force, and w the time
	// in which that capacity is restored; w is left out if it is less than a second. qu is the unit,
	// if the draft defines it and it is not requests (see [core.Rule.Unit]). In RateLimit,
	// r is the remaining number of events, and t the period that r refers to (core.State.Window).
	// If r is 0, t is the time until the next event is available. If the rule denied the request, t
	// is the time until it admits the same cost, and is left out if it never does. Times are in
	// seconds, rounded up.
	IETFDraft HeaderVersion = iota + 1
	// XRateLimit selects X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, for the
	// rule that has the smallest part of its capacity left. Reset is the time at which the whole
	// capacity is restored, in Unix seconds, rounded up.
	XRateLimit

	endOfVersions
)

// Headers makes the gate send the header fields of the versions v, or none if v is empty. The
// default is [IETFDraft] plus the versions that the outer gates send, so that this gate updates
// their fields. Retry-After does not depend on Headers. Headers panics if a version is unknown.
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
