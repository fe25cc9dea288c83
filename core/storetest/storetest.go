// Package storetest is the conformance suite for any [driver.Store].
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) *storetest.Harness {
//			var clock storetest.Clock
//			return clock.Harness(mystore.New(clock.Micros))
//		})
//	}
//
// Each failure ends with the requirement that the Store violates. In addition to fixed cases, the
// suite makes random sequences of calls, called histories. It compares every verdict with a model
// of the algorithm that shares no code with package driver. In some histories, the limit of a rule
// depends on the charge, as the plan of a caller does. Other histories make calls of two limiters
// whose rules have plans and variants, and are replaced. The environment variable WEIR_HISTORIES
// sets the number of histories of each kind, 20 by default.
//
// A Store over other Stores, such as a cache, passes [RunOver] besides: its histories have Stores behind that fail.
//
// Package casstore is a complete store of any database that passes the suite. A [Fake] is a Store for tests of code
// that calls Stores: it counts calls, delays them, and makes them fail.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// A Harness is an empty Store and the controls of its clock.
type Harness struct {
	// Store must be empty, and must share no state with the Stores of other harnesses.
	Store driver.Store
	// Advance moves the Store's clock by d, a whole number of microseconds. A negative d moves it
	// back. Otherwise the clock must stand still. The suite calls Advance only between calls.
	Advance func(d time.Duration)
	// Now returns the time of the Store's clock.
	Now func() time.Time
	// Undoes must be true for a Store that charges the keys of a decision one after the other, and
	// undoes the charges if one of them is denied. The undo may delete state that no longer
	// counts. The deletion is visible only if the clock then steps back, so in the histories it
	// does not.
	Undoes bool
	// NoRollover must be true for a Store whose states add nothing to a limit, such as the backup of package failover. Quotas of
	// the suite then have no core.Spec.Rollover.
	NoRollover bool
}

// Run runs the suite. It calls newHarness for every case and for every history, and each call must
// return a Harness with an empty Store. The clock of the suite steps back, so a Store may delete a state a day
// after [driver.Compiled.ExpiresAt]. A Store with a test clock need not tell it in driver.Description.Clock.
func Run(t *testing.T, newHarness func(t *testing.T) *Harness) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			c.run(&subject{T: t, Harness: newHarness(t), requirement: c.requirement, about: c.name, newHarness: newHarness})
		})
	}
}

// A testCase tests one requirement of a Store.
type testCase struct {
	name        string
	run         func(s *subject)
	requirement string
}

// Do calls the method of s to which the ops of charges belong, Take or Adjust. The caller must pass
// at least one charge.
func Do(ctx context.Context, s driver.Store, charges []driver.Charge) error {
	if charges[0].Op.Asks() {
		return s.Take(ctx, charges)
	}
	return s.Adjust(ctx, charges)
}

type algorithm = testkit.Algorithm

// eachAlgorithm returns a case that calls the function f for each algorithm. The function must put
// the name of the algorithm into the names of its rules, so that the calls share no state.
func eachAlgorithm(f func(s *subject, a algorithm)) func(s *subject) {
	return func(s *subject) {
		for _, a := range testkit.Algorithms {
			s.about = a.Name
			f(s, a)
		}
	}
}
