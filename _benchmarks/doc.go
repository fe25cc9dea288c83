// Package benchmarks compares weir with other limiters for Go. It is a separate
// module, so that users of weir do not download the other limiters.
//
//	make bench
//
// prints every table. Only ratios within one run are meaningful: the limiters of
// one table take turns. README.md has the tables and describes them.
package benchmarks
