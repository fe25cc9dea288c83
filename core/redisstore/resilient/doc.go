// Package resilient provides the recommended Store on Redis. It continues to limit, in the memory of
// the process, while Redis is slow or unreachable, and it denies repeated requests of a client that
// is over its limit without a call of Redis.
//
//	store := resilient.New(rdb, "shop")
//	defer store.Close()
//
// The Store is made of four packages, which can also be used alone and in other combinations:
//
//	charges ──▶ denycache ──▶ failover ──┬──▶ redisstore, the primary
//	                                     └──▶ memstore, the backup during an outage
//
// The example shows a whole program. The documentation of package redisstore describes the keys and
// the permissions that the Store needs in Redis.
//
// # Outages
//
// If Redis fails, or does not decide within [Timeout], the backup decides the event. After several
// such failures in a row, decisions do not wait for Redis any more. The Store probes Redis in the
// background, and returns to it soon after it accepts writes again. The log, [Store.State] and [OnChange]
// report the store that decides; package failover describes when that changes, and how many events
// are admitted in an outage.
//
// The processes do not share the states of their backups. Each divides its limits by the number of processes, so that
// they admit as many events as one backup would. [FailClosedFor] and [FailOpenFor] choose rules that have no backup.
//
// A cached denial ends a second after it was decided, or earlier (denycache.DefaultMaxAge). After
// Redis has failed or returned, a key may therefore be denied for up to a second because of the
// store that decided before. A denial from the cache has states with Unknown set, for the rules
// that were not decided (see core.State).
//
// # Processes
//
// A Store writes a heartbeat to Redis with its first rule, 2 s later, and then every 9 to 11 seconds, and reads from the reply how many
// Stores of the application have each of its rules: a rule that only some processes have is not divided by the others. A
// Store that is closed is not counted any more, and a process that crashes is not counted 30 to 41 s after its last heartbeat.
// For each rule, a larger number counts at once, and a smaller one up to 37 s later, so the numbers hold when Redis has lost
// the heartbeats, in an outage or otherwise, or its clock has stepped. A new rule has the number of all processes for that
// time. While Redis is away, the last numbers stay.
//
// [Instances] is the number until Redis has replied to heartbeats for 15 s; a larger number of Redis counts at once. [Processes]
// replaces the number of Redis for good. A process that starts in an outage, and has neither option, enforces whole limits.
//
// All backups together admit one limit. A process that started in the 13 seconds before the outage, or was frozen or cut off
// for 30 s, adds the n-th part, where n is the number of processes that it has counted.
//
// The keys are weir:shop:{shop}processes and those that begin with it: hashes and sorted sets with a TTL of 30 s, in one
// hash slot; with :published of a day, with :figures: and :denied: of two hours, and with :switches without a TTL. They have
// the names, limits and plans of rules, and of each
// process a random number, its host, its number and the version of the program; no [KeySecret]
// changes them, so that processes with different secrets count one another. The commands
// are those of decisions (see Permissions in the documentation of package redisstore). A heartbeat takes 30 us of Redis, and
// 70 us if the processes have rules of 64 kinds; further kinds are counted together, for every rule.
//
// # Figures
//
// Once a minute, a Store adds to Redis how many decisions of each rule it has counted, by result, for the command weir top and
// the page of package inspect. No decision is counted twice, and those of a message that is lost are missing, as are those of the
// last minute of a process. With observe.TopKeys ([Observe]), it adds the hashes of its most denied keys, as they are in the keys
// of Redis; an application has at most 1000 of them an hour.
//
// # Switches
//
// The command weir off turns the limits of a rule, of a policy or of the application off, and weir on turns them on again: in an incident, and
// while a wrong limit is mended. A Store looks every 1.1 to 1.4 s, and each process follows a change within two seconds while
// Redis replies. Events are then admitted as if the limits were core.Unlimited: without a call of Redis and without fields in
// the response, and nothing is stored. Blocks of operators, plans that are core.Blocked and pauses stay in force. A place or
// a [core.Reservation] from before ends as ever, and one that began while the limit was off settles to nothing. Callers that
// wait are admitted within a second more.
//
// While Redis is away, the last switches count. If Redis has lost them, all limits are on, and each Store that had read them
// logs an error. Each change is logged, and the measure weir.off is the number of switches in force.
//
// # Shutting down
//
//  1. Call Shutdown of the http.Server, which ends the requests that use the Store.
//  2. Call [Store.Close], which ends the probes and heartbeats that use the client of Redis.
//  3. Close the client. The Store does not close it.
//
// # Large limits
//
// Package lease takes the tokens of a large limit in bundles. It is used over this Store:
//
//	store := lease.New(resilient.New(rdb, "shop"))
package resilient
