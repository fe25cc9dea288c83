// Package pgtests tests package pgstore on real Postgres servers, with both drivers: the suite of stores, processes that
// share a table, faults of the server, PgBouncer, and Stores over it. The command make test runs the short tests of this
// package, and make postgres all of them, on the versions of several suites of Debian.
package pgtests
