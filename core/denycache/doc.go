// Package denycache caches the denials of a Store, so that repeated requests of a client that is
// over its limit do not reach it.
//
//	store := denycache.New(redisstore.New(rdb))
//
// A denial is cached with its RetryAfter. Until that is over, the same rule denies the same key
// in this process:
//
//	charges ──▶ denycache ── a cached denial covers one ──▶ denied, in less than a microsecond
//	                │
//	                └── none does ──▶ Store behind
//
// The cache never admits, and it denies what the Store would deny:
//
//   - A denial ends when its RetryAfter, counted from before the Store was asked, is over. It
//     also ends after [MaxAge], one second by default: so long does it take to notice that
//     another process resets or credits the key.
//   - A denial covers costs from its own on, and a MaxDelay up to its own, under the same limit.
//     For core.SlidingLog and core.SlidingWindow, only the Store knows when a larger cost fits,
//     so there it covers only its own cost. The latest eight costs of a key are cached.
//   - Reset, Credit, Debit and the undo of a reservation, done through this Store, remove the
//     denials of the key at once.
//   - If an event is admitted and nothing remains, the answer says when the next one fits. This
//     is cached, too, except for a soft rule.
//   - A shadow rule denies nothing.
//
// # Verdicts
//
// One cached denial denies a decision. RetryAfter, ResetAfter and Window are those of the Store's
// answer, counted down since it arrived. They are too long by the way back at most, and for a
// bucket by up to a microsecond, never too short. Remaining rises as a bucket refills, and
// otherwise is that of the answer.
//
// The other rules of the decision are not asked, so nothing is known about them: their states
// have Unknown set ([driver.Verdict], core.State), and the RateLimit fields of package gate leave
// them out. Such a rule may deny for longer; it is asked when the first denial has ended. A
// program that displays the limits of a denied key asks about each rule in a limiter of its own,
// or over the Store behind.
//
// The Verdicts of the Store behind have to be exact, as those of memstore, redisstore and
// failover are. A lease belongs in front of a denycache.
//
// # Concurrency
//
// When a cached denial ends, one decision calls the Store and others about the key wait for its
// answer, until their context ends or for 10 ms. If the answer is a denial, or if nothing
// remains, they are denied with it. Otherwise all of them call the Store. A key without a cached
// denial is asked about by each decision.
//
// # Memory
//
// [MaxKeys] bounds the cache. Rarely used entries are evicted, and cost a call again; a flood of
// keys does not evict those that are asked for often. Keys are compared as a whole, and never
// leave the process. One longer than 128 bytes is kept as its SHA-256 and its length.
package denycache
