package testkit

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// WithoutRace marks a test that the race detector should not slow down, by five to thirty times: its calls take more
// than a second and come from one goroutine or are those of a shorter test, or it counts allocations, of which the race
// detector makes some. With the race detector, with counters of coverage and with -short, the test is skipped. The
// command make test searches the calls of WithoutRace, and runs their tests once more without the race detector, so a
// call has to stand in the function of the test.
//
// With cases, WithoutRace marks these cases of a suite. A case is an element of the name of a test, behind that of the
// function, and each has to call WithoutRace. The second run of make test skips the others.
func WithoutRace(t testing.TB, cases ...string) {
	t.Helper()
	_, path, isCase := strings.Cut(t.Name(), "/")
	if len(cases) > 0 && !isCase {
		return
	}
	marked := len(cases) == 0 || slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return slices.Contains(cases, name) })
	switch {
	case testing.Short() && marked:
		t.Skip("-short leaves out slow tests")
	case Instrumented() && marked:
		t.Skip("runs without the race detector and counters of coverage")
	case os.Getenv("WEIR_MARKED") == "1" && !marked:
		t.Skip("runs with the race detector")
	}
}

// Instrumented reports whether the race detector or counters of coverage are part of the program. They change the
// number of allocations: with the race detector, a sync.Pool drops values at random.
func Instrumented() bool { return raceDetector || testing.CoverMode() != "" }

// SlowCases are the cases of package storetest that take more than a second with the race detector. Their calls come
// from one goroutine.
var SlowCases = []string{
	"Histories", "LimiterHistories", "AnyWindow", "NoDrift", "AlternatingLengths", "AlternatingPlans", "UndoAfterClockSteps",
	"DebitMost", "RetryAfter", "ManyReservations", "Headroom", "HeadroomRetryAfter",
}
