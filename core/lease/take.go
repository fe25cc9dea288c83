package lease

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// Take implements [driver.Store]. Its errors are those of the Store behind and those of a ctx
// that ends. While the Store behind fails, tokens that are held are still spent.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	if len(charges) == 1 {
		return s.takeOne(ctx, charges)
	}
	return s.takeSeveral(ctx, charges)
}

func (s *Store) takeOne(ctx context.Context, charges []driver.Charge) error {
	c := &charges[0]
	if c.Op == driver.Peek {
		if err := s.call(ctx, charges); err != nil {
			return err
		}
		s.addHeld(c)
		return nil
	}
	if !s.leasable(c) {
		return s.call(ctx, charges)
	}
	g, o, err := s.acquire(ctx, c, true)
	switch {
	case err != nil:
		return err
	case o == passThrough:
		return s.call(ctx, charges)
	case o == granted && c.Receipt != nil:
		*c.Receipt = g.receipt(g.entry.u)
	}
	return nil
}

// A part is the result for one charge of a decision.
type part struct {
	grant   grant
	outcome outcome
}

// takeSeveral decides several charges, all or none. It takes tokens from leases where it can,
// and asks the Store about the other charges in one call. If that denies, the tokens are
// restored.
func (s *Store) takeSeveral(ctx context.Context, charges []driver.Charge) error {
	var room [4]part
	parts, deny := room[:0], false
	for i := range charges {
		c, p := &charges[i], part{}
		if c.Op == driver.Spend && !deny && s.leasable(c) {
			var err error
			if p.grant, p.outcome, err = s.acquire(ctx, c, false); err != nil {
				s.restore(charges, parts)
				return err
			}
			deny = p.outcome == denied
		}
		parts = append(parts, p)
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.outcome == passThrough }) {
		if err := s.takeRest(ctx, charges, parts, deny); err != nil {
			s.restore(charges, parts)
			return err
		}
	}
	if deny || deniedBy(charges) {
		s.restore(charges, parts)
		return nil
	}
	for i := range parts {
		if c, g := &charges[i], &parts[i].grant; parts[i].outcome == granted && c.Receipt != nil {
			*c.Receipt = g.receipt(g.entry.u)
		}
	}
	return nil
}

// takeRest asks the Store about the charges that leases do not cover. If the decision has been
// denied, it only fills in their Verdicts.
func (s *Store) takeRest(ctx context.Context, charges []driver.Charge, parts []part, deny bool) error {
	asked := make([]driver.Charge, 0, len(charges))
	for i := range parts {
		if parts[i].outcome == passThrough {
			c := charges[i]
			if deny {
				c.Op = driver.Peek
			}
			asked = append(asked, c)
		}
	}
	sent := s.clock()
	if err := s.call(ctx, asked); err != nil {
		return err
	}
	heard := s.clock()
	// A Peek beside a Spend has to fit in the Store itself, because the Store decided.
	peeked := deny || !slices.ContainsFunc(charges, func(c driver.Charge) bool { return c.Op == driver.Spend })
	for i := range parts {
		if parts[i].outcome != passThrough {
			continue
		}
		c := &charges[i]
		c.Verdict = asked[0].Verdict
		asked = asked[1:]
		if c.Verdict.Unknown {
			continue
		}
		s.remember(c, &parts[i].grant, sent, heard)
		if peeked {
			s.addHeld(c)
		}
	}
	return nil
}

// deniedBy says whether a charge denies the decision.
func deniedBy(charges []driver.Charge) bool {
	for i := range charges {
		if c := &charges[i]; !c.Verdict.Allowed && !c.Rule.Shadow() {
			return true
		}
	}
	return false
}

// call asks the Store behind.
func (s *Store) call(ctx context.Context, charges []driver.Charge) error {
	s.calls.Add(1)
	return s.next.Take(ctx, charges)
}

// maxKeyLength is the length of the longest key that is leased (bytes). Longer ones would fill
// the memory, and hot keys are short.
const maxKeyLength = 256

// leasable says whether c may be decided in this process; [newUnits] excludes a few rules more.
func (s *Store) leasable(c *driver.Charge) bool {
	return leasable(c.Rule) && len(c.Key) <= maxKeyLength
}

// acquire takes the cost of c from a lease, or denies c, and fills in its Verdict. If wait is
// not set, the Store has to decide about a key that is used too seldom for a block.
func (s *Store) acquire(ctx context.Context, c *driver.Charge, wait bool) (grant, outcome, error) {
	sh := s.shard(c.Key)
	sh.mu.Lock()
	if sh.closed {
		sh.mu.Unlock()
		return grant{}, passThrough, nil
	}
	now, cost := s.clock(), int64(c.Cost)
	e := sh.entry(s, c)
	if e == nil || cost > e.u.rule.Capacity() {
		sh.mu.Unlock()
		return grant{}, passThrough, nil
	}
	held := e.held(now)
	switch {
	case held >= cost:
		r := e.reading(now, held, cost)
		g := grant{block: e.spend(now, cost), entry: e, resets: e.resets}
		if e.needsPrefetch(held - cost) {
			s.startFetch(sh, e, now)
		}
		sh.hits++
		sh.mu.Unlock()
		c.Answer(&r, true)
		return g, granted, nil
	case e.cannotAdmit(now, 0, cost, int64(s.config.maxAge)):
		v := e.denial(now, 0, cost)
		sh.hits++
		sh.mu.Unlock()
		setVerdict(c, v)
		return grant{}, denied, nil
	case !wait && held == 0 && e.blockSize(now, cost) == 0:
		e.spent += cost
		g := grant{remember: true, changes: e.changes}
		sh.mu.Unlock()
		return g, passThrough, nil
	}
	w := &waiter{cost: cost, done: make(chan struct{})}
	e.waiters = append(e.waiters, w)
	if !e.fetching {
		s.startFetch(sh, e, now)
	}
	sh.mu.Unlock()
	return s.await(ctx, sh, w, c)
}

// await waits until w is settled or ctx ends.
func (s *Store) await(ctx context.Context, sh *shard, w *waiter, c *driver.Charge) (grant, outcome, error) {
	select {
	case <-w.done:
	case <-ctx.Done():
		sh.mu.Lock()
		w.gone = true
		settled := w.settled
		sh.mu.Unlock()
		if !settled {
			return grant{}, passThrough, ctx.Err()
		}
	}
	if w.err == nil && w.outcome != passThrough {
		setVerdict(c, w.verdict)
	}
	return w.grant, w.outcome, w.err
}

// setVerdict gives c the verdict v, which is that of a rule with the constants of c.Rule.
func setVerdict(c *driver.Charge, v driver.Verdict) {
	v.Rule = c.Rule
	c.Verdict = v
}

// addHeld adds the tokens that are held to the Store's verdict about a Peek.
func (s *Store) addHeld(c *driver.Charge) {
	if !s.leasable(c) {
		return
	}
	sh := s.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.find(c)
	if e == nil || !e.u.match(c.Rule) {
		return
	}
	now := s.clock()
	held := e.held(now)
	if held == 0 {
		return
	}
	if r := newReply(e.u, c, now, now); r.known {
		reading := e.u.reading(r.used-held*e.u.unit, r.left, 0)
		c.Answer(&reading, false)
	}
}

// remember keeps the Store's verdict about a charge that was passed through.
func (s *Store) remember(c *driver.Charge, g *grant, sent, heard int64) {
	if !g.remember {
		return
	}
	sh := s.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.find(c)
	if e == nil || e.changes != g.changes || !e.u.match(c.Rule) || e.reply.known && heard < e.reply.heard {
		return
	}
	e.reply = newReply(e.u, c, sent, heard)
}

// restore puts back the tokens of a decision that was denied or has failed, and makes the
// Verdicts those with nothing taken.
func (s *Store) restore(charges []driver.Charge, parts []part) {
	for i := range parts {
		p, c := &parts[i], &charges[i]
		if p.outcome != granted {
			continue
		}
		sh := s.shard(c.Key)
		sh.mu.Lock()
		if e := p.grant.entry; sh.find(c) == e && !sh.closed {
			now := s.clock()
			e.restore(now, &p.grant)
			r := e.reading(now, e.held(now), 0)
			c.Answer(&r, false)
		}
		sh.mu.Unlock()
	}
}
