// Package failover is a Store over two: a primary, which is usually Redis, and a backup that
// decides while the primary is slow, frozen or gone.
//
//	store := failover.New(redisstore.New(rdb), memstore.New(), failover.Instances(4))
//
// Every decision goes to the primary, with a [Deadline]. If the primary fails or the deadline
// passes, the backup decides. A denial is not a failure: the backup is not called after it.
//
// # Backups
//
//   - A store in this process, such as memstore: each process enforces the limits by itself.
//     [Instances] divides the limits by the number of processes.
//   - [FailOpen] admits every event.
//   - [FailClosed] returns an error for every event, which every gate answers with 503.
//
// [FailOpenFor] and [FailClosedFor] choose for single rules, by name:
//
//	store := failover.New(redis, memory, failover.FailClosedFor("login"), failover.FailOpenFor("search"))
//	login := core.Must(core.New(store, core.SlidingLog("login", core.PerMinute(5))))
//	h = nethttplimit.New(login, ip)(h)
//	if err := store.Check(); err != nil { ... } // a name that no rule has
//
// The Store has one breaker for all rules, and its rules can be decided together. While the
// backup decides, a decision that contains a fail-closed rule returns an error, and fail-open
// rules always admit.
//
// # States
//
// A circuit breaker decides which store is called. The [State] is [Primary] while the breaker is
// closed, [Backup] while it is open, and [Recovering] while it is half-open.
//
//	               too many calls failed
//	┌────────┐ ──────────────────────────▶ ┌────────┐ ──┐ a probe
//	│ closed │                             │  open  │ ◀─┘ failed
//	└────────┘                             └────────┘
//	     ▲                                   │    ▲
//	     │                 a probe succeeded │    │ too many
//	     │                                   ▼    │ calls failed
//	     │      half a second later        ┌───────────┐
//	     └──────────────────────────────── │ half-open │
//	                                       └───────────┘
//
// The breaker opens when five calls in a row have failed and none of the calls that began in the
// last 50 ms (half a [Deadline]) was answered, or when half of at least 100 calls within a second
// have failed. A Cluster with one of three masters down therefore stays in use.
//
// While the breaker is open, no decision waits for the primary. The primary is probed in the
// background, one probe at a time, about the keys and rules of a real decision. A primary that
// is a [driver.Prober] is asked whether it would accept a write. For that, redisstore writes a
// key of its own, so a replica, a Redis that is out of memory and one whose access rules deny
// the write are not used until they accept writes. Any other primary gets Peeks, which charge
// nothing; if it answers reads and refuses writes, the breaker opens several times a second. The
// pauses between probes are random, 25 to 300 ms, so that many processes do not probe together.
//
// When a probe succeeds, the ramp-up begins: the part of the decisions that go to the primary
// grows from none to all in half a second. A primary that returns is in full use after about 1 s,
// and after 1.5 s at the latest with the default deadline. A client may need longer to open a
// connection: go-redis tries once a second after many attempts have failed.
//
// If the breaker opens within 30 s of its closing, the primary has relapsed. Each relapse
// requires one more probe in a row to succeed before the ramp-up, up to four.
//
// A call that fails or is not answered causes probes at once, so few callers wait before the
// breaker opens, also where there is little traffic.
//
// # Failures
//
// Failures are core.ErrUnavailable, the deadline, a panic, and any error that is not known to be
// about the call itself, because a Store may return the errors of its network as they are.
// Errors about the call, such as [driver.ErrInvalidCharge], are returned and do not count.
//
// If the context of a call ends first, the error of the context is returned. The call counts as
// a failure only if the whole deadline had passed, so clients that hang up cannot open the
// breaker. Otherwise it causes a probe, at most one in a deadline, so the breaker opens for a
// primary that hangs even if all callers leave before the deadline.
//
// # Bounds
//
// Each store enforces a rule on the events that it decides itself, and no state is carried over.
// For one key, and a rule that admits B at once and R in a second, during an outage of T seconds,
//
//   - n processes admit at most n·(B + R·T);
//   - with Instances(n) at most B + R·T, as if they shared the backup. If B is less than
//     n, each of them admits one at once;
//   - FailOpen admits every event, and FailClosed none.
//
// For a window or log, B is the limit and R is B in its period; a fixed window may add another
// B, because of the window in which the outage begins.
//
// T ends when the primary is in full use again. The primary then goes on with its own states, in
// which events have expired during the outage: that admits at most one more burst. The states of
// the backup expire. They still count in an outage that follows soon, so a primary that flaps
// does not grant a burst each time.
//
// If the primary's answer is lost, the primary may have made the decision. The backup makes it
// again: an event may be charged twice, and is charged at least once.
//
// # Undo, Debit, Credit and Reset
//
//	Undo    goes to the store that has the charge ([driver.Receipt.Origin]). If that is the
//	        primary, and it cannot be reached, the error is core.ErrUnavailable, and the event
//	        stays charged until it expires there.
//	Debit   goes to the store that decides now, and to the backup if the primary fails.
//	Credit  goes to the store that decides now. If the primary fails, Credit returns an error
//	        and is not repeated.
//	Reset   goes to both stores; it succeeds if the store that decides does it. It reports that
//	        something was in use if either store does. If only one store did the Reset, the
//	        report is that of this store.
//
// While the backup decides, each of these calls returns an error for a fail-closed rule, after the
// charges of the other rules have been done.
//
// # Cost
//
// A decision of a healthy primary that is called directly (see [New]) takes about 35 ns longer,
// takes no lock and allocates nothing. Any other primary is called on a goroutine, at about 2 us
// a decision. A primary that never returns from its calls holds a goroutine for each; when there
// are 128 of them that have no caller any more, it is not called again until one returns.
package failover
