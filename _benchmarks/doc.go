// Package benchmarks compares weir with other limiters for Go. It is a separate
// module, so that users of weir do not download the other limiters.
//
//	make bench
//
// prints every table. Only ratios within one run are meaningful: the benchmarks of
// one table take turns, and the tables in README.md are medians of several runs.
package benchmarks
