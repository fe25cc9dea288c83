package lease

import (
	"context"

	"github.com/weir-go/weir/core/driver"
)

// Take implements [driver.Store]. Its errors are those of the Store behind and those of a ctx
// that ends. While the Store behind fails, tokens that are held are still spent.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	if len(charges) == 1 {
		return s.takeOne(ctx, charges)
	}
	return s.takeTogether(ctx, charges)
}

// call asks the Store behind.
func (s *Store) call(ctx context.Context, charges []driver.Charge) error {
	s.calls.Add(1)
	return s.next.Take(ctx, charges)
}

// takeOne decides one charge.
func (s *Store) takeOne(ctx context.Context, charges []driver.Charge) error {
	c := &charges[0]
	if c.Op == driver.Peek {
		if err := s.call(ctx, charges); err != nil {
			return err
		}
		s.reveal(c)
		return nil
	}
	if !s.leasable(c) {
		return s.call(ctx, charges)
	}
	t, o, err := s.acquire(ctx, c, true)
	switch {
	case err != nil:
		return err
	case o == straight:
		return s.call(ctx, charges)
	case o == granted && c.Receipt != nil:
		*c.Receipt = t.receipt(t.cell.m)
	}
	return nil
}

// longest is the longest key that is watched. A hot key is not that long.
const longest = 256

// leasable says whether c may be decided here; [newMeter] knows the rest.
func (s *Store) leasable(c *driver.Charge) bool {
	return leasable(c.Rule) && len(c.Key) <= longest
}

// acquire takes the cost of c out of a lease, or denies it, and fills in its Verdict. If
// patient is not set, a key that is asked for seldom goes straight.
func (s *Store) acquire(ctx context.Context, c *driver.Charge, patient bool) (taken, outcome, error) {
	sh := s.shard(c.Key)
	sh.mu.Lock()
	if sh.closed {
		sh.mu.Unlock()
		return taken{}, straight, nil
	}
	now, cost := s.clock(), int64(c.Cost)
	cell := sh.cell(s, c)
	if cell == nil || cost > cell.m.capacity() {
		sh.mu.Unlock()
		return taken{}, straight, nil
	}
	held := cell.held(now)
	switch {
	case held >= cost:
		v := cell.verdict(now, held, cost, true)
		t := taken{block: cell.spend(now, cost), cell: cell, resets: cell.resets}
		if cell.low(held - cost) {
			s.launch(sh, cell, now)
		}
		sh.hits++
		sh.mu.Unlock()
		setVerdict(c, v)
		return t, granted, nil
	case cell.refuses(now, 0, cost, int64(s.config.maxAge)):
		v := cell.denial(now, 0, cost)
		sh.hits++
		sh.mu.Unlock()
		setVerdict(c, v)
		return taken{}, denied, nil
	case !patient && held == 0 && cell.extra(now, cost) == 0:
		cell.spent += cost
		t := taken{watched: true, changes: cell.changes}
		sh.mu.Unlock()
		return t, straight, nil
	}
	w := &waiter{cost: cost, done: make(chan struct{})}
	cell.queue = append(cell.queue, w)
	if !cell.flying {
		s.launch(sh, cell, now)
	}
	sh.mu.Unlock()
	return s.await(ctx, sh, w, c)
}

// setVerdict gives c the verdict v, which a rule with the constants of c.Rule gave.
func setVerdict(c *driver.Charge, v driver.Verdict) {
	v.Rule = c.Rule
	c.Verdict = v
}

// await waits for the answer to w.
func (s *Store) await(ctx context.Context, sh *shard, w *waiter, c *driver.Charge) (taken, outcome, error) {
	select {
	case <-w.done:
	case <-ctx.Done():
		sh.mu.Lock()
		w.left = true
		settled := w.settled
		sh.mu.Unlock()
		if !settled {
			return taken{}, straight, ctx.Err()
		}
	}
	if w.err == nil && w.outcome != straight {
		setVerdict(c, w.verdict)
	}
	return w.taken, w.outcome, w.err
}

// reveal adds what is held here to the answer to a Peek.
func (s *Store) reveal(c *driver.Charge) {
	if !s.leasable(c) {
		return
	}
	sh := s.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	cell := sh.find(c)
	if cell == nil || !cell.m.measures(c.Rule) {
		return
	}
	now := s.clock()
	held := cell.held(now)
	if held == 0 {
		return
	}
	if r := newReport(cell.m, c, now, now); r.known {
		setVerdict(c, cell.m.verdict(r.used-held*cell.m.unit, r.left, int64(c.Cost), false))
	}
}
