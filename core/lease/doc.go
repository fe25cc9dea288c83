// Package lease is a Store over another Store. It takes tokens from that Store in blocks and
// spends them in this process, so that a hot key costs one round trip for hundreds of decisions.
//
//	store := lease.New(redisstore.New(rdb))
//	defer store.Close()
//
// Every token is charged in the Store behind before it is spent, so the limit holds over all
// processes.
//
//	charges ──▶ lease ─── token held ────▶ admitted, in less than a microsecond
//	              │    └─ denial known ──▶ denied, likewise
//	              │
//	              └────── one call for all waiting callers, and a block ─▶ Store behind
//
// # Leased rules
//
//	leased         TokenBucket that takes 8 ms or longer to fill up, FixedWindow of 2 ms or
//	               more; both with a limit of 128 or more
//	passed through SlidingLog, SlidingWindow: an event counts from the moment when it happens,
//	               and a leased one would count from its lease; LeakyBucket: it assigns
//	               departure times; Soft and Shadow rules; smaller limits; keys longer than 256
//	               bytes; and buckets whose capacity exceeds 2^60 internal units, which are
//	               fractions of a microsecond
//
// The Store behind decides about rules that are passed through, and does every Reset, Credit,
// Debit, and undo of a Reservation. A decision of several rules or keys takes tokens from
// leases where it can, and makes one call for the rest. If that call denies, the tokens are
// returned to the leases without another call. For example, a limit that all users share is
// leased, and a small limit for each user beside it is not.
//
// The size of a block follows the use of each key: half of the tokens that the process used in
// the last [Lifetime], and for a nearly full bucket also the tokens that will expire unspent. A
// block is at most a 32nd of the Store's remaining tokens, or the refill of 10 ms if that is
// more. If a block would be smaller than 8 tokens, as near the end of a limit, none is taken,
// and every admitted decision is a call.
//
// # How long tokens are held
//
// Tokens are held until they are spent or expire. Tokens of a fixed window expire with the
// window. A leased token of a bucket owns the span of virtual time in which the bucket refills
// by one token; it expires when that span begins, because the bucket has refilled by as much
// then. If half of a bucket of 6000 a minute is in use, the next token expires in 30 s. Expired
// tokens are not returned to the Store, so the end of a lease needs no call, timer or goroutine.
// A lease ages 0.1 % faster than the clock of this process, in case that of the Store is faster.
//
// # Never over the limit
//
// With any number of processes, in any span T at most Burst + rate x T events of a token
// bucket are admitted, and in no window more than Events of a fixed window. An event counts
// when it is decided: in this process, or, for callers that wait for a call, in the Store.
// The proof is in expiry.go.
//
// Two things are outside of the promise:
//   - A Credit, or the undo of a Reservation, makes a bucket full earlier, but leased tokens
//     expire as before. The excess at one moment is at most the cost that was freed since the
//     lease, and at most the tokens that all processes hold. Each token is charged all the
//     same, so the long-term rate holds. Windows are exact.
//   - After a Reset, other processes spend the tokens that they hold.
//
// # Unused tokens
//
// Tokens that other processes hold while one is denied, and that expire unspent, go unused.
// With N processes they are at most (N-1) x min(half of the use of a process in the last
// Lifetime, a 32nd of the tokens that were left at its lease).
//
// Measured for limits of 128 to 100 000 a second, 6000 a minute and 50 000 an hour, 1 to 8
// processes, and 0.8 to 1.5 times the limit: the unused part of the events that the Store alone
// would have admitted is less than 1 % in 90 % of 480 loads, and less than 5 % in 98 % of them.
// The worst of four loads (even; 90 % at one process; 90 % at a process that changes every
// 0.7 s; bursts of 0.2 s in 2 s) leaves unused, in percent:
//
//	                       at the limit          at 1.5 times the limit
//	processes              1    2    4    8         1    2    4    8
//	bucket  128/s        0.0  0.0  0.0  0.0       0.0  0.0  0.0  0.0
//	       5000/s        0.0  0.8  4.3  6.4       0.0  0.4  1.1  1.0
//	     100000/s        0.0  1.3  6.2  9.8       0.0  0.5  3.2  8.1   in the first two seconds
//	       6000/min      0.0  0.0  0.4  0.7       0.0  0.0  0.1  0.5
//	      50000/h        0.0  0.0  0.6  2.1       0.0  0.0  0.0  0.0
//	window  128/s        0.0  0.1  0.0  0.0       0.0  0.1  0.0  0.0
//	       5000/s        0.5  2.0  4.2  4.7       0.0  0.0  1.4  2.5
//	     100000/s        0.6  3.7  3.0  4.1       0.3  1.2  0.5  1.4
//	       6000/min      0.0  0.0  0.0  0.0       0.0  0.0  0.0  0.0
//	      50000/h        0.0  0.0  0.6  2.0       0.0  0.0  0.0  0.0
//
// A process that ends loses the tokens that it holds, whether it calls Close or not. The tokens of
// a key are also lost if the key is evicted (see [MaxKeys]) or its limit changes. A bucket gets
// lost tokens back as it refills, a window when it ends. Near the end of a limit blocks are small:
// four processes at full speed on one key of 50 000 admit all of it.
//
// # Calls
//
// For each rule of a key there is one call at a time. It takes the tokens for all waiting
// callers, in the order of their arrival, and the next block. The next block is fetched before
// the last one is used up, without a caller waiting for it, for at most 64 keys at a time.
// After three calls that brought too little, because other processes took tokens in the
// meantime, and after a Reset, callers that still wait make a call each.
//
// A denial of the Store is repeated in this process until a call could be admitted, for [MaxAge] at
// most. An empty bucket is called again only when the tokens of 10 ms have refilled, which make a
// call worth its cost. There are no goroutines except for calls that are under way.
//
// # Outages
//
// Tokens that are held are spent without the Store. If a call fails, all callers that wait for
// the key at that moment get the error, so no caller waits for more than one call that hangs. A
// caller also leaves when its own context ends; the tokens of a call that succeeds afterwards
// are held for other callers. Calls for several callers end within [Timeout], and by the
// deadline of the Store behind, if it has one. In front of a failover Store, tokens of the
// primary are dropped when the backup leases the next ones, and the other way round.
//
// # Verdicts
//
// RetryAfter includes the 10 ms above, and does not count on the tokens that are held, which
// may be spent by then. It is never too short: after that wait a cost is admitted, if no other
// event comes. It is too long by at most the 10 ms, the time in which the held tokens refill,
// and a round trip. Remaining, ResetAfter and Window are computed from the Store's last verdict
// and the time since then, with the tokens held in this process counted as free. They do not
// include the tokens that other processes have taken since.
package lease
