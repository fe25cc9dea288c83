package redisstore

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// decideSplit takes or adjusts charges in one call for each hash slot. The calls run concurrently.
// A call that spends from a leaky bucket at first only peeks, and spends after all other calls were
// admitted, because only the last place in a queue can be freed.
func (s *Store) decideSplit(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	calls := s.router.split(charges)
	if len(calls) > 1 {
		s.split.Add(1)
	}
	spends := make(map[int]*call) // if calls[i] only peeks, spends[i] is the call that spends
	for i, c := range calls {
		if len(calls) > 1 && c.delays() {
			spends[i], calls[i] = c, c.peek()
		}
	}
	each(calls, func(c *call) { s.executor.exec(ctx, deadline, c) })
	admitted, failed := outcome(calls)
	for i := range calls {
		if c := spends[i]; c != nil && admitted && failed == nil {
			s.executor.exec(ctx, deadline, c)
			calls[i], admitted, failed = c, c.admitted, c.err
		}
	}
	asks := charges[0].Op.Asks()
	if asks && (failed != nil || !admitted) {
		s.undo(ctx, deadline, calls)
	}
	if asks && failed != nil {
		return failed
	}
	for _, c := range calls {
		if c.err != nil {
			continue // the others were applied
		}
		if err := c.setVerdicts(admitted || !asks); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		for i, place := range c.places {
			charges[place].Verdict, charges[place].Receipt = c.charges[i].Verdict, c.charges[i].Receipt
		}
	}
	return failed
}

// undo undoes the charges that calls have applied. It waits at most until the deadline passes or
// ctx ends; the undo continues after that. A charge that cannot be undone remains until it expires,
// so the limit is too strict for one period.
func (s *Store) undo(ctx context.Context, at time.Time, calls []*call) {
	var undos []*call
	for _, c := range calls {
		if undo := c.undo(); len(undo.charges) > 0 {
			undos = append(undos, undo)
		}
	}
	if len(undos) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lasting := context.WithoutCancel(ctx)
		own := time.Now().Add(s.timeout)
		each(undos, func(c *call) { s.executor.exec(lasting, own, c) })
	}()
	d := newDeadline(ctx, at)
	defer d.free()
	_, _ = wait(d, done)
}
