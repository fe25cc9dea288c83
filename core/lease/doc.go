// Package lease is a [core.Store] over a Store: it takes tokens in blocks and spends
// them in this process, so that a hot key costs one round trip for hundreds of
// decisions.
//
//	store := lease.New(redisstore.New(rdb))
//	defer store.Close() // gives back what was not spent
//
// It is the write-back cache of a limiter, turned round: nothing is admitted first and
// written later. Every token was taken from the Store before it is spent here, so that
// the limit holds over all processes.
//
//	charges ──▶ lease ── held here ────▶ admitted, in less than a microsecond
//	              │   └─ known denied ─▶ denied, likewise
//	              │
//	              └───── a block, for all who wait ─▶ Store behind
//
// # What is leased
//
//	leased     TokenBucket that takes 8 ms or longer to fill up, FixedWindow of 2 ms or more;
//	           both with a limit of 128 or more
//	straight   SlidingLog, SlidingWindow: an event counts from when it happens, and not from
//	           when it was leased; LeakyBucket: it hands out turns
//	           Soft and Shadow rules, smaller limits, keys longer than 256 bytes, and buckets
//	           whose whole, in the fractions of a microsecond that they count in, is above 2^60
//
// What goes straight is asked of the Store behind like without this package; so is all
// that is no question: Reset, Refund, Settle and undoing a [core.Reservation]. A
// decision of several rules or keys takes from leases what these cover, and asks for
// the rest in one call; if that is denied, what was taken here goes back. So a limit of
// all users is leased, while that of each user is not.
//
// How much is leased follows the use of each key: half of what was used in the last
// [Lifetime], and of a bucket that is nearly full also what would refill before it is
// spent. It is never more than a sixteenth of what the Store has left, or than what
// refills in 10 ms; and where that comes to less than 8 tokens, as near the
// end of a limit, every decision is a call.
//
// # Never over the limit
//
// With any number of processes, in any span T no more than Burst + rate x T is admitted
// of a token bucket, and in no window more than Events of a fixed window. An event
// counts when it is decided: here, or, for those who wait for a call, there.
//
// That is not a matter of course, for a bucket refills while tokens of it are held.
// Here the tokens of a bucket melt in the hand: what the Store counts as refilled since
// can no longer be spent. And what is given back is given back only as far as no other
// lease relies on it; see block.go for the proof, which the tests look for holes in.
//
// Two things are outside of it. What callers give back themselves, by Refund or Undo,
// can meet a lease of the same bucket, and then as much more as that, at most what
// refills in a Lifetime, is admitted at one moment. And after a Reset, other processes
// spend what they hold for up to a Lifetime.
//
// # What can go unused
//
// With N processes, what the others hold when one is denied:
//
//	at most    N-1 times the smaller of half of what each used in the last Lifetime and
//	           a sixteenth of what was left when it was leased
//	for        a Lifetime; then it goes back
//
// What comes back of a bucket is what was held, less what the bucket refills in
// the time it was held, or, of a bucket that is all but full, in up to two seconds, when it
// refills anyway. A process that dies without Close, or cannot reach the Store in time,
// costs what it held; of a bucket until that has refilled, of a window until its end. In
// the last of a limit, single calls leave nothing behind: four processes at full speed
// on one key of 50 000 admit all of it.
//
// # Calls
//
// For a rule of a key there is one call at a time; it takes what all who wait for it
// want, in the order in which they came, and the next block. A block is fetched before
// the last one is used up. What the Store has denied is denied here until it could
// succeed, though it is asked once in [MaxAge]; and an empty bucket is left alone until as
// much is there as refills in 10 ms, so that a call is worth it.
//
// # What is told
//
// RetryAfter heeds that rest, and does not count on what is held here, which may be gone
// by then. It is too long by these and by a round trip at most, and never too short: who
// waits that long finds room, if nobody else comes. Remaining, ResetAfter and Window are
// those of the Store's last answer, made older, with what is held here counted as free;
// they do not know what other processes have taken since.
//
// An error of the Store reaches those who wait for that call. What is held is spent
// without it. In front of a failover Store, what is leased belongs to the side that
// gave it.
//
// # Memory
//
// What is known is bounded by [MaxKeys], some 600 bytes each: the least recently used
// key gives way, and what it held goes back. There are no goroutines but for calls that
// are under way, and a timer for each lease.
package lease
