// Package storetest is the conformance suite for any [driver.Store].
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) *storetest.Harness {
//			var clock storetest.Clock
//			return clock.Harness(mystore.New(clock.Micros))
//		})
//	}
//
// Every failure ends with the sentence that says which promise of a Store was
// broken. Beside hand-made cases, random histories are compared, answer for
// answer, with definitions of the algorithms that share no code with package
// driver. The environment variable WEIR_HISTORIES is the number of histories,
// 20 if it is not set.
//
// The example is a complete store, which passes the suite. A [Fake] is a Store for
// tests of what calls Stores: it counts calls, delays them, and makes them fail.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
)

// A Harness is a fresh Store and the power over its clock.
type Harness struct {
	// Store is empty, and shares no state with the Stores of other harnesses.
	Store driver.Store
	// Advance moves the Store's clock, which stands still otherwise, by a whole
	// number of microseconds; back if d is negative. It is never called while
	// the Store is at work.
	Advance func(d time.Duration)
	// Now is what the Store's clock says.
	Now func() time.Time
	// GivesBack is set for a Store that undoes decisions over several keys
	// instead of not beginning them. It may lose state that means nothing any
	// more, which shows if the clock then steps back or the period of a window
	// changes: the histories do neither.
	GivesBack bool
	// FixedPeriods is set for a Store that may count events for longer than the
	// algorithm says after a change of the period or sub-windows of a sliding
	// log or sliding window: the histories do not change them.
	FixedPeriods bool
}

// Run runs the suite. It calls newHarness once for every case, and for every
// history: a Store may forget what means nothing any more, which shows if the
// clock then steps back, so a history begins with nothing to forget.
func Run(t *testing.T, newHarness func(t *testing.T) *Harness) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			c.run(&subject{T: t, Harness: newHarness(t), promise: c.promise, about: c.name, newHarness: newHarness})
		})
	}
}

// A testCase is one promise of a Store and how to see whether it is kept.
type testCase struct {
	name    string
	promise string
	run     func(s *subject)
}

// Do calls s.Take or s.Adjust, as the ops of charges are.
func Do(ctx context.Context, s driver.Store, charges []driver.Charge) error {
	if charges[0].Op.Asks() {
		return s.Take(ctx, charges)
	}
	return s.Adjust(ctx, charges)
}

// An algorithm is a way to make a rule.
type algorithm = testkit.Algorithm

// eachAlgorithm runs f once for every algorithm. f makes rules with the names of the
// algorithms, which share no state.
func eachAlgorithm(f func(s *subject, a algorithm)) func(s *subject) {
	return func(s *subject) {
		for _, a := range testkit.Algorithms {
			s.about = a.Name
			f(s, a)
		}
	}
}
