package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
		if err := c.answer(admitted || !asks); err != nil {
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

var errProbeDenied = errors.New("the probe was denied, as after a million probes in half a second")

// Probe implements [driver.Prober]. For each charge, it spends one event on a separate key in the
// same hash slot, with the algorithm of the charge, or that of a log for an in-flight rule and of a fixed
// window for a quota. The key expires within 2 s. The probe fails if the server rejects writes, because it
// is a replica, has no free memory or has an ACL that forbids the write. Probe returns within [Timeout]. It
// returns the errors of Take, but [Stats] does not count them.
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	if err := tooMany(charges); err != nil {
		return err
	}
	var invalid error
	calls := s.router.slots(charges, func(c *call, i int, tag string) {
		rule, err := probeRule(charges[i].Rule)
		if err != nil {
			invalid = cmp.Or(invalid, err)
			return
		}
		key := s.router.keys.probe(tag, rule.Algorithm)
		if slices.Contains(c.keys, key) {
			return
		}
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

// probeRule returns the rule of probes for r. An in-flight rule has too few places for the probes of many
// processes, and a quota has no short period. A log and a fixed window need the same permissions. The TTL
// of the states of a probe is the window of half a second plus one sub-window, so at most about a second.
func probeRule(r *driver.Compiled) (*driver.Compiled, error) {
	d := r.Definition
	algorithmOf(d.Algorithm) // panics if there is none
	switch d.Algorithm {
	case driver.InFlight:
		d.Algorithm, d.Hold = driver.SlidingLog, 0
	case driver.Quota:
		d.Algorithm = driver.FixedWindow
	}
	d.Events, d.Burst, d.Per, d.SubWindows, d.Shadow = 1_000_000, 0, time.Second/2, min(d.SubWindows, 1), false
	return d.Compile()
}
