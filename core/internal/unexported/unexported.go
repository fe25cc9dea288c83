// Package unexported gives packages of this module access to methods of package core that
// applications do not need.
package unexported

import (
	"context"
	"time"
)

// Methods contains the methods. Its type parameters are types of package core, which cannot be named
// here, because package core imports this package.
type Methods[Limiter comparable, Reservation, Decision, Rule, Ask any] struct {
	// HasPlans reports whether plans make a difference to a limiter: whether one of its rules has
	// plans, or Choose has made it.
	HasPlans func(Limiter) bool
	// SharesStore reports whether two limiters have the same Store, as AllowTogether requires.
	SharesStore func(Limiter, Limiter) bool
	// ReplaceAll is core.ReplaceAll, and calls then after it has put the new rules into use, unless there is
	// an error. then is for the data of a function of Choose: each decision uses rules and data of one
	// version. It must be fast, and must not use a Limiter, because decisions wait for it.
	ReplaceAll func(rules map[Limiter][]Rule, then func()) error
	// Reserve is core.ReserveTogether for a Reservation that is part of a larger structure, which saves an
	// allocation. The Reservation must be zero, and remains so after an error.
	Reserve func(r Reservation, ctx context.Context, asks ...Ask) (Decision, error)
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
	// ChooseFor is Choose with a function that also returns the time for which its choice lasts, or
	// zero if it has no end. If a rule of the chosen view is Blocked, and not also Blocked in the
	// limiter itself, its RetryAfter is that time, instead of Never.
	ChooseFor func(l Limiter, pick func(ctx context.Context, key string) (chosen Limiter, ends time.Duration, err error)) Limiter
}

var methods any

// Provide sets the result of [Get].
func Provide[Limiter comparable, Reservation, Decision, Rule, Ask any](m Methods[Limiter, Reservation, Decision, Rule, Ask]) {
	methods = m
}

// Get returns the methods of *core.Limiter, *core.Reservation, core.Decision, core.Rule and core.Ask.
func Get[Limiter comparable, Reservation, Decision, Rule, Ask any]() Methods[Limiter, Reservation, Decision, Rule, Ask] {
	return methods.(Methods[Limiter, Reservation, Decision, Rule, Ask])
}
