// Package failover provides a Store over two stores: a primary, usually Redis, and a backup that
// decides while the primary is slow, frozen or unreachable.
//
//	store := failover.New(redisstore.New(rdb, "shop"), memstore.New(), failover.Instances(4))
//
// Package resilient combines these three with package denycache, and has the options that matter.
//
// Every decision goes to the primary, with a [Deadline]. If the primary fails or the deadline
// passes, the backup decides. A denial by the primary is final: it is not a failure, and the backup
// is not called.
//
// # Backups
//
//   - A store in this process, such as memstore: each process enforces the limits by itself.
//     [Processes] and [Instances] divide the limits by the number of processes, and so does a primary that counts
//     them, as in package resilient.
//   - [FailOpen] admits every event.
//   - [FailClosed] returns an error for every event. A gate then responds with 503.
//
// [FailOpenFor] and [FailClosedFor] choose the backup of single rules, by name:
//
//	store := failover.New(redis, memory, failover.FailClosedFor("login"), failover.FailOpenFor("search"))
//	login := core.Must(core.New(store, core.SlidingLog("login", core.PerMinute(5))))
//	h = nethttplimit.New(login, ip)(h)
//	if err := store.Check(); err != nil { ... } // a name that no rule has
//
// The Store has one breaker for all rules, and its rules can be decided together. While the backup
// decides, a decision that contains a fail-closed rule returns an error, and fail-open rules always
// admit. Both apply to every plan of a rule, except that the limits core.Unlimited and core.Blocked
// are decided without a store, in an outage, too.
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
// A call that fails or times out causes probes at once, so few callers wait before the breaker
// opens, even if there is little traffic: of the call that failed, and of up to six other keys
// whose last calls have succeeded. The breaker opens when all of these probes have failed, and so
// have five calls in a row and every call that began in the last 50 ms (half of the default
// [Deadline]). It also opens when all probes have failed, and half of at least 100 calls within a
// second. It does not wait for probes after 50 failures in a row, and after five if no call has
// succeeded for 30 s. While probes succeed, it opens only after 30 s without a call that succeeds.
// A Cluster with one of three masters down therefore stays in use, at any rate of calls.
//
// While the breaker is open, no decision waits for the primary. The Store probes the primary in the
// background, one probe at a time, after a failure with another one of these keys or that of a
// later call. If the primary is a [driver.Prober], the probe tests whether the primary would accept
// a write. For that, redisstore writes a separate key, so a replica, a Redis that is out of memory,
// or a Redis whose ACL forbids the write is not used until it accepts writes. Any other primary
// receives Peeks, which charge nothing. If such a primary accepts reads but rejects writes, the
// breaker opens again after each successful probe. The intervals of probes are random, 25 to 300
// ms, so that many processes do not probe at the same time.
//
// When a probe succeeds, the ramp-up begins: within half a second, the part of the decisions that
// go to the primary grows from none to all. A primary that returns is in full use after about 1 s,
// and after 1.5 s at the latest with the default deadline. A client may need longer to open a
// connection: go-redis tries once a second after many attempts have failed.
//
// If the breaker opens during the ramp-up or within 30 s after it, the primary has relapsed. After
// each relapse, one more probe in a row must succeed before the next ramp-up: two, then three, at
// most four.
//
// # Failures
//
// A call of the primary fails if it exceeds the deadline, panics, or returns core.ErrUnavailable or
// an unknown error, because a Store may return network errors unchanged. Errors about the call
// itself, such as [driver.ErrInvalidCharge], are returned to the caller and are not failures. Calls
// that fail because they shared a lost round trip count as one failure ([driver.ErrUnavailable]). After a
// [driver.ErrOverloaded], the backup decides, but the breaker does not count it: the primary is busy.
//
// If the context of a call ends first, the call returns the error of the context. The call counts
// as a failure only if the whole deadline had passed, so clients that hang up cannot open the
// breaker. A call that ended earlier causes a probe (at most one within the length of the
// deadline). The breaker therefore opens even if all callers of a hanging primary leave early.
//
// # Bounds
//
// Each store enforces a rule only on the events that it decides, because no state is copied from
// one store to the other. For one key and a rule that admits B events at once and R events a
// second, these bounds hold in an outage of T seconds:
//
//   - n processes admit at most n·(B + R·T) events.
//   - n processes with Instances(n), or counted by the primary, admit at most B + R·T events, as if they shared the
//     backup. If B is less than n, each process admits one event at once.
//   - FailOpen admits every event, and FailClosed none.
//
// For a window or log, B is the limit and R is B divided by the period. A fixed window may admit B
// more events, because the outage may begin shortly before the window ends.
//
// The outage ends when the primary is in full use again. Events in the primary's states expire
// during the outage, so the primary then admits at most one more burst. During the ramp-up both
// stores decide, and each may admit R events a second. The states of the backup remain until they
// expire. If another outage follows soon, they still count, so a primary that flaps does not grant
// a burst each time.
//
// For an in-flight rule, B events may be in flight, and no place is copied either. Places that the
// primary granted stay taken there until they are freed or lapse, and the backup of each process grants
// B other places, or its part of B with Instances. With Instances, up to 2·B events are therefore in
// flight, also after the outage, until the events that the backup admitted have ended. If the outage is
// longer than the hold of the rule, the places of the primary lapse although their events may go on, and
// the primary grants them again afterwards: B more events for each such outage.
//
// For a quota, B is the quota and R is zero: the counts of the backup begin at zero and end with the period,
// so all outages within a period together admit one more quota in each process, or an n-th of it with
// Instances(n). A process that was started again begins at zero again. A quota that must not be exceeded
// needs [FailClosedFor].
//
// If the result of the primary is lost, the primary may have charged the event. The backup then
// decides again, so an event is charged once or twice.
//
// # Undo, Renew, Debit, Credit and Reset
//
//	Undo    goes to the store that charged the event ([driver.Receipt.Origin]). If the primary
//	        charged it but cannot be reached, Undo returns core.ErrUnavailable, and the event
//	        stays charged until it expires.
//	Renew   goes to the store that has the place of the event, as Undo does. If that is the primary
//	        and it cannot be reached, Renew returns core.ErrUnavailable, and the place lapses if no
//	        later renewal is in time.
//	Debit   goes to the store that decides now, and to the backup if the primary fails.
//	Credit  goes to the store that decides now. If the primary fails, Credit returns an error,
//	        and the backup is not called.
//	Reset   goes to both stores and succeeds if the store that decides now is reset. Reset
//	        reports that something was in use if either store reports it.
//
// The Debit of a core.Pause goes to both stores as a Reset does. The backups of other processes do not know the
// pause, so these processes admit its events while their backups decide. A backup does not know either that another
// process has ended a pause early: while it decides, it denies until the end that it knows. A pause that begins while the
// primary is away ends in this process when the primary is back, and one that is ended then is there again. If the
// primary fails and is not away, the backup gets the pause, and the Debit returns an error, because the next decisions
// may be those of the primary. A ban (core.Spec.BlockFor) is in the primary only: while the backup decides, none begins or
// holds, and a Debit that begins one returns an error.
//
// While the backup decides, a call with a charge of a fail-closed rule returns an error, after the
// charges of the other rules were executed.
//
// # Cost
//
// If a healthy primary is called directly (see [New]), the Store adds about 35 ns to a decision,
// takes no lock and allocates nothing. Any other primary is called on a goroutine, which adds about
// 2 us. If the primary has not returned from 128 calls whose callers have left, it is not called
// until one of these calls returns.
package failover
