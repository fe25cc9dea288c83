//go:build race

package gatetest

// With raceDetector, sync.Pool drops values at random, so allocations cannot be counted.
const raceDetector = true
