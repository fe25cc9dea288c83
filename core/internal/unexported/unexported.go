// Package unexported gives packages of this module access to methods of package core that
// applications do not need.
package unexported

import (
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Methods contains the methods. Its type parameters are types of package core, which cannot be named
// here, because package core imports this package.
type Methods[Limiter, Reservation, Rule, Ask any] struct {
	// HasPlans reports whether plans make a difference to a limiter: whether one of its rules has
	// plans, or Choose has made it.
	HasPlans func(Limiter) bool
	// SharesStore reports whether two limiters have the same Store, as AllowTogether requires.
	SharesStore func(Limiter, Limiter) bool
	// Key returns the key of the charges of a limiter, or of another view of it, and the number of such
	// keys, where 2 means several, and -1 that all its limits are Unlimited.
	Key func(r Reservation, l Limiter) (key string, n int)
	// Forget makes a Reservation forget the charges of the rules of a limiter for a key, which is reset:
	// they are not refunded any more.
	Forget func(r Reservation, l Limiter, key string)
	// HasPlaces reports whether a Reservation has places of in-flight rules, and whether they are freed
	// without a call of another process. It ends the effect of the context of the decision on the places.
	HasPlaces func(r Reservation) (has, local bool)
	// LeaveQueue refunds the event to each LeakyBucket, and leaves it charged to all other rules.
	LeaveQueue func(r Reservation, ctx context.Context) error
	// Attempt makes an Ask one that is not the last one about its event, whose decision the Observer
	// counts apart. AttemptUnlessDenied makes it one unless it is denied.
	Attempt, AttemptUnlessDenied func(*Ask)
	// Compiled returns the compiled rule, or nil if the rule is invalid, Unlimited or Blocked.
	Compiled func(Rule) *driver.Compiled
	// ChooseFor is Choose with a function that also returns the time for which its choice lasts, or
	// zero if it has no end. If a rule of the chosen view is Blocked, and not also Blocked in the
	// limiter itself, its RetryAfter is that time, instead of Never.
	ChooseFor func(l Limiter, pick func(ctx context.Context, key string) (chosen Limiter, ends time.Duration, err error)) Limiter
}

var methods any

// Provide sets the result of [Get].
func Provide[Limiter, Reservation, Rule, Ask any](m Methods[Limiter, Reservation, Rule, Ask]) {
	methods = m
}

// Get returns the methods of *core.Limiter, *core.Reservation, core.Rule and core.Ask.
func Get[Limiter, Reservation, Rule, Ask any]() Methods[Limiter, Reservation, Rule, Ask] {
	return methods.(Methods[Limiter, Reservation, Rule, Ask])
}
