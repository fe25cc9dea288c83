// Package benchmarks measures weir beside other limiters for Go. It is a module
// of its own, so that the peers it imports reach no user.
//
//	make bench
//
// prints every table. Only ratios within one run mean something: the benchmarks
// of one table take turns, and the tables in the documentation are medians of at
// least six runs.
package benchmarks
