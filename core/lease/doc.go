// Package lease is a Store that wraps another Store. It takes tokens from that Store in bundles and
// spends them in this process, so that a hot key costs one round trip for hundreds of decisions.
//
//	store := lease.New(denycache.New(redisstore.New(rdb, "shop")))
//	defer store.Close()
//
// Every token is charged in the Store behind, which is the argument of [New], before this process
// spends it. The limit therefore holds over all processes.
//
//	charges ──▶ lease ─── token held ──▶ admitted, in less than a microsecond
//	              │
//	              └────── one call for all waiting callers, and a bundle ─▶ Store behind
//
// # Denials
//
// Package lease keeps no denials. Put a denycache beneath, as above: it denies the calls for a key
// that is over its limit without Redis, and gets the Store's exact verdicts. The other order is
// wrong. A denycache above lease would get estimated verdicts, and would go on to deny a key when
// a call has brought tokens, or a denied decision has returned some.
//
// The exception is a bucket that refills a token within 10 ms: it is used up and has tokens again
// within a few round trips. After a denial, lease lets such a bucket rest: it denies every call
// that the held tokens do not cover until the bucket has refilled for 10 ms, or by a 32nd of the
// limit if that takes less. RetryAfter includes the rest. No tokens are lost, because a bucket
// refills while it rests. A Reset or a Credit by another process also takes effect after the rest.
//
// # Leased rules
//
//	leased          TokenBucket that takes 8 ms or longer to fill up, and FixedWindow of 2 ms or
//	                longer; both with a limit of 128 or more
//	passed through  SlidingLog and SlidingWindow, whose events count from the moment when they
//	                happen (a leased event would count from its lease)
//	                LeakyBucket, which assigns departure times
//	                in-flight rules, whose places belong to single events
//	                quotas, whose tokens a process that ends would lose for up to a month
//	                plans with Headroom, which is for tokens that others have not used
//	                Soft and Shadow rules; smaller limits; keys longer than 256 bytes
//	                buckets with a fill time above 2^60/d microseconds, if the refill time of a
//	                token is n/d microseconds in lowest terms
//
// The Store behind decides about rules that are passed through, and applies every Reset, Credit,
// Debit and undo of a Reservation. A decision about several rules or keys takes tokens from leases
// where it can, and makes one call for the other charges. If that call denies, the tokens are
// returned to the leases without another call. For example, a limit that all users share is
// leased, and a small limit for each user beside it is passed through.
//
// The ban of a leased rule (core.Spec.BlockFor) is asked for at most once a second while it has not begun, so a ban that another
// process has begun takes effect within a second. Its rule does not rest: the Store behind denies. Tokens that other processes
// hold count as used, so a key can be banned although some are left.
//
// A core.Limiter.ReserveAtMost is passed through, too. It takes the tokens that the Store behind has
// left, and none of the tokens that are held here, so it may be denied while Allow is admitted.
//
// Each plan of a rule (core.Rule.Plan) has leases of its own, whose tokens only its callers spend.
// Plans of one length share the state of the key in the Store behind. Therefore a token that is
// charged for one plan is missing in all of them, and a Reset, Credit, Debit or undo by any plan
// applies to the leases of all of them.
//
// A bundle is half of the tokens that this process used for the key in the last [Lifetime], a
// measuring period. For a nearly full bucket, the tokens that will expire within half a Lifetime
// are added. A bundle is at most a 32nd of the Store's remaining tokens, or the refill of 10 ms if
// that is more. If a bundle would be smaller than 8 tokens, as near the end of a limit, none is
// taken, and every admitted decision is a call.
//
// # How long tokens are held
//
// Tokens are held until they are spent or expire. Tokens of a fixed window expire with the window.
// Each leased token of a bucket stands for the span of time in which the bucket refills that token.
// The token expires when the span begins, and is refilled during the span, so no capacity is lost.
// For example, if half of a bucket of 6000 a minute is in use, the next token expires in 30 s.
// Expired tokens are not returned to the Store, so the end of a lease needs no call, timer or
// goroutine. Leases age 0.1 % faster than the clock of this process, in case the Store's is faster.
//
// # Never over the limit
//
// With any number of processes, a token bucket admits at most Burst + rate x T events in any span
// T, and a fixed window admits at most Events in each window. If callers of several plans of one
// length use a key, these bounds hold for all plans together. For a window, Events is that of the
// largest limit. For a bucket that fills up in the time length, the sum over the plans of events/Burst
// is at most 1 + T/length. An event counts from its decision, which is
// made in this process, or in the Store for callers that wait for a call. The proof is in
// expiry.go. There are two exceptions:
//   - A Credit, or the undo of a Reservation, makes a bucket full earlier, but leased tokens
//     expire as before. The excess at one moment is at most the cost that was freed since the
//     lease, and at most the tokens that all processes hold. Each token is still charged in the
//     Store, so the long-term rate holds. Fixed windows have no excess.
//   - After a Reset, other processes spend the tokens that they hold.
//
// # Unused tokens
//
// While one process denies, other processes may hold tokens that expire unspent. With N processes,
// the number of these tokens is at most (N-1) x min(a, b): a is half of the tokens that a process
// used in the last Lifetime, b is 1/32 of the Store's tokens when the process leased its bundle.
// Each further plan that uses the key in a process counts as a process here.
//
// The figures below come from 280 loads: limits of 128 to 100 000 a second, 6000 a minute and
// 50 000 an hour, 1 to 8 processes, at the limit and at 1.5 times the limit. Because of unused
// tokens, lease denied a part of the events that the Store alone would have admitted: less than 1 %
// in 86 % of the loads, and less than 5 % in 97 % of them. The table shows this part, in percent,
// for the worst of four kinds of load: even, 90 % at one process, 90 % at a process that changes
// every 0.7 s, and bursts of 0.2 s in every 2 s.
//
//	                       at the limit          at 1.5 times the limit
//	processes              1    2    4    8         1    2    4    8
//	bucket  128/s        0.3  0.0  0.0  0.0       0.1  0.1  0.1  0.1
//	       5000/s        0.0  1.7  5.3  8.8       0.0  0.9  1.2  1.3
//	     100000/s        0.0  1.1  4.7 13.5       0.0  0.5  3.4  9.0   in the first second
//	       6000/min      0.0  0.0  0.0  0.0       0.0  0.0  0.1  0.6
//	      50000/h        0.0  0.0  0.1  0.7       0.0  0.0  0.0  0.0
//	window  128/s        0.0  0.0  0.1  0.0       0.0  0.0  0.0  0.0
//	       5000/s        0.5  2.3  3.2  3.5       0.0  0.6  1.2  1.1
//	     100000/s        0.6  3.0  1.8  2.7       0.3  1.2  0.1  1.0   in the first second
//	       6000/min      0.0  0.0  0.0  0.0       0.0  0.0  0.0  0.0
//	      50000/h        0.0  0.0  0.2  1.1       0.0  0.0  0.0  0.0
//
// A process that ends loses the tokens that it holds, whether it calls Close or not. The tokens of
// a key are also lost if the key is evicted (see [MaxKeys]) or the limit of its plan changes. A
// bucket gets lost tokens back as it refills, and a window gets them back when it ends. When few
// tokens remain, bundles are small: four processes at full speed that share a key with a limit of
// 50 000 admit all 50 000 events.
//
// # Calls
//
// For each rule and plan of a key there is one call at a time. It takes the tokens for all waiting
// callers, in the order of their arrival, and the next bundle. If the Store has too few tokens for a
// caller, the caller is denied with the reply to that call. A caller that comes during a call waits
// for the next one, unless the call brings enough tokens. The next bundle is fetched before
// the last bundle is used up, without a caller waiting for it, for at most 64 keys at a time. After
// a Reset, and after three calls that brought too few tokens because other processes took tokens
// in the meantime, each caller that still waits makes a call of its own. A goroutine exists only
// during a call.
//
// # Outages
//
// Held tokens are spent without the Store. If a call fails, all callers that wait for the key at
// that moment get the error, so no caller waits for more than one call that hangs. A caller also
// stops waiting when its own context ends. The tokens of a call that succeeds afterwards are held
// for other callers. Calls for several callers end within [Timeout], and by the deadline of the
// Store behind, if it has a deadline. If the Store behind is a failover Store, tokens of the
// primary are dropped when a call brings tokens of the backup, and vice versa.
//
// # Verdicts
//
// RetryAfter ignores the held tokens, because they may be spent by then. It is never too short:
// after that wait the cost is admitted if no other event comes. It is too long by at most the refill
// time of the held tokens, one round trip and the rest of a bucket. Remaining, ResetAfter and Window
// are computed from the Store's last verdict and the time since then. They count the tokens held in
// this process for the same plan as free, and ignore the tokens that other processes
// and plans have taken since.
package lease
