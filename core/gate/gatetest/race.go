//go:build race

package gatetest

// raceDetector: under it sync.Pool drops values at random, so allocations cannot
// be counted.
const raceDetector = true
