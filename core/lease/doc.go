// Package lease is a Store over another Store: it takes tokens from that in blocks and spends
// them in this process, so that a hot key costs one round trip for hundreds of decisions.
//
//	store := lease.New(redisstore.New(rdb))
//	defer store.Close()
//
// Every token is charged in the Store before it is spent in this process, so that the
// limit holds over all processes.
//
//	charges ──▶ lease ─── token held ────▶ admitted, in less than a microsecond
//	              │    └─ denial known ──▶ denied, likewise
//	              │
//	              └────── one call for all callers that wait, and a block ─▶ Store behind
//
// # Leased rules
//
//	leased         TokenBucket that takes 8 ms or longer to fill up, FixedWindow of 2 ms or
//	               more; both with a limit of 128 or more
//	passed through SlidingLog, SlidingWindow: an event counts from the moment when it happens,
//	               and a leased one would count from its lease; LeakyBucket: it assigns
//	               departure times; Soft and Shadow rules, smaller limits, keys longer than 256
//	               bytes, and buckets whose capacity, in the fractions of a microsecond that
//	               they count in, is above 2^60
//
// The Store behind decides about rules that are passed through, as without this package. It
// also does every Reset, Credit, Debit, and undo of a Reservation. A decision of several rules
// or keys takes tokens from leases where it can, and asks for the rest in one call. If
// that is denied, the tokens are returned to the lease, without a call. So a limit of
// all users is leased, while the limit of each user is not.
//
// The size of a block follows the use of each key: half of what the process used in the
// last [Lifetime], and for a bucket that is nearly full also what expires before it is
// spent. A block is at most a 32nd of the Store's remaining tokens, or what refills in
// 10 ms if that is more. Where that comes to less than 8 tokens, as near the end of a limit,
// every admitted decision is a call.
//
// # How long tokens are held
//
// Tokens are held until they are spent or expire. Tokens of a fixed window expire with the
// window. A leased token of a bucket is a slot of virtual time, in which the bucket refills
// by one token; it expires when its slot begins, because the bucket has refilled by as much
// then. If half of a bucket of 6000 a minute is in use, the next slot begins in 30 s. Nothing
// is returned to the Store, so leases need no call, timer or goroutine when they end. A lease
// ages 0.1 % faster than the clock of this process, in case that of the Store is faster.
//
// # Never over the limit
//
// With any number of processes, in any span T at most Burst + rate x T events of a token
// bucket are admitted, and in no window more than Events of a fixed window. An event
// counts when it is decided: in this process, or, for callers that wait for a call, in the
// Store. The proof is in expiry.go.
//
// Two things are outside of the promise:
//   - A Credit, or the undo of a Reservation, moves the slots of a bucket, of which the
//     holders of leases do not know. At one moment as many more events can be admitted as
//     came back since the lease, and at most as many as all processes hold. Each
//     token is charged all the same: the long-term rate holds. Windows are exact.
//   - After a Reset, other processes spend the tokens that they hold.
//
// # Unused tokens
//
// Tokens that other processes hold while one is denied, and do not spend before they
// expire, go unused. With N processes that is at most N-1 times the smaller of half of
// what each used in the last Lifetime and a 32nd of what was left at its lease.
//
// Measured for limits of 128 to 100 000 a second, 6000 a minute and 50 000 an hour, 1 to 8
// processes, and 0.8 to 1.5 times the limit: of 480 loads, 90 % leave less than 1 % of what
// the Store alone would have admitted unused, and 98 % less than 5 %. The worst load of four
// (even; 90 % at one process; 90 % at a process that changes every 0.7 s; bursts of 0.2 s in
// 2 s) leaves, in percent:
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
// A process that ends loses what it holds, whether it calls Close or not: that of a bucket
// until it has refilled, that of a window until the window ends. The same holds for a key
// that gives way to others (see [MaxKeys]) and for a key whose limit changes. Near the end of
// a limit blocks are small: four processes at full speed on one key of 50 000 admit all of it.
//
// # Calls
//
// For a rule of a key there is one call at a time. It takes the tokens that all waiting
// callers want, in the order of their arrival, and the next block. The next block is fetched
// before the last one is used up, without a caller waiting for it, for 64 keys at a time
// at most. After three calls that brought too little, because other processes took tokens in
// the meantime, and after a Reset, callers that still wait make a call each. A denial of the Store is repeated in this process until it could be different,
// but the Store is asked once in [MaxAge]; and an empty bucket is not asked until as much
// is there as refills in 10 ms, so that a call is worth it.
//
// # Outages
//
// Tokens that are held are spent without the Store. A call that fails fails for all callers
// that wait for the key at that moment, so a caller waits for one call that hangs and no
// longer; and it leaves when its own context ends. Tokens that such a call brings are held
// for others. Calls for several callers end within [Timeout], and by the deadline of the Store
// behind, if it has one. In front of a failover Store, a lease belongs to the side that gave
// it, and tokens of one side are dropped when the other one gives the next.
//
// # Verdicts
//
// RetryAfter includes the 10 ms above, and does not count on tokens that are held, which may
// be spent by then. It is too long by these and by a round trip at most, and never too
// short: after that wait a cost is admitted, if no other event comes. Remaining, ResetAfter
// and Window are those of the Store's last verdict, made older, with the tokens held in
// this process counted as free. They do not include what other processes have taken
// since.
//
// # Memory
//
// [MaxKeys] bounds the number of keys, some 430 bytes each: the least recently used of
// eight keys, chosen at random, gives way. There are no goroutines except for calls that are under way.
package lease
