package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// decideSplit takes or adjusts charges in one call for each hash slot, all calls at once. Calls
// that spend from a leaky bucket only peek at first, and spend when all others are admitted,
// because a place in a queue can be freed only while it is the last.
func (s *Store) decideSplit(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	calls := s.router.split(charges)
	spends := make(map[int]*call) // of the calls that only peek at first, by index
	for i, c := range calls {
		if len(calls) > 1 && c.queues() {
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
	if failed != nil || !admitted {
		s.undo(ctx, deadline, calls)
	}
	if failed != nil {
		return failed
	}
	for _, c := range calls {
		if err := c.answer(admitted); err != nil {
			return err
		}
		for i, place := range c.places {
			charges[place].Verdict = c.charges[i].Verdict
		}
	}
	return nil
}

// undo undoes the charges that calls have applied, and waits for the undo until the deadline or
// until ctx ends; the undo itself goes on. A charge that cannot be undone stays, and the limit is
// too strict for the length of its period.
func (s *Store) undo(ctx context.Context, deadline time.Time, calls []*call) {
	var undos []*call
	for _, c := range calls {
		if undo := c.undo(); undo != nil {
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
	d := newDeadline(ctx, deadline)
	defer d.stop()
	_, _ = wait(d, done)
}

var errProbeDenied = errors.New("the probe was denied, as after a million probes in half a second")

// Probe implements [driver.Prober]. For each charge it spends one event, by the algorithm of the
// charge, on a separate key in the same hash slot; Redis deletes that key within 2 s. A server that
// rejects writes, such as a replica or one that is out of memory, rejects the probe, too, and so
// does an ACL. Probe returns within [Timeout]. Its errors are those of Take, and do not count in
// [Stats].
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	if err := tooMany(charges); err != nil {
		return err
	}
	var invalid error
	calls := s.router.slots(charges, func(c *call, i int, tag string) {
		key := s.router.keys.probe(tag, charges[i].Rule.Algorithm())
		if slices.Contains(c.keys, key) {
			return
		}
		rule, err := probeRule(charges[i].Rule)
		invalid = cmp.Or(invalid, err)
		c.add(driver.Charge{Rule: rule, Op: driver.Spend, Cost: 1}, key, i)
	})
	if invalid != nil {
		return invalid
	}
	deadline := time.Now().Add(s.timeout)
	each(calls, func(c *call) { s.executor.exec(ctx, deadline, c) })
	admitted, err := outcome(calls)
	if err == nil && !admitted {
		err = errProbeDenied
	}
	return s.failure(ctx, err)
}

// probeRule returns the rule of probes by the algorithm of r. Its states have a TTL of about a
// second at most: a window of half a second, and a sub-window.
func probeRule(r *driver.Compiled) (*driver.Compiled, error) {
	d := r.Definition()
	d.Events, d.Burst, d.Per, d.Shadow = 1_000_000, 0, time.Second/2, false
	return d.Compile()
}
