// Package denycache caches the denials of a Store, so that repeated requests of a client that is
// over its limit do not reach the Store.
//
//	store := denycache.New(redisstore.New(rdb, "shop"))
//
// Package resilient contains such a cache over package failover.
//
// A denial is cached with its RetryAfter. Until that time is over, the same rule denies the same
// key in this process:
//
//	charges ──▶ denycache ── denial is cached ──▶ denied, in less than a microsecond
//	                │
//	                └── otherwise ──▶ Store behind
//
// The cache never admits, and it denies only events that the Store would deny:
//
//   - A denial ends when its RetryAfter, counted from the beginning of the call, is over, or
//     after [MaxAge], one second by default. A Reset or Credit by another process is therefore
//     noticed after MaxAge at the latest.
//   - A denial covers the same and larger costs, with the same or a smaller MaxDelay, under the
//     same limit. For core.SlidingLog and core.SlidingWindow, a denial covers only its own cost,
//     because only the Store knows when a larger cost fits. For each rule of a key, the latest
//     eight denials are cached, of all plans of one length together. A denial of a plan with Headroom
//     denies no other plan.
//   - A Reset, Credit, Debit or undo of a reservation through this Store removes the denials of
//     the key at once, for every plan that shares the changed state. A core.Limiter.Pause through this
//     Store is cached at once. One of another process is hidden for up to MaxAge by a cached denial of
//     another rule, with the RetryAfter of that rule.
//   - If an event is admitted and nothing remains, the Store's verdict says when the next event
//     fits. A denial until then is cached in advance, except for a soft rule.
//   - A shadow rule denies nothing.
//   - A denial by an in-flight rule is not cached, because it ends as soon as an event ends.
//   - A core.Limiter.ReserveAtMost is denied if a denial covers one unit.
//
// # Verdicts
//
// One cached denial denies the whole decision. RetryAfter, ResetAfter and Window are the values
// of the Store's verdict, counted down since it arrived. They are never too short. They are too
// long by at most the time that the verdict took to arrive and, for a bucket, a microsecond. For a
// bucket, Remaining rises as it refills. For other algorithms, Remaining does not change.
//
// The other rules of the decision are not decided, so their states have Unknown set
// ([driver.Verdict], core.State), the RateLimit header fields of package gate leave them out, and
// package observe counts them with the result "unknown". Such a rule may deny for longer; it is
// decided when the first denial has ended. To display all limits of a denied key, use one limiter
// for each rule, or a limiter over the Store behind.
//
// The Verdicts of the Store behind must be exact, as in memstore, redisstore and failover. To use
// package lease, too, pass the denycache to it: lease.New(denycache.New(...)). The documentation of
// package lease gives the reasons.
//
// # Concurrency
//
// When a cached denial ends, one decision calls the Store. Other decisions about the key wait for
// that call, until their context ends or for 10 ms. If the call returns a denial, or nothing
// remains after it, the waiting decisions are denied, too. Otherwise each of them calls the Store,
// as do all decisions about a key without a cached denial.
//
// # Memory
//
// [MaxKeys] bounds the cache. Rarely used denials are evicted, and cost a call again. A flood of
// keys does not evict frequently used denials. Cached keys are compared as a whole, and never leave
// the process. A key longer than 128 bytes is stored as its SHA-256 and its length.
package denycache
