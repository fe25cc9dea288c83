package redisstore

import (
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Adjust implements [driver.Store]. Its errors are those of Take.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.do(ctx, charges, (*Store).adjust)
}

// adjust does charges before the deadline.
func (s *Store) adjust(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	if s.oneGroup(charges) {
		g := s.whole(charges)
		s.run(ctx, deadline, &g)
		if g.err != nil {
			return g.err
		}
		return g.adjusted()
	}
	groups := s.split(charges)
	s.each(groups, func(g *group) { s.run(ctx, deadline, g) })
	if _, failed := outcome(groups); failed != nil {
		return failed
	}
	for _, g := range groups {
		if err := g.adjusted(); err != nil {
			return err
		}
		g.report(charges)
	}
	return nil
}
