//go:build !race

package gatetest

const raceDetector = false
