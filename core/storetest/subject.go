package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A subject contains the Store under test and the context of the case.
type subject struct {
	*testing.T
	*Harness
	requirement string
	about       string // the name of the case, or of the algorithm of its rules
	newHarness  func(t *testing.T) *Harness
}

func (s *subject) fail(format string, args ...any) {
	s.Helper()
	s.Fatalf("%s: %s\n\trequirement: %s", s.about, fmt.Sprintf(format, args...), s.requirement)
}

func (s *subject) limiter(rules ...core.Rule) *core.Limiter {
	s.Helper()
	l, err := core.New(s.Store, rules...)
	if err != nil {
		s.fail("New: %v", err)
	}
	return l
}

func (s *subject) allow(l *core.Limiter, key string, n int) core.Decision {
	s.Helper()
	d, err := l.AllowN(context.Background(), key, n)
	if err != nil {
		s.fail("AllowN(%q, %d): %v", key, n, err)
	}
	return d
}

func (s *subject) admit(l *core.Limiter, key string, n int) core.Decision {
	s.Helper()
	d := s.allow(l, key, n)
	if !d.Allowed {
		s.fail("%d events of %q were denied: %+v", n, key, d)
	}
	return d
}

func (s *subject) deny(l *core.Limiter, key string, n int) core.Decision {
	s.Helper()
	d := s.allow(l, key, n)
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

// states returns the states of the rules of l for key. It peeks at each rule by itself, because a
// denied decision may leave the states of other rules unknown.
func (s *subject) states(l *core.Limiter, key string) (states []core.State) {
	s.Helper()
	for _, rule := range l.Rules() {
		states = append(states, s.peek(s.limiter(rule), key).State(0))
	}
	return states
}

func (s *subject) reserve(l *core.Limiter, key string, n int) *core.Reservation {
	s.Helper()
	r, err := l.Reserve(context.Background(), key, n)
	if err != nil {
		s.fail("Reserve(%q, %d): %v", key, n, err)
	}
	return r
}

func (s *subject) settle(r *core.Reservation, cost int) {
	s.Helper()
	if err := r.Settle(context.Background(), cost); err != nil {
		s.fail("Settle(%d): %v", cost, err)
	}
}

// remain fails unless Remaining of the rules of l is want.
func (s *subject) remain(l *core.Limiter, key string, want ...int) {
	s.Helper()
	for i, st := range s.states(l, key) {
		if st.Remaining != want[i] {
			s.fail("%s of %q: got Remaining %d, want %d", st.Rule, key, st.Remaining, want[i])
		}
	}
}

// debit debits n events of the key "k".
func (s *subject) debit(l *core.Limiter, n int) {
	s.Helper()
	if err := l.Debit(context.Background(), "k", n); err != nil {
		s.fail("Debit(%d): %v", n, err)
	}
}

func (s *subject) together(asks ...core.Ask) core.Decision {
	s.Helper()
	d, err := core.AllowTogether(context.Background(), asks...)
	if err != nil {
		s.fail("AllowTogether(%+v): %v", asks, err)
	}
	return d
}

// do applies c to the key "k" under r, without core.New, which rejects two rules of the same name.
func (s *subject) do(r core.Rule, c driver.Charge) driver.Verdict {
	s.Helper()
	return s.charged(testkit.Compiled(r), c).Verdict
}

// charged is do with a rule as Stores get it, and returns the charge with its receipt.
func (s *subject) charged(r *driver.Compiled, c driver.Charge) driver.Charge {
	s.Helper()
	c.Key, c.Rule = "k", r
	charges := []driver.Charge{c}
	if err := Do(context.Background(), s.Store, charges); err != nil {
		s.fail("op %d with cost %d under %s of %d: %v", c.Op, c.Cost, r.StateName, r.Constants.Capacity, err)
	}
	return charges[0]
}

// hammer makes calls from concurrent goroutines and returns the number of admitted events.
func (s *subject) hammer(goroutines, calls int, call func(i int) (core.Decision, error)) int64 {
	s.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for g := range goroutines {
		wg.Go(func() {
			for range calls {
				d, err := call(g)
				if err != nil {
					failed.Store(&err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		s.fail("a call failed: %v", *err)
	}
	return admitted.Load()
}
