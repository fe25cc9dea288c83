package redisstore

import (
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Adjust implements [driver.Store]. Its errors are those of Take.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.decide(ctx, charges, (*Store).adjustSplit)
}

// adjustSplit adjusts charges that no single call reaches.
func (s *Store) adjustSplit(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	calls := s.router.split(charges)
	each(calls, func(c *call) { s.executor.exec(ctx, deadline, c) })
	if _, failed := outcome(calls); failed != nil {
		return failed
	}
	return answerAll(calls, charges, true)
}
