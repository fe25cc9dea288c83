// Package resilient provides the recommended Store on Redis. It continues to limit, in the memory of
// the process, while Redis is slow or unreachable, and it denies repeated requests of a client that
// is over its limit without a call of Redis.
//
//	store := resilient.New(rdb, "shop", resilient.Instances(4)) // the application has four processes
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
// background, and returns to it soon after it accepts writes again. [Store.State] and [OnChange]
// report the store that decides; package failover describes when that changes, and how many events
// are admitted in an outage.
//
// The processes do not share the states of their backups. [Instances] divides the limits by the
// number of processes, which then limit as if they shared one backup. [FailClosedFor] and
// [FailOpenFor] choose rules that have no backup.
//
// A cached denial ends a second after it was decided, or earlier (denycache.DefaultMaxAge). After
// Redis has failed or returned, a key may therefore be denied for up to a second because of the
// store that decided before. A denial from the cache has states with Unknown set, for the rules
// that were not decided (see core.State).
//
// # Shutting down
//
//  1. Call Shutdown of the http.Server, which ends the requests that use the Store.
//  2. Call [Store.Close], which ends the probes that use the client of Redis.
//  3. Close the client. The Store does not close it.
//
// # Large limits
//
// Package lease takes the tokens of a large limit in bundles. It is used over this Store:
//
//	store := lease.New(resilient.New(rdb, "shop", resilient.Instances(4)))
package resilient
