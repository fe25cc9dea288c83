// Package servertest has servers of Redis whose replies the tests choose, clients of other packages, users with few
// permissions, and waits, for the tests of the packages around redisstore.
package servertest
