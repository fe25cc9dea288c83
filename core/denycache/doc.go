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
//	                └── otherwise ──▶ Store behind
//
// The cache never admits, and it denies only events that the Store would deny:
//
//   - A denial ends when its RetryAfter, counted from the beginning of the call, is over, or
//     after [MaxAge], one second by default. A Reset or Credit by another process is therefore
//     noticed after MaxAge at the latest.
//   - A denial covers the same and larger costs, with the same or a smaller MaxDelay, under the
//     same limit. For core.SlidingLog and core.SlidingWindow, only the Store knows when a larger
//     cost fits, so there it covers only its own cost. The latest eight costs of a key are cached.
//   - Reset, Credit, Debit and the undo of a reservation, done through this Store, remove the
//     denials of the key at once.
//   - If an event is admitted and nothing remains, the answer says when the next one fits. This
//     is cached, too, except for a soft rule.
//   - A shadow rule denies nothing.
//
// # Verdicts
//
// One cached denial denies a decision. RetryAfter, ResetAfter and Window are those of the Store's
// answer, counted down since its arrival. They are never too short, and too long by at most the
// time that the answer took to arrive and, for a bucket, a microsecond. Remaining rises as a
// bucket refills, and otherwise is that of the answer.
//
// The other rules of the decision are not decided, so their states have Unknown set
// ([driver.Verdict], core.State), and the RateLimit fields of package gate leave them out. Such a
// rule may deny for longer; it is decided when the first denial has ended. To display all limits
// of a denied key, use one limiter for each rule, or a limiter over the Store behind.
//
// The Verdicts of the Store behind have to be exact, as those of memstore, redisstore and
// failover are. A lease belongs in front of a denycache.
//
// # Concurrency
//
// When a cached denial ends, one decision calls the Store, and others about the key wait for its
// answer, until their context ends or for 10 ms. If the answer is a denial, or if nothing
// remains, they are denied with it. Otherwise each of them calls the Store, as do all decisions
// about a key without a cached denial.
//
// # Memory
//
// [MaxKeys] bounds the cache. Rarely used entries are evicted, and cost a call again; a flood of
// keys does not evict frequently used ones. Keys are compared as a whole, and never leave the
// process. A key longer than 128 bytes is kept as its SHA-256 and its length.
package denycache
