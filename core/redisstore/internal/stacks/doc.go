// Package stacks tests the stores and the middleware of other modules over a Store of package redisstore.
package stacks
