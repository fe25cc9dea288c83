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
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
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
			c.run(&subject{T: t, Harness: newHarness(t), promise: c.promise, newHarness: newHarness})
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

// A subject is the Store under test.
type subject struct {
	*testing.T
	*Harness
	promise    string
	newHarness func(t *testing.T) *Harness
}

func (s *subject) fail(format string, args ...any) {
	s.Helper()
	s.Fatalf("%s\n\tpromise: %s", fmt.Sprintf(format, args...), s.promise)
}

// limiter is a limiter over the subject.
func (s *subject) limiter(rules ...core.Rule) *core.Limiter {
	s.Helper()
	l, err := core.New(s.Store, rules...)
	if err != nil {
		s.fail("New: %v", err)
	}
	return l
}

// ask asks for n events of key.
func (s *subject) ask(l *core.Limiter, key string, n int) core.Decision {
	s.Helper()
	d, err := l.AllowN(context.Background(), key, n)
	if err != nil {
		s.fail("AllowN(%q, %d): %v", key, n, err)
	}
	return d
}

func (s *subject) admit(l *core.Limiter, key string, n int) core.Decision {
	s.Helper()
	d := s.ask(l, key, n)
	if !d.Allowed {
		s.fail("%d events of %q were denied: %+v", n, key, d)
	}
	return d
}

func (s *subject) deny(l *core.Limiter, key string, n int) core.Decision {
	s.Helper()
	d := s.ask(l, key, n)
	if d.Allowed {
		s.fail("%d events of %q were admitted: %+v", n, key, d)
	}
	return d
}

func (s *subject) peek(l *core.Limiter, key string) core.Decision {
	s.Helper()
	d, err := l.Peek(context.Background(), key)
	if err != nil {
		s.fail("Peek(%q): %v", key, err)
	}
	return d
}

// states returns the states of the rules of l for key. Each rule is asked by itself, because a
// decision that is denied may leave the states of other rules unknown.
func (s *subject) states(l *core.Limiter, key string) (states []core.State) {
	s.Helper()
	for _, rule := range l.Rules() {
		states = append(states, s.peek(s.limiter(rule), key).State(0))
	}
	return states
}

// algorithm is one way to make a rule.
type algorithm struct {
	name string
	rule func(name string, l core.Limit) core.Rule
}

var algorithms = []algorithm{
	{"token_bucket", core.TokenBucket},
	{"sliding_log", core.SlidingLog},
	{"leaky_bucket", core.LeakyBucket},
	{"fixed_window", core.FixedWindow},
	{"sliding_window", core.SlidingWindow},
}

// eachAlgorithm runs f once for every algorithm, on keys that f makes with the
// algorithm's name so that they do not meet.
func eachAlgorithm(f func(s *subject, a algorithm)) func(s *subject) {
	return func(s *subject) {
		for _, a := range algorithms {
			f(s, a)
		}
	}
}
