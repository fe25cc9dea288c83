// Package reference is a [driver.Store] for tests of Stores over Stores: a map, a lock, and a
// clock that the test moves.
package reference

import (
	"cmp"
	"context"
	"maps"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A Store is a [driver.Store] in its simplest form. It refuses charges that break the contract.
type Store struct {
	clock func() int64

	mu     sync.Mutex
	states map[place]driver.State
	calls  int
}

// A place is where the State of a rule of a key is.
type place struct {
	key  string
	rule uint64
}

// New returns a Store that reads microseconds from clock.
func New(clock func() int64) *Store {
	return &Store{clock: clock, states: make(map[place]driver.State)}
}

// Calls is how often the Store was asked.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Forget forgets all States of key.
func (s *Store) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.states, func(at place, _ driver.State) bool { return at.key == key })
}

// Take implements [driver.Store].
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	if err := cmp.Or(ctx.Err(), check(charges, true)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	now, admitted := s.clock(), true
	readings := make([]driver.Reading, len(charges))
	for i := range charges {
		c := &charges[i]
		readings[i] = c.Read(s.states[at(c)], now)
		admitted = admitted && (c.Rule.Shadow() || c.Fits(&readings[i]))
	}
	for i := range charges {
		c := &charges[i]
		if state, changed := c.Commit(s.states[at(c)], &readings[i], now, admitted); changed {
			s.states[at(c)] = state
		}
		c.Answer(&readings[i], admitted)
	}
	return nil
}

// Adjust implements [driver.Store].
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	if err := cmp.Or(ctx.Err(), check(charges, false)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	now := s.clock()
	for i := range charges {
		c := &charges[i]
		state := s.states[at(c)]
		r := c.Read(state, now)
		s.states[at(c)] = c.Apply(state, &r, now)
	}
	return nil
}

func at(c *driver.Charge) place { return place{c.Key, c.Rule.ID()} }
