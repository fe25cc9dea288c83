package core

import (
	"github.com/weir-go/weir/core/driver"
)

// InFlight returns a rule that admits at most n events of a key at the same time, in all processes that
// share a Store. n is 1 to 1000. An event takes one place, whatever it costs (none if it costs nothing), and with
// [Rule.ByCost] as many as it costs. They are free again when the event has ended: a gate ends the events of its
// requests when their handlers have returned, and [Reservation.Release] ends others.
//
//	exports := core.Must(core.New(store, core.InFlight("exports", 5)))
//	r, err := exports.Acquire(ctx, key) // waits for a place
//	if err != nil {
//		return err
//	}
//	defer r.Release(ctx)
//
// A decision about such a rule and rates takes a place and charges the rates, or does neither. Calls whose
// events no caller could end are an [ErrInvalidAsk]: Allow, AllowN, AllowTogether, Wait, Debit, Credit, and without
// ByCost ReserveAtMost. [Limiter.Peek] and [Limiter.Reset] are allowed. After a Reset, the events that
// still run have no place.
//
// # Holds
//
// A place that is not freed lapses at the end of its hold, [Spec.Hold], so a process that has crashed
// takes no place for longer. While an event runs, this package renews its hold, in one goroutine for each
// Store with held places, until
//
//   - the event ends,
//   - the context of its Reserve or Acquire ends (that of a gate does not end),
//   - its Reservation is garbage, because the caller has forgotten it, or
//   - [Spec.MaxHold] has passed.
//
// A place that has lapsed is never taken back, because another event may have it: an event that was not
// renewed in time, as in a process that was stopped, has lost its place, which [Reservation.Lost] reports.
// It may then run beside n others. In a memstore.Store, no hold lapses while it would be renewed, and
// there is no goroutine.
//
// # Denials
//
// It is not known when an event ends. The RetryAfter of a denial is an estimate, and [State.Estimate] is
// true: the rest of the oldest hold, by cost that of the last of enough holds, or in a memstore.Store the
// whole hold. It is never zero or [Never]. If another rule denies, too, the RetryAfter of the Decision is
// that of the other rule. A gate sends no Retry-After for an estimate.
//
// # Waiting
//
// Callers of [Limiter.Acquire] and [Limiter.AcquireN] get the places of a key in the order of arrival, by the clock of
// the Store, in all processes that share it. The Store knows the first caller of each limiter and process: if several
// places become free within a round trip, a caller of another process may get one of them before the second caller of a
// process that came earlier. While callers wait, the places that they need are not free for events that
// do not wait, those of [Limiter.Reserve] and of gates: a key that always has waiting callers admits no others. A caller
// with a smaller limit, such as one of a plan with headroom ([Rule.Headroom]), keeps only places within that limit from
// events of other limiters and from Reserve. Callers of one limiter wait for all that came before them, whatever their
// plans are.
//
// The Store forgets callers that have not asked for 2 s, and callers ask at least once a second, so a process that has
// crashed or was stopped while its caller was the first delays the others by at most 3 s. Other Stores than
// memstore.Store and redisstore.Store, and a Redis whose messages do not arrive, cannot tell callers that a place is
// free: they ask after 50 to 250 ms. Waiting is not free: 9900 callers, each for a key of its own, took 10 KB each,
// half of a core of Redis and as much of their process. An order of up to 64 limiters and processes is kept for each key, and callers
// beyond that ask without one. While a rate, or another rule of its limiter, makes a caller wait, it has no place in the
// order. With several InFlight rules, a caller is in the order of those whose places are missing: if another limiter has
// only one of these rules, its callers may take the places of that rule meanwhile, again and again.
//
// # Limits
//
// The limit of a plan or an override is a Limit without a period, Limit{Events: 20}, and its text is "20".
// [Rule.Soft] and [Rule.Divide] count places as they count events. [Rule.Elastic] only lowers the limit.
// If a limit is lowered, running events keep their places.
//
// # Places by cost
//
// With [Rule.ByCost], an event takes as many places as its cost, such as the tokens of a batch. n is then 1 to a
// million. A key has at most 1000 events at a time: with that many, all its places count as taken.
//
//	tokens := core.Must(core.New(store, core.InFlight("tokens", 90_000).ByCost()))
//	r, err := tokens.AcquireN(ctx, key, 1500) // waits for 1500 places
//	if err != nil {
//		return err
//	}
//	defer r.Release(ctx)
//
// [Limiter.ReserveAtMost] takes as many places as are free. A cost above the limit is denied for ever: RetryAfter is
// [Never], and not an estimate. With [Rule.Elastic], that is the limit of the moment.
//
// An event has its places until it ends: Settle changes the costs of rates only. Beside a rate in one Limiter, the
// cost is that of both; for different costs, use two asks of [ReserveTogether]. The costs of two asks with the rule
// and the same key add up.
func InFlight(name string, n int) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.InFlight, Limit: Limit{Events: n}})
}

// errNoHolder is the error of calls that would take places that no caller could free.
var errNoHolder = invalidAsk("a rule is InFlight, and no caller could free its place: use Reserve or Acquire")
