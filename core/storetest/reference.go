package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/bounds"
)

// A reference is a simple [driver.Store] that returns an error for charges that violate the
// contract.
type reference struct {
	clock func() int64

	mu     sync.Mutex
	states map[stateKey]driver.State
}

type stateKey struct {
	key  string
	rule uint64
}

func keyOf(c *driver.Charge) stateKey { return stateKey{c.Key, c.Rule.ID} }

func (s *reference) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.states, func(k stateKey, _ driver.State) bool { return k.key == key })
}

// Take implements [driver.Store].
func (s *reference) Take(ctx context.Context, charges []driver.Charge) error {
	if err := cmp.Or(ctx.Err(), check(charges, true)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, admitted := s.clock(), true
	if charges[0].AtMost {
		driver.Reduce(charges, func(i int) driver.Reading { return charges[i].Read(s.states[keyOf(&charges[i])], now) })
	}
	readings := make([]driver.Reading, len(charges))
	for i := range charges {
		c := &charges[i]
		readings[i] = c.Read(s.states[keyOf(c)], now)
		admitted = admitted && (c.Rule.Shadow || c.Fits(&readings[i]))
	}
	for i := range charges {
		c := &charges[i]
		if state, changed := c.Commit(s.states[keyOf(c)], &readings[i], now, admitted); changed {
			s.states[keyOf(c)] = state
		}
		c.Answer(&readings[i], admitted)
	}
	return nil
}

// Adjust implements [driver.Store].
func (s *reference) Adjust(ctx context.Context, charges []driver.Charge) error {
	if err := cmp.Or(ctx.Err(), check(charges, false)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	for i := range charges {
		c := &charges[i]
		state := s.states[keyOf(c)]
		r := c.Read(state, now)
		s.states[keyOf(c)] = c.Apply(state, &r, now)
		c.Answer(&r, false)
	}
	return nil
}

// check returns an error if charges violate the contract of [driver.Store].
func check(charges []driver.Charge, asks bool) error {
	if n := len(charges); n < 1 || n > bounds.Charges {
		return fmt.Errorf("%w: there are %d charges", driver.ErrInvalidCharge, n)
	}
	for i := range charges {
		c := &charges[i]
		switch {
		case c.Key == "":
			return fmt.Errorf("%w: charge %d has no key", driver.ErrInvalidCharge, i)
		case c.Rule == nil:
			return fmt.Errorf("%w: charge %d has no rule", driver.ErrInvalidCharge, i)
		case c.Cost < 1 && c.Op != driver.Reset:
			return fmt.Errorf("%w: charge %d has the cost %d", driver.ErrInvalidCharge, i, c.Cost)
		case c.Op.Asks() != asks || c.Op > driver.Renew || !hasOp(c.Rule, c.Op):
			return fmt.Errorf("%w: charge %d has op %d", driver.ErrInvalidCharge, i, c.Op)
		case c.Rule.Kind.Holds && !c.Rule.ByCost && (c.AtMost || c.Cost > 1):
			return fmt.Errorf("%w: charge %d takes more than one place", driver.ErrInvalidCharge, i)
		case c.AtMost && (c.Op != driver.Spend || c.MaxDelay != 0), c.AtMost != charges[0].AtMost,
			c.AtMost && (c.Key != charges[0].Key || c.Cost != charges[0].Cost):
			return fmt.Errorf("%w: charge %d violates the conditions of AtMost", driver.ErrInvalidCharge, i)
		case c.MaxDelay < 0:
			return fmt.Errorf("%w: charge %d has a negative MaxDelay", driver.ErrInvalidCharge, i)
		case c.Pause < 0 || c.Pause > longestPause:
			return fmt.Errorf("%w: charge %d pauses for %v", driver.ErrInvalidCharge, i, c.Pause)
		}
		for j := range charges[:i] {
			if charges[j].Key == c.Key && charges[j].Rule.ID == c.Rule.ID {
				return fmt.Errorf("%w: charges %d and %d have the same key and rule", driver.ErrInvalidCharge, j, i)
			}
		}
	}
	return nil
}

// hasOp reports whether charges of r may have op.
func hasOp(r *driver.Compiled, op driver.Op) bool {
	switch op {
	case driver.Debit, driver.Credit:
		return !r.Kind.Holds
	case driver.Renew:
		return r.Kind.Holds
	}
	return true
}
