package redisstore

import (
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Adjust implements [driver.Store]. Its errors are those of Take.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.do(ctx, charges, (*Store).adjustSplit)
}

// adjustSplit does charges that no single call reaches.
func (s *Store) adjustSplit(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	groups := s.split(charges)
	s.each(groups, func(g *group) { s.run(ctx, deadline, g) })
	if _, failed := outcome(groups); failed != nil {
		return failed
	}
	return answerAll(groups, charges, true)
}
