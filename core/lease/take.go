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
	grants := room[:]
	if len(charges) > len(room) {
		grants = make([]grant, len(charges))
	}
	grants = grants[:len(charges)]
	denies, asks := false, false
	bans := len(charges) > 1 && slices.ContainsFunc(charges, isBan)
	for i := range charges {
		g := &grants[i]
		if c := &charges[i]; c.Op == driver.Spend && !c.AtMost && !denies {
			if err := s.acquire(ctx, c, g, len(charges) == 1, bans); err != nil {
				returnTokens(s.clock, charges, grants)
				return err
			}
		}
		denies = denies || g.outcome == denied
		asks = asks || g.outcome == passThrough
	}
	if asks && !(bans && s.answerBans(charges, grants)) {
		if err := s.takeBehind(ctx, charges, grants, denies); err != nil {
			returnTokens(s.clock, charges, grants)
			return err
		}
		denies = denies || slices.ContainsFunc(charges, func(c driver.Charge) bool {
			return !c.Verdict.Allowed && !c.Rule.Shadow
		})
	}
	if denies {
		returnTokens(s.clock, charges, grants)
		return nil
	}
	for i := range grants {
		if c, g := &charges[i], &grants[i]; g.outcome == granted {
			c.Receipt = g.bundle.receipt(&g.account.u)
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
	s.calls.Add(1)
	sent, adjusted := s.clock(), s.bans.Load()
	if err := s.next.Take(ctx, asked); err != nil {
		return err
	}
	heard := s.clock()
	if len(asked) < len(charges) && s.bans.Load() == adjusted {
		s.rememberBans(asked, sent)
	}
	for i := range charges {
		if grants[i].outcome != passThrough {
			continue
		}
		c := &charges[i]
		c.Verdict, c.Receipt, c.Cost = asked[0].Verdict, asked[0].Receipt, asked[0].Cost
		asked = asked[1:]
		if c.Verdict.Unknown {
			continue
		}
		if c.AtMost {
			s.passed(c, heard, nil)
		}
		if a := grants[i].account; a != nil {
			a.remember(c, heard)
		}
		// If this call decided about a Spend, the result depends on the Verdicts of the Peeks, so
		// these stay, without the tokens held here. Otherwise the held tokens are added to them.
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
	r := c.Rule
	return r.Kind.Leases && r.Constants.Capacity >= minCapacity &&
		!r.Shadow && r.Constants.Extra == 0 && r.Headroom == 0 && len(c.Key) <= maxKeyLength
}

// acquire takes the cost of c from a lease, and fills in g, which must be zero, and the
// Verdict of c. If alone is false, the decision contains other charges. Then a key that is used too
// seldom for a bundle is passed through, because the other charges may require a call of the Store
// anyway. If bans is set, a denial may begin a ban, so the Store denies.
func (s *Store) acquire(ctx context.Context, c *driver.Charge, g *grant, alone, bans bool) error {
	if !leasable(c) {
		return nil
	}
	sh, hash := s.shard(c)
	now, cost := sh.lock(s), int64(c.Cost)
	a := sh.account(s, hash, c, now)
	if a == nil || cost > a.u.rule.Constants.Capacity {
		sh.mu.Unlock()
		return nil
	}
	held := a.held(now)
	switch { // the Verdict is computed from copies, after the lock has been released
	case held >= cost:
		*g = a.grant(now, cost)
		if a.needsPrefetch(held - cost) {
			startFetch(s, a, now)
		}
		sh.hits++
		reply := a.reply
		sh.mu.Unlock()
		r := reply.reading(&a.u, now, held, cost)
		c.Answer(&r, true)
		return nil
	case a.rests(now) && !bans:
		sh.hits++
		reply := a.reply
		sh.mu.Unlock()
		g.outcome = denied
		c.Verdict = reply.denial(&a.u, now, held, cost)
		c.Verdict.Rule = c.Rule // that of the account may be another Rule with the same constants
		return nil
	case !alone && held == 0 && a.bundleSize(now, cost) == 0:
		g.account = a
		sh.mu.Unlock()
		return nil
	}
	w := &waiter{cost: cost, done: make(chan struct{})}
	a.waiters = append(a.waiters, w)
	if !a.fetching {
		startFetch(s, a, now)
	}
	sh.mu.Unlock()
	return w.await(ctx, &sh.mu, c, g)
}

// addHeld adds the held tokens to the verdict about c, a Peek that the Store behind has decided.
func (s *Store) addHeld(c *driver.Charge) {
	if !leasable(c) {
		return
	}
	sh, hash := s.shard(c)
	now := sh.lock(s)
	defer sh.mu.Unlock()
	a := sh.find(hash, c)
	if a == nil || a.u.rule.Constants != c.Rule.Constants {
		return
	}
	held := a.held(now)
	if r := newReply(&a.u, c, now); held > 0 && r.known {
		reading := r.reading(&a.u, now, held, 0)
		c.Answer(&reading, false)
	}
}
