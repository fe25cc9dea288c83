// Package failover is a Store over two: a primary, which is usually Redis,
// and a backup for the days on which that is slow, frozen or gone.
//
//	store := failover.New(redisstore.New(rdb), memstore.New(), failover.Instances(4))
//
// Every decision goes to the primary, with a [Deadline]. What the primary cannot
// decide in time, the backup decides. A denial is a decision, and so final.
//
// # States
//
//	               too many calls failed
//	┌─────────┐ ──────────────────────────▶ ┌────────┐ ──┐ a probe
//	│ Primary │                             │ Backup │ ◀─┘ failed
//	└─────────┘                             └────────┘
//	     ▲                                    │    ▲
//	     │                   a probe answered │    │ too many
//	     │                                    ▼    │ calls failed
//	     │     half a second later        ┌────────────┐
//	     └─────────────────────────────── │ Recovering │
//	                                      └────────────┘
//
// Too many calls have failed when five did in a row and none was answered that began
// in the last 50 ms (half a [Deadline]), or when of at least 100 calls within a second
// half failed. So one master of three that is down does not make the
// others be left.
//
// While the primary is away ([Backup]), no decision waits for it. It is probed in the
// background, one probe at a time, about the keys and rules of a real decision. A
// primary that is a [driver.Prober] is asked whether it would accept a write: redisstore
// writes a key of its own for that, so a replica, a Redis that is out of memory and one
// that denies the user a command stay away until they accept writes. Any other primary
// gets Peeks, which take nothing; if it answers reads and refuses writes, it is left and
// returned to several times a second. Probes are 25 to 300 ms apart, at random, so that
// many processes do not ask together. When one is answered, the share of decisions that
// go to the primary grows from nothing to all in half a second ([Recovering]). A primary
// that returns is in full use after about 1 s, and after 1.5 s at the latest with the
// default deadline. A client may need longer to open a connection: go-redis tries
// once a second where many attempts have failed.
//
// A primary that is left again within 30 s of its return has to answer one more
// probe in a row every time, up to four, before it is trusted again.
//
// A call that fails or is not answered is followed up by probes at once. So it
// takes a few callers, and not many, to find out that the primary is gone, even
// where little is asked.
//
// # What counts as a failure
//
// core.ErrUnavailable, the deadline, a panic, and any error that is not known to be
// about the call itself, for a Store may return the errors of its network as they
// are. Errors about the call, such as [driver.ErrInvalidCharge], are returned and count
// for nothing. So does a caller that leaves: if the context of a call ends first, its
// error is the answer. Only a call that was given the whole deadline counts
// nevertheless. But a caller that leaves without an answer causes a probe, one in a
// deadline at the most. So clients that hang up cannot drive the Store to its
// backup, and a primary that hangs is found out although all callers
// have less patience than the deadline.
//
// # Backups
//
//   - A store in this process, such as memstore: limits go on in every process, each
//     for itself. [Instances] divides them by the number of processes.
//   - [FailOpen] lets everything through.
//   - [FailClosed] decides nothing. That is an error and not a denial: every gate answers
//     it with 503.
//
// [FailOpenFor] and [FailClosedFor] choose for single rules, by name:
//
//	store := failover.New(redis, memory, failover.FailClosedFor("login"), failover.FailOpenFor("search"))
//	login := core.Must(core.New(store, core.SlidingLog("login", core.PerMinute(5))))
//	h = nethttplimit.New(login, ip)(h)
//	if err := store.Check(); err != nil { ... } // a name that no rule has
//
// It is one Store, with one breaker, and its rules can be decided together. A decision that
// contains a fail-closed rule returns an error. Fail-open rules always admit.
//
// # What is admitted
//
// Each store enforces a rule on what it decides itself, and nothing is carried over.
// So of one key and a rule that admits B at once and R in a second, during an
// outage of T seconds,
//
//   - n processes admit at most n·(B + R·T);
//   - with Instances(n) at most B + R·T, as if they shared the backup. Where B is less than
//     n, each of them admits one at once;
//   - with FailOpen everything, and with FailClosed nothing.
//
// Of a window or log, B is the limit and R is B in its period; a fixed window may add
// another B, because of the window in which the outage begins.
//
// T ends when the primary is in full use again. The primary goes on with what it
// remembers, and admits its own B + R·T from when it returns: one burst more, at the
// most, for what has refilled or was forgotten meanwhile. What the backup has counted
// is left to be forgotten. It still counts in an outage that follows soon, so a
// primary that flaps does not grant a burst each time.
//
// A decision of unknown fate, which the primary has perhaps made although its answer
// was lost, is made again by the backup: charged twice, never zero times.
//
// # Giving back
//
// What a reservation gives back goes to the store that has taken it
// ([driver.Receipt.Origin]). If that is the primary and it is away, the error is
// core.ErrUnavailable, and what was taken stays taken until the primary forgets
// it. A Debit goes to the store that decides at that time, and to the backup as well if
// the primary fails it. A Credit, which names an amount and no decision, also goes to the
// store that decides; if the primary fails it, it is an error and is not
// repeated. A Reset goes to both, and it is enough if the deciding one does it: during
// an outage the primary still remembers what it has counted before. It reports that
// something was in use if either store says so. While the primary is away, or fails the
// Reset, the report is that of the backup alone; if only the backup fails it, that of the
// primary.
//
// # Cost
//
// A decision of a healthy primary that is called directly (see [New]) takes about 35 ns
// longer, takes no lock and allocates nothing. Any other primary is called on a goroutine, at
// about 2 us a decision. A primary that never returns from its calls holds a goroutine for
// each; when there are 128 of them that nobody waits for any more, it is not called again until
// one returns.
package failover
