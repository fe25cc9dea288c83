// Package casstore makes a store of any database that can read rows and swap them if they are unchanged ("compare and
// swap"). The database implements [Rows], in a hundred lines: _examples/sqlite has those of SQLite, and package
// core/pgstore those of PostgreSQL.
//
//	store := casstore.New(rows, casstore.Application("shop"))
//	limiter, err := core.New(store, core.TokenBucket("api", core.PerMinute(100)))
//
// # Rounds
//
// A decision reads the rows of its rules and the time of the database, computes the new states, and swaps those that have
// changed: two calls of the database, and one for a denial. The decisions that come while a round is under way
// share the next one, so a hot key is read and written once for up to 128 decisions. If another process has changed a row in
// the meantime, nothing of the group of decisions that depend on it is charged, and they are repeated in the next round. After
// three such rounds, the round is made under locks if the database is a [Locker].
//
// Each of the [Connections] makes one round at a time, so the pool of the database should have as many connections for the
// store, and keep them open while they are idle (SetMaxIdleConns of database/sql).
//
// # Failures
//
// After an error of the database, decisions fail with an *[Error], and it is not known whether they are charged. The store
// never repeats them, so that an event is charged at most once. Package failover decides by a backup meanwhile. Places of a
// core.InFlight whose decision has failed, or whose caller has left, are freed as soon as the database can be written.
//
// The store is exact if the database is: reads must see all earlier swaps. It does not count processes: with a backup, name
// their number in failover.Processes. Callers who wait for places ask at least once a second, because the database does not
// tell other processes that a place is free.
package casstore
