// Package pgstore provides a Store that keeps states in a table of Postgres 14 or newer. It is tested on Postgres 15, 17 and 18,
// with the drivers pgx (github.com/jackc/pgx/v5/stdlib) and lib/pq, and behind PgBouncer.
//
//	db, err := sql.Open("pgx", "postgres://limiter@db.example.com/limits")
//	...
//	db.SetMaxOpenConns(5)
//	db.SetMaxIdleConns(5)
//	api := core.Must(core.New(pgstore.New(db, "shop"), core.SlidingWindow("api", core.PerMinute(100))))
//
// The table must exist: [Schema] returns its statement, and [Migrations] has it as a file. [Store.Check] reports whether the
// table, the role, the driver and a pooler suit the Store.
//
// An application that has to go on while Postgres is down combines the Store with a backup:
//
//	store := failover.New(pgstore.New(db, "shop"), memstore.New())
//
// A decision takes two round trips, and those of concurrent callers share them: on two cores, Postgres makes 3600
// decisions a second for one caller, 36 000 about one key and 20 000 about 10 000 keys for 20 callers. Redis makes three to
// six times as many. For hot keys, packages lease and denycache save nearly all of the statements.
//
// # Decisions
//
// The Store is a [casstore.Store], which makes decisions in rounds. A round reads the rows of all decisions that wait, with the
// time of the server, decides, and changes the rows that are unchanged since. It is two statements, or one if no state changes,
// such as for denials, and three for the first decision of a key that has several rules. No transaction is open between the
// statements, so a process that is stopped holds no lock. A request that has lost its rows to other processes three times
// is decided in a transaction, which locks its rows.
//
// The Store uses no state of sessions, no advisory locks and no LISTEN. It prepares no statement itself: see Poolers.
//
// # Rows
//
// The table has one row for each rule of each key. The columns are the hash of the application, the key and the rule (see
// [KeySecret]), a version that changes with each write, the time from which the state is that of an unused key, and the state. No
// index has the time, so that a write changes no index.
//
// Each process deletes rows that expired a minute ago, of 64 pages of the table a second, or up to 640 if many rows have expired,
// while it makes decisions. It waits for no lock. When the table has more rows than [MaxRows], new keys share overflow rows.
//
// # Durability
//
// The table is unlogged by default: a restart keeps it, and a crash or a failover empties it, after which each key has its whole
// limit again. [Logged] describes the alternative. A logged table on a replica forgets, at a failover, the decisions that were not
// replicated. A decision that fails may have been charged, once.
//
// # Settings
//
// The statements are short, so the role of the Store should have these settings, where limiter is an example:
//
//	ALTER ROLE limiter SET enable_seqscan = off;
//	ALTER ROLE limiter SET lock_timeout = '100ms';
//	ALTER ROLE limiter SET statement_timeout = '1s';
//	ALTER ROLE limiter SET idle_in_transaction_session_timeout = '1s';
//	ALTER ROLE limiter SET synchronous_commit = off; -- for a logged table that may forget the last moments in a crash
//
// Without the first one, a session that begins while the table is small may keep a plan that reads the whole table, until
// autovacuum analyzes it a minute later: decisions then take two to five times as long.
//
// A long transaction in the same database, such as a backup or a report, keeps old versions of rows, which makes decisions about
// hot keys slower from second to second. One in another database of the server does not, unless it writes. A database of its own
// is therefore best for the table, and a [database/sql.DB] of its own for the Store: in that of the application, decisions wait
// behind slow queries. SetMaxIdleConns of it should be the number of [Connections] and one more, because the default of 2 opens
// connections again and again.
//
// # Poolers
//
// Behind a pooler in transaction mode, such as PgBouncer, Supavisor or RDS Proxy, a driver must not prepare statements with names,
// unless the pooler supports them (PgBouncer from 1.21 on, with max_prepared_statements). For pgx, add
// default_query_exec_mode=exec to the connection string; describe_exec is not safe there. For lib/pq, add
// binary_parameters=yes. Set options with ALTER ROLE, because poolers reject the parameter options of a
// connection string.
//
// # Errors
//
// Take and Adjust return a *[casstore.Error], which is a core.ErrUnavailable, if Postgres fails or the deadline passes. A fault of
// the configuration does not end by itself: the table is missing, the role lacks a privilege or has another password, the server is
// a replica, or a pooler mixes up sessions. The text of the error then names the fault, and the Store logs it with
// slog, at most once a minute. Causes have the method SQLState of their driver:
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
package pgstore
