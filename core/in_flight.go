package core

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// InFlight returns a rule that admits at most n events of a key at the same time, in all processes that
// share a Store. n is 1 to 1000. An event takes one place, whatever it costs (none if it costs nothing),
// and the place is free again when the event has ended: a gate ends the events of its requests when their
// handlers have returned, and [Reservation.Release] ends others.
//
//	exports := core.Must(core.New(store, core.InFlight("exports", 5)))
//	r, err := exports.Acquire(ctx, key) // waits for a place
//	if err != nil {
//		return err
//	}
//	defer r.Release(ctx)
//
// A decision about such a rule and rates takes a place and charges the rates, or does neither. Calls whose
// events no caller could end are an [ErrInvalidAsk]: Allow, AllowN, AllowTogether, Wait and ReserveAtMost,
// and Debit and Credit. [Limiter.Peek] and [Limiter.Reset] are allowed. After a Reset, the events that
// still run have no place.
//
// # Leases
//
// A place that is not freed lapses at the end of its lease, [Rule.Hold], so a process that has crashed
// takes no place for longer. While an event runs, this package renews its lease, in one goroutine for each
// Store with held places, until
//
//   - the event ends,
//   - the context of its Reserve or Acquire ends, except in a gate,
//   - its Reservation is garbage, because the caller has forgotten it, or
//   - [Rule.MaxHold] has passed.
//
// A place that has lapsed is never taken back, because another event may have it: an event that was not
// renewed in time, as in a process that was stopped, has lost its place, which [Reservation.Lost] reports.
// It may then run beside n others. In a memstore.Store, no lease lapses while it would be renewed, and
// there is no goroutine.
//
// # Denials
//
// It is not known when an event ends. The RetryAfter of a denial is an estimate, and [State.Estimate] is
// true: the rest of the oldest lease, or in a memstore.Store the whole lease. It is never zero or [Never].
// If another rule denies, too, the RetryAfter of the Decision is that of the other rule. A gate sends no
// Retry-After for an estimate.
//
// # Limits
//
// The limit of a plan or an override is a Limit without a period, Limit{Events: 20}, and its text is "20".
// [Rule.Soft] and [Rule.Divide] count places as they count events. [Rule.Elastic] only lowers the limit.
// If a limit is lowered, running events keep their places.
func InFlight(name string, n int) Rule { return newRule(name, driver.InFlight, Limit{Events: n}) }

// DefaultHold is the lease of a place of [InFlight] without [Rule.Hold].
const DefaultHold = 30 * time.Second

// Hold returns a copy of r, an [InFlight], whose places lapse after d unless they are renewed, which
// happens after a third of d or a little later. d is whole microseconds from 1 s to 24 h, 30 s by default.
// With a short lease, the places of a crashed process are soon free. With a long one, events keep their
// places while the Store is slow or down. Rules with different leases have different states, like those of
// different periods (see [Rule]).
func (r Rule) Hold(d time.Duration) Rule {
	return r.modify(func(of *definition) { of.Definition.Hold = d })
}

// HoldTime returns the [Rule.Hold] of r. It is zero if r is no [InFlight].
func (r Rule) HoldTime() time.Duration { return r.def().Definition.Hold }

// MaxHold returns a copy of r, an [InFlight], that renews no place for longer than d. The place then
// lapses within one lease, so an event that hangs does not take a place for ever. Zero, the default, means
// no bound. MaxHold does not belong to the definition that [ErrRuleConflict] compares.
func (r Rule) MaxHold(d time.Duration) Rule { return r.modify(func(of *definition) { of.maxHold = d }) }

// MaxHoldTime returns the [Rule.MaxHold] of r, or zero.
func (r Rule) MaxHoldTime() time.Duration { return r.def().maxHold }

func (r Rule) isInFlight() bool { return r.Algorithm() == driver.InFlight }

// checkHold returns an error if the MaxHold of r is invalid.
func (r *definition) checkHold() error {
	switch {
	case r.maxHold < 0:
		return r.invalid("max hold", fmt.Sprintf("is %v, negative", r.maxHold))
	case r.maxHold > 0 && r.Algorithm != driver.InFlight:
		return r.invalid("max hold", "has a meaning for events at the same time only")
	}
	return nil
}

// errNoHolder is the error of calls that would take places that no caller could free.
var errNoHolder = invalidAsk("a rule is InFlight, and no caller could free its place: use Reserve or Acquire")
