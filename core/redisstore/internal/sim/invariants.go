package sim

// Simulations check invariants. The sentence of an invariant is in the documentation, in the file source.
type invariant struct {
	name, source, sentence string
}

// Package testing/synctest checks that no goroutine is left.
var (
	placesAtServer = &invariant{"places at the server", "algorithm.go",
		"InFlight returns a rule that admits at most n events of a key at the same time, in all processes that share a Store."}
	placesHeld = &invariant{"events with a place", "failover/doc.go",
		"With Instances, up to 2·B events are therefore in flight"}
	placeKept = &invariant{"places are kept", "algorithm.go",
		"While an event runs, this package renews its hold"}
	placeFreed = &invariant{"places are freed", "reservation.go",
		"The end of ctx does not matter: an event that was cancelled frees its places, too."}
	placesBack = &invariant{"all places come back", "algorithm.go",
		"A place that is not freed lapses at the end of its hold, [Spec.Hold]"}
	eventsInSpan = &invariant{"events in a span of time", "lease/doc.go",
		"a token bucket admits at most Burst + rate x T events in any span T"}
	chargedOnce = &invariant{"charged once", "limiter.go",
		"On an error the Reservation is nil, and the event has been charged at most once, or not at all."}
	capacityBack = &invariant{"all capacity comes back", "redisstore/doc.go",
		"Every key has a TTL and expires when its state equals the state of a new key."}
	deniedRightly = &invariant{"denied only at the limit", "denycache/doc.go",
		"The cache never admits, and it denies only events that the Store would deny"}
	available = &invariant{"a healthy server is used", "redisstore/doc.go",
		"A command that certainly did not run is sent again within the deadline"}
	inTime = &invariant{"in time", "redisstore/doc.go",
		"Take and Adjust return within [Timeout], regardless of the configuration of the client."}
	breakerOpens = &invariant{"the breaker opens", "failover/doc.go",
		"The breaker opens when all of these probes have failed"}
	partInUse = &invariant{"a part is in use", "failover/doc.go",
		"A Cluster with one of three masters down therefore stays in use"}
	breakerCloses = &invariant{"the breaker closes", "failover/doc.go",
		"A primary that returns is in full use after about 1 s"}
	refundAfterStep = &invariant{"a refund after a step of the clock", "driver/charge.go",
		"An Age above now - At shows that the clock of the store has stepped back."}
	blocked = &invariant{"a block is enforced", "rules/override.go",
		"within two seconds in every process that watches the source"}
	crowdOrder = &invariant{"the order of arrival", "redisstore/doc.go",
		"so all processes give places in the order of arrival, by the clock of the server"}
	crowdServed = &invariant{"free places are given to callers who wait", "redisstore/doc.go",
		"a lost message or a process that was killed delays the next caller by at most 3 s"}
	pauseHolds = &invariant{"a pause holds", "algorithm.go",
		"until [Limiter.Pause] closes it for a time: in all processes that share the Store, at their next decision"}
	pauseLength = &invariant{"the length of a pause", "limiter.go",
		"whichever is later: pauses do not add up. d is rounded up to microseconds."}
	pauseExact = &invariant{"the time until the end of a pause", "algorithm.go",
		"RetryAfter is exact"}
	pauseCharges = &invariant{"a pause charges no other rule", "algorithm.go",
		"It charges no other rule and takes no place"}
	pauseUnchanged = &invariant{"a pause is not changed by charges", "algorithm.go",
		"Debit, Credit and refunds do not change it."}
	pauseState = &invariant{"the State of a pause", "algorithm.go",
		"The limit of its [State] is [Blocked], with RetryAfter, ResetAfter and Window until the end"}
	pauseEnded = &invariant{"a pause ends", "algorithm.go",
		"admits every event of a key until [Limiter.Pause] closes it for a time"}
	pauseWaits = &invariant{"the end of a pause is waited for", "algorithm.go",
		"waits for the end of a pause, too"}
	pauseAfterStep = &invariant{"a pause after a step of the clock", "algorithm.go",
		"If the clock of a Redis steps back, a pause ends later, but its rest is never longer than its length."}
	pauseAtBackup = &invariant{"a pause in the backup", "algorithm.go",
		"a pause is written to the primary and to the backup of this process"}
	pauseInOutage = &invariant{"a pause in an outage", "algorithm.go",
		"A pause that begins in an outage is known in this process only, and ends with the outage at the latest."}
	banInnocent = &invariant{"no key below its limit is banned", "spec.go",
		"a decision of the backup of package failover, during which no ban holds"}
	banHolds = &invariant{"a ban holds", "spec.go",
		"makes a denial by the rule ban the key for a time, in all processes"}
	banEnds = &invariant{"the end of a ban stays", "spec.go",
		"Denials during the ban do not make it longer"}
	fleetCounted = &invariant{"processes are counted", "redisstore/resilient/doc.go",
		"a larger number counts at once, and a smaller one up to 37 s later"}
	fleetSettled = &invariant{"the number of processes is found", "redisstore/resilient/doc.go",
		"a process that crashes is not counted 30 to 41 s after its last heartbeat"}
	fleetBound = &invariant{"what an outage admits", "redisstore/resilient/doc.go",
		"they admit as many events as one backup would"}
	fleetFigures = &invariant{"figures", "redisstore/resilient/doc.go",
		"No decision is counted twice"}
	fleetOff = &invariant{"limits are turned off", "redisstore/resilient/doc.go",
		"each process follows a change within two seconds"}
)

var invariants = []*invariant{
	placesAtServer, placesHeld, placeKept, placeFreed, placesBack, eventsInSpan, chargedOnce, capacityBack, deniedRightly, available,
	inTime, breakerOpens, partInUse, breakerCloses, refundAfterStep, blocked, crowdOrder, crowdServed,
	pauseHolds, pauseLength, pauseExact, pauseCharges, pauseState, pauseEnded, pauseWaits, pauseAfterStep,
	pauseAtBackup, pauseInOutage, pauseUnchanged, banInnocent, banHolds, banEnds, fleetCounted, fleetSettled, fleetBound, fleetFigures, fleetOff,
}
