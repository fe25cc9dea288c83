package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Take implements [driver.Store]. When the deadline passes or Redis fails, the error is
// core.ErrUnavailable; when ctx ends first, it is that of ctx.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	return s.decide(ctx, charges, (*Store).takeSplit)
}

// takeSplit decides charges that no single call reaches.
func (s *Store) takeSplit(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	calls, admitted, failed := s.execAll(ctx, deadline, s.router.split(charges))
	if failed != nil || !admitted {
		s.undo(ctx, deadline, calls)
	}
	if failed != nil {
		return failed
	}
	return answerAll(calls, charges, admitted)
}

// execAll decides calls, all at once, and returns the calls that were executed. A place in a
// queue can be freed only while it is the last, so calls that would take one only peek at
// first, and spend when all others are admitted.
func (s *Store) execAll(ctx context.Context, deadline time.Time, calls []*call) (done []*call, admitted bool, failed error) {
	done = slices.Clone(calls)
	for i, c := range calls {
		if len(calls) > 1 && c.queues() {
			done[i] = c.peek()
		}
	}
	each(done, func(c *call) { s.executor.exec(ctx, deadline, c) })
	admitted, failed = outcome(done)
	for i, c := range calls {
		if done[i] != c && admitted && failed == nil {
			s.executor.exec(ctx, deadline, c)
			done[i], admitted, failed = c, c.admitted, c.err
		}
	}
	return done, admitted, failed
}

// undo undoes the charges that calls have applied, and waits for it until the deadline. It
// goes on when the caller leaves. A charge that cannot be undone stays: the limit is then too
// strict, for the length of its period.
func (s *Store) undo(ctx context.Context, deadline time.Time, calls []*call) {
	var applied []*call
	for _, c := range calls {
		if undo := c.undo(); undo != nil {
			applied = append(applied, undo)
		}
	}
	if len(applied) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lasting := context.WithoutCancel(ctx)
		own := time.Now().Add(s.timeout)
		each(applied, func(c *call) { s.executor.exec(lasting, own, c) })
	}()
	d := newDeadline(ctx, deadline)
	defer d.stop()
	_, _ = wait(d, done)
}

var errProbeDenied = errors.New("a million probes in half a second")

// Probe implements [driver.Prober]. It spends one event, by the algorithm of each charge,
// on a key of its own in the hash slot of the charge, which Redis forgets within 2 s. A
// server that refuses writes, such as a replica or one that is out of memory, refuses
// this one too, and so does an ACL. Probe returns within [Timeout]. Its errors are
// those of Take, and do not count in [Stats].
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

// probeRule is the rule of probes by the algorithm of r. The state that a probe writes
// has a TTL of about a second at most: a window of half a second, and a sub-window.
func probeRule(r *driver.Compiled) (*driver.Compiled, error) {
	d := r.Definition()
	d.Events, d.Burst, d.Per, d.Shadow = 1_000_000, 0, time.Second/2, false
	return d.Compile()
}
