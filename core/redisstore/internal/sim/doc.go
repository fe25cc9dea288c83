// Package sim simulates several processes that share a Redis over a faulty network.
//
// The processes are the real code: core, lease, denycache, failover, redisstore and go-redis run in one
// bubble of testing/synctest, so an hour takes a second. The network and the Redis are simulated: the
// server reads RESP and the arguments of the scripts, and decides with package driver. The suite of
// package storetest runs through it, so a difference to a real Redis is a failing case.
//
//	TestSim          runs scenarios, each a kind of deployment with its faults, and checks the invariants
//	TestConformance  runs storetest
//	TestExpected     faults that are known and not mended yet
//
// Each random choice is a hash of the seed and of its subject, so a seed makes the same faults in each
// run. The order of goroutines differs between runs, unless the runtime is changed: see .ci/exact.
//
// CONTRIBUTING.md says how to read a failure, and how to add a fault, a scenario and an invariant.
package sim
