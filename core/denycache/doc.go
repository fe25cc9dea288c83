// Package denycache is a Store over a Store: a key that has been denied
// costs no round trip until it may succeed again.
//
//	store := denycache.New(redisstore.New(rdb))
//
// A client that is over its limit often asks most of all. What the Store behind has
// denied, and for how long, is remembered here, and until then the same is denied
// in this process:
//
//	charges ──▶ denycache ── known to be denied ──▶ denied, in less than a microsecond
//	                │
//	                └─────── anything else ───────▶ Store behind
//
// # What is admitted is the same
//
// Nothing is ever admitted here, and nothing is denied that the Store would admit,
// but for what is said below about room that others make. A denial is remembered for
// its rule and key: it holds for costs from its own on, for events that would not
// wait longer ([driver.Charge].MaxDelay), for the rule as it is defined, and until the
// least wait that the Store named is over, counted from before the Store was asked.
// One rule that denies is enough to deny a decision. A smaller cost, and a rule whose
// limit has changed (an elastic one that has grown), are asked for. A
// core.Rule.Shadow denies nothing here either.
//
// An event that is admitted and takes the last of a limit says by that when the next
// will fit. So a key that is kept busy costs one call of the Store for what it is
// admitted, and hardly one more for what it is denied. (Not so where a State does not
// say that to the microsecond: soft rules, and buckets whose tokens do not take a
// whole number of microseconds.) The States of the Store behind are believed, and
// those of memstore and redisstore are exact. A Store that estimates them belongs in
// front of a denycache, not behind it.
//
// What makes room earlier is noticed. Reset, Credit, Debit and undoing a
// core.Reservation, done through this Store, make it forget at once what it knows
// of the key. What another process does, or who goes past this Store, is noticed
// within [MaxAge], for a denial is believed no longer than that. So is a clock that
// is set: of the Store's clock only the rate is relied on. And so is a Store that
// gives back, as redisstore does on a Cluster: for a moment it may deny what it would
// admit right after, and that moment is remembered for as long.
//
// # What is told
//
// RetryAfter is what is left of the wait that the Store named, counted from when
// its answer was here. It is too long by the round trip at most, never too short:
// who waits that long finds room, if nobody else comes. So is what is told about a
// larger cost than the Store was asked about, but for a core.SlidingLog or
// core.SlidingWindow, of which nobody but the Store knows when a second event
// leaves: each of the first four costs of a rule and key is asked for once. Between
// those, a cost is told the time of the next larger one.
//
// ResetAfter and Window count down in the same way. Remaining goes up with a bucket
// as it refills, and is otherwise that of the Store's last answer.
//
// For a rule that is not known to deny, the State is worked out from the Store's last
// answer about that rule and key, if possible to the same cost; without an answer, it is that
// of a key of which nothing is used. Other decisions may have changed it meanwhile, and such a
// rule may itself deny for longer: it is asked when the first has come free. Where the Store
// has decided by another rule, as failover does by the part of one instance, the State is about
// that rule.
//
// # When the time is over
//
// All who ask for a key at that moment would go to the Store together, each time
// that a token drips. Instead one goes, and those who come while it is away wait for
// its answer. If that is a denial they have it too. If not, two go, then four, so
// that nobody is denied without having been asked for, and where there is room for
// many they are soon through. Nobody waits longer than 10 ms, and nobody waits for
// a key that was not denied until then, or was denied for less than a round trip.
//
// # Memory
//
// What is remembered is bounded by [MaxKeys]. What is asked for seldom and long ago
// gives way, and costs a round trip again; a flood of keys, each of which has to use
// up a limit to get here, does not push out one that is hot. Keys are held as they
// are, and compared, so that nobody is denied in place of another; one longer than
// 128 bytes is held as its SHA-256 and its length. Nothing of it leaves the process.
package denycache
