package lease

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// Take implements [driver.Store]. It takes tokens from leases where it can, and passes the other
// charges to the Store behind in one call. If that call denies, Take returns the tokens to the
// leases. Take returns the errors of the Store behind, and an error if ctx ends. While the Store
// behind fails, Take still spends the held tokens.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	var room [2]grant
	grants := room[:0]
	denies, asks := false, false
	for i := range charges {
		var g grant
		if c := &charges[i]; c.Op == driver.Spend && !denies {
			var err error
			if g, err = s.acquire(ctx, c, len(charges) == 1); err != nil {
				returnTokens(s.clock, charges, grants)
				return err
			}
		}
		denies = denies || g.outcome == denied
		asks = asks || g.outcome == passThrough
		grants = append(grants, g)
	}
	if asks {
		if err := s.takeBehind(ctx, charges, grants, denies); err != nil {
			returnTokens(s.clock, charges, grants)
			return err
		}
		denies = denies || slices.ContainsFunc(charges, func(c driver.Charge) bool {
			return !c.Verdict.Allowed && !c.Rule.Shadow()
		})
	}
	if denies {
		returnTokens(s.clock, charges, grants)
		return nil
	}
	for i := range grants {
		if c, g := &charges[i], &grants[i]; g.outcome == granted && c.Receipt != nil {
			*c.Receipt = g.block.receipt(&g.entry.u)
		}
	}
	return nil
}

// takeBehind passes the charges that leases do not cover to the Store behind. If the decision has
// been denied already, it only fills in their Verdicts.
func (s *Store) takeBehind(ctx context.Context, charges []driver.Charge, grants []grant, denied bool) error {
	asked := make([]driver.Charge, 0, len(charges))
	spends := false
	for i := range charges {
		c := charges[i]
		spends = spends || c.Op == driver.Spend
		if denied {
			c.Op = driver.Peek
		}
		if grants[i].outcome == passThrough {
			asked = append(asked, c)
		}
	}
	sent := s.clock()
	s.calls.Add(1)
	if err := s.next.Take(ctx, asked); err != nil {
		return err
	}
	heard := s.clock()
	for i := range charges {
		if grants[i].outcome != passThrough {
			continue
		}
		c := &charges[i]
		c.Verdict = asked[0].Verdict
		asked = asked[1:]
		if c.Verdict.Unknown {
			continue
		}
		if e := grants[i].entry; e != nil {
			e.remember(c, grants[i].changes, sent, heard)
		}
		// If a Spend depends on this call, the Store behind has decided the Peeks without the
		// tokens held here, and its verdicts stay. Otherwise the held tokens are added to them.
		if denied || !spends {
			s.addHeld(c)
		}
	}
	return nil
}

// maxKeyLength is the length of the longest key that is leased (bytes). Longer keys would fill the
// memory, and hot keys are short.
const maxKeyLength = 256

// leasable reports whether c may be decided in this process. newUnits excludes a few more rules.
func leasable(c *driver.Charge) bool {
	r, a := c.Rule, c.Rule.Algorithm()
	return (a == driver.TokenBucket || a == driver.FixedWindow) && r.Capacity() >= minCapacity &&
		!r.Shadow() && r.Constants().Extra == 0 && len(c.Key) <= maxKeyLength
}

// acquire takes the cost of c from a lease, or denies c, and fills in its Verdict. If alone is
// false, the decision contains other charges. Then a key that is used too seldom for a block is
// passed through, because the other charges may require a call of the Store anyway.
func (s *Store) acquire(ctx context.Context, c *driver.Charge, alone bool) (grant, error) {
	if !leasable(c) {
		return grant{}, nil
	}
	sh := s.shard(c.Key)
	sh.mu.Lock()
	now, cost := s.clock(), int64(c.Cost)
	e := sh.entry(s, c, now)
	if e == nil || cost > e.u.rule.Capacity() {
		sh.mu.Unlock()
		return grant{}, nil
	}
	held := e.held(now)
	switch {
	case held >= cost:
		r := e.reading(now, held, cost)
		g := e.grant(now, cost)
		if e.needsPrefetch(held - cost) {
			startFetch(s, e, now)
		}
		sh.hits++
		sh.mu.Unlock()
		c.Answer(&r, true)
		return g, nil
	case e.cannotAdmit(now, 0, cost, int64(s.config.maxAge)):
		c.Verdict = e.denial(now, 0, cost)
		c.Verdict.Rule = c.Rule // e.u.rule may be another Rule with the same constants
		sh.hits++
		sh.mu.Unlock()
		return grant{outcome: denied}, nil
	case !alone && held == 0 && e.blockSize(now, cost) == 0:
		e.newUse += cost
		g := grant{entry: e, changes: e.changes}
		sh.mu.Unlock()
		return g, nil
	}
	w := &waiter{cost: cost, done: make(chan struct{})}
	e.waiters = append(e.waiters, w)
	if !e.fetching {
		startFetch(s, e, now)
	}
	sh.mu.Unlock()
	return w.await(ctx, &sh.mu, c)
}

// addHeld adds the held tokens to the verdict about c, a Peek that the Store behind has decided.
func (s *Store) addHeld(c *driver.Charge) {
	if !leasable(c) {
		return
	}
	sh := s.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.find(c)
	if e == nil || !e.u.rule.Equivalent(c.Rule) {
		return
	}
	now := s.clock()
	held := e.held(now)
	if held == 0 {
		return
	}
	if r := newReply(&e.u, c, now, now); r.known {
		reading := e.u.reading(r.used-held*e.u.unit, r.left, 0)
		c.Answer(&reading, false)
	}
}
