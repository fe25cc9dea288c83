// Package unexported gives packages of this module access to methods of package core that
// applications do not need.
package unexported

import (
	"context"
	"time"
)

// Methods contains the methods, which package core describes, with the names that they have there. The type
// parameters are types of package core, which cannot be named here, because package core imports this
// package.
type Methods[Limiter comparable, Reservation, Rule, Ask any] struct {
	HasPlans    func(Limiter) bool          // whether one of its rules has plans, or Choose has made it
	SharesStore func(Limiter, Limiter) bool // as AllowTogether requires
	ChooseFor   func(l Limiter, pick func(ctx context.Context, key string) (chosen Limiter, ends time.Duration, err error)) Limiter
	ReplaceAll  func(rules map[Limiter][]Rule, then func()) error

	Key        func(r Reservation, l Limiter) (key string, n int)
	Forget     func(r Reservation, l Limiter, key string)
	HasPlaces  func(r Reservation) (has, local bool)
	LeaveQueue func(r Reservation, ctx context.Context) error

	// Attempt makes an Ask one that is not the last one about its event, whose decision the Observer
	// counts apart. AttemptUnlessDenied makes it one unless it is denied.
	Attempt, AttemptUnlessDenied func(*Ask)
}

var methods any

// Provide sets the result of [Get].
func Provide[Limiter comparable, Reservation, Rule, Ask any](m Methods[Limiter, Reservation, Rule, Ask]) {
	methods = m
}

// Get returns the methods of *core.Limiter, *core.Reservation, core.Rule and core.Ask.
func Get[Limiter comparable, Reservation, Rule, Ask any]() Methods[Limiter, Reservation, Rule, Ask] {
	return methods.(Methods[Limiter, Reservation, Rule, Ask])
}
