package core

import "github.com/weir-go/weir/core/driver"

// An Algorithm defines how a rule counts events: see the function of the same name, such as [TokenBucket].
// Its String is "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window", "in_flight",
// "quota" or "pause". The zero Algorithm is invalid.
type Algorithm = driver.Algorithm

// The algorithms.
const (
	AlgorithmTokenBucket   = driver.TokenBucket
	AlgorithmLeakyBucket   = driver.LeakyBucket
	AlgorithmFixedWindow   = driver.FixedWindow
	AlgorithmSlidingLog    = driver.SlidingLog
	AlgorithmSlidingWindow = driver.SlidingWindow
	AlgorithmInFlight      = driver.InFlight
	AlgorithmQuota         = driver.Quota
	AlgorithmPause         = driver.Pause
)

// TokenBucket returns a rule whose bucket holds l.Burst tokens and refills continuously at l.Events
// per l.Per. A full bucket admits Burst events at once. The arithmetic is exact to the microsecond
// for any rate (ITU-T I.371, GCRA).
func TokenBucket(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.TokenBucket, Limit: l})
}

// LeakyBucket returns a rule with a queue of l.Burst events that drains at l.Events per l.Per. The
// caller must delay an admitted event by its Delay. Departures are then never closer together than
// the rate allows, in all processes that share a Store. If the queue is full, the event is denied.
//
// Each departure is rounded up to the next microsecond separately, so that the rate does not drift.
func LeakyBucket(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.LeakyBucket, Limit: l})
}

// FixedWindow returns a rule that admits l.Events in every window of l.Per. The windows of all keys
// begin at the multiples of l.Per since the Unix epoch, by the clock of the Store. The state is one
// small number. l.Burst must be zero or l.Events.
//
// The rule admits up to twice the limit in a span of l.Per around an edge, where one window ends
// and the next begins. If that matters, use [SlidingWindow] or [SlidingLog]. Each time that the clock
// of the Store steps back over an edge, the rule admits the limit once more.
//
//	            limit 4       edge       limit 4
//	├─────────────────────·x·x·x·x┼x·x·x·x·─────────────────────┤
//	                       └── 8 events ──┘
//
// With [Rule.FromFirst], the window of a key begins with its first event.
func FixedWindow(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.FixedWindow, Limit: l})
}

// SlidingLog returns a rule that admits at most l.Events in any span of l.Per. Each admitted event
// takes 16 to 32 bytes in memory, about 7 in Redis. l.Burst must be zero or l.Events.
func SlidingLog(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.SlidingLog, Limit: l})
}

// SlidingWindow returns a rule that admits at most l.Events in any span of l.Per, like
// [SlidingLog]. It counts the events of each sub-window, so it stores no more than 60 numbers, however
// large the limit is. [Spec.SubWindows] is another number. l.Burst must be zero or l.Events.
//
// A sub-window is counted in full until it lies completely outside the window, so an event is
// counted for l.Per plus at most one sub-window. RetryAfter can therefore be longer than l.Per: up to
// 61 s for a limit per minute. With 60 sub-windows, the rule admits about 98.5 percent of the events
// that a [SlidingLog] admits under load, and with 10 sub-windows 91 percent.
// (Interpolation, the common alternative, admits up to twice the limit in bursts at the edges.)
func SlidingWindow(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.SlidingWindow, Limit: l})
}

// Quota returns a rule that admits l.Events in every period of the calendar: l is the result of [Daily],
// [Weekly] or [Monthly]. Periods begin at midnight UTC, weeks on Monday and months on the first day.
// [Spec.Location] and [Spec.Anchor] change that. It is for amounts that customers have bought, such as
// 1 000 000 calls a month. A quota does not refill during a period, and does not begin with the first use.
//
//	core.Quota("calls", core.Monthly(1_000_000)).In(berlin)
//
// # Periods
//
// The clock of the Store decides which period it is, so the clock of a process may be wrong by less than
// half a period. [State.Window], after a denial [State.RetryAfter], and if something is used
// [State.ResetAfter] are the time until the next period. [State.Period] is the length of the present
// period. A refund of an event of an earlier period does nothing. With [Spec.Rollover], a part of the events
// that a key has left in a period is added to its limit in the next one.
//
// A period of a key lasts until the end that it had when its first event was counted. If the zone or the
// anchor of the key changes meanwhile, the new calendar applies from then on, and the period after the
// change may be shorter than [State.Period], which is that of the new calendar. By the new calendar, that
// period may have begun before the old one ended: a refund of an event between both times frees an event of
// the new period.
//
// # Outages
//
// The backup of package failover begins at zero, as it does not know the counts of Redis, so the outages of
// a period may admit one more quota in each process (one n-th of it in each of n with failover.Instances).
// For a quota that must not be exceeded, name the rule in failover.FailClosedFor. A state lives until the
// end of its period, up to 31 days and an hour, and with Rollover up to 33 days longer: Redis must keep it (maxmemory-policy noeviction, and
// persistence), or the quota begins again. With memstore.Store, it begins again when the process is
// started. Package lease does not lease quotas, because a process that ends would lose the events that it
// holds.
func Quota(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.Quota, Limit: l})
}

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
// half of a core of Redis and as much of their process. An order of up to 64 limiters and processes is kept for each
// key, and callers beyond that ask without one. While a rate, or another rule of its limiter, makes a caller wait, it
// has no place in the order. With several InFlight rules, a caller is in the order of those whose places are missing:
// if another limiter has only one of these rules, its callers may take the places of that rule meanwhile, again and
// again.
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

// Pause returns a rule that admits every event of a key until [Limiter.Pause] closes it for a time: in all
// processes that share the Store, at their next decision. It is for a time that others have named, such as
// the Retry-After of a service that all processes call, and for penalties. A limiter has at most one.
//
//	partner := core.Must(core.New(store, core.Pause("partner"), core.TokenBucket("rate", core.PerSecond(10))))
//	if err := partner.Wait(ctx, "acme"); err != nil { // waits for the end of a pause, too
//		return err
//	}
//	res, err := client.Do(req)
//	if err == nil && res.StatusCode == http.StatusTooManyRequests {
//		err = partner.Pause(ctx, "acme", retryAfter)
//	}
//
// While a key is paused, the decision is denied, whatever the event costs. It charges no other rule and takes no
// place, and RetryAfter is exact. The limit of its [State] is [Blocked], with RetryAfter, ResetAfter and Window until
// the end; that of any other State is [Unlimited]. A Peek, or an ask of cost zero, is denied, too. A pause does
// not end events that were admitted before, and they can be settled. [Limiter.Wait] does not return in a pause, but a
// gate passes a request that a [LeakyBucket] had delayed before. Debit, Credit and refunds do not change it.
// Limiters with a Pause of one name on one Store share it, as with any [Rule].
//
// A Pause has no Limit. Plans, Soft, FromFirst, SubWindows, Hold, Spare and the like are errors. With [Spec.Shadow], it
// denies nothing.
//
// # Stores
//
// The end is the time of the Store plus the length. If the clock of a Redis steps back, a pause ends later, but its
// rest is never longer than its length. With package failover, a pause is written to the primary and to the backup of
// this process. The backups of other processes do not know it, so they admit its events in an outage, and this one
// does not know if another process ends it early. A pause that begins in an outage is known in this process only, and
// ends with the outage at the latest. One that is ended in an outage is there again after the outage. If the primary
// fails and the next decision may be its own, Pause returns an error. Package denycache may answer from its memory for
// up to its MaxAge after another process has begun a pause, ended it early or made it longer. Package lease asks its
// Store for each decision of a limiter with a Pause.
func Pause(name string) Rule { return NewRule(Spec{Name: name, Algorithm: driver.Pause}) }
